package ctl_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"fairway/internal/config"
	"fairway/internal/ctl"
	"fairway/internal/golden"
	"fairway/internal/store"
	"fairway/test/platform/registry/etcdserver"
	"fairway/test/rig"
)

// keeping runs pilotctl with a standard input. Its output includes an error and its exit code.
func keeping(stdin string, args ...string) string {
	var out bytes.Buffer
	cmd := ctl.Command("test")
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SetIn(strings.NewReader(stdin))
	cmd.SetArgs(args)
	if err := cmd.ExecuteContext(context.Background()); err != nil {
		fmt.Fprintf(&out, "exit code %d: %v\n", ctl.ExitCode(err), err)
	}
	return out.String()
}

var stamps = regexp.MustCompile(`20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ`)

// TestKeepGolden runs the commands of each archive in a folder with its other files, on an etcd of its own. A command is
// "$ pilotctl ARGS", with "EDITOR=… " before pilotctl, and "< FILE" behind all.
func TestKeepGolden(t *testing.T) {
	golden.Run(t, "testdata/keep/*.txtar", keepGolden)
}

func keepGolden(t *testing.T, archive *golden.Archive) {
	verbsGolden(t, archive, etcdserver.Start(t, etcdserver.Options{}).URL())
}

// TestFolderGolden is TestKeepGolden without an etcd.
func TestFolderGolden(t *testing.T) {
	golden.Run(t, "testdata/folder/*.txtar", func(t *testing.T, archive *golden.Archive) {
		t.Setenv("HOME", t.TempDir())
		t.Setenv("KUBECONFIG", "")
		t.Setenv("FAIRWAY_DEV", filepath.Join(t.TempDir(), "none"))
		verbsGolden(t, archive, "")
	})
}

func verbsGolden(t *testing.T, archive *golden.Archive, etcd string) {
	dir := t.TempDir()
	t.Chdir(dir)
	t.Setenv("FAIRWAY_STORE", etcd)
	t.Setenv("TMPDIR", dir)
	for i, f := range archive.Files {
		line, command := strings.CutPrefix(f.Name, "$ ")
		if !command {
			if err := os.MkdirAll(filepath.Dir(f.Name), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(f.Name, f.Data, 0o600); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if file, is := strings.CutPrefix(line, "cat "); is {
			text, err := os.ReadFile(file)
			if err != nil {
				text = []byte(err.Error() + "\n")
			}
			archive.ResultAt(t, i, string(text))
			continue
		}
		before, args, _ := strings.Cut(line, "pilotctl ")
		args, from, _ := strings.Cut(args, " < ")
		t.Setenv("VISUAL", "")
		t.Setenv("EDITOR", strings.TrimSpace(strings.TrimPrefix(before, "EDITOR=")))
		var stdin []byte
		if from != "" {
			var err error
			if stdin, err = os.ReadFile(from); err != nil {
				t.Fatal(err)
			}
		}
		got := stamps.ReplaceAllString(keeping(string(stdin), strings.Fields(args)...), "TIME")
		if etcd != "" {
			got = strings.ReplaceAll(got, etcd, "URL")
		}
		got = strings.ReplaceAll(got, dir, "DIR")
		got = regexp.MustCompile(`pilotctl-\d+`).ReplaceAllString(got, "pilotctl-N")
		archive.ResultAt(t, i, got)
	}
}

const keptRule = `apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: %s, namespace: shop}
spec:
  selector: {istio: ingressgateway}
  servers: [{port: {number: %d, name: http, protocol: HTTP}, hosts: ["*"]}]
`

// TestKeepEditConflict: another client changes the object while it is open in an editor.
func TestKeepEditConflict(t *testing.T) {
	s := etcdserver.Start(t, etcdserver.Options{})
	dir := t.TempDir()
	t.Setenv("FAIRWAY_STORE", s.URL())
	t.Setenv("TMPDIR", dir)
	if got := keeping(fmt.Sprintf(keptRule, "front", 80), "apply", "-f", "-"); got != "Gateway/shop/front created\n" {
		t.Fatal(got)
	}
	// The editor changes the object first as another user does, then the file.
	other := rig.Write(t, dir, "other", fmt.Appendf(nil, keptRule, "front", 81))
	opened, closed := filepath.Join(dir, "opened"), filepath.Join(dir, "closed")
	script := rig.Write(t, dir, "editor", fmt.Appendf(nil,
		"set -e\nmkfifo %s %s\necho > %s\ncat %s\nsed -i s/80/82/ \"$1\"\n", opened, closed, opened, closed))
	t.Setenv("EDITOR", "touch "+filepath.Join(dir, "begun")+"; sh "+script)
	ended := make(chan string)
	go func() { ended <- keeping("", "edit", "gw/front", "-n", "shop") }()
	rig.Eventually(t, func() error {
		_, err := os.Stat(closed)
		return err
	})
	if _, err := os.ReadFile(opened); err != nil {
		t.Fatal(err)
	}
	if got := keeping("", "apply", "-f", other); got != "Gateway/shop/front configured\n" {
		t.Fatal(got)
	}
	if err := os.WriteFile(closed, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	got := <-ended
	for _, want := range []string{
		"exit code 1", "Gateway shop/front was changed by somebody else: it is in resourceVersion 3, and the change was made of 2",
		"what you wrote is in " + dir,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %s", want, got)
		}
	}
	if got := keeping("", "get", "gw/front", "-n", "shop", "-o", "yaml"); !strings.Contains(got, "number: 81") {
		t.Errorf("stored is %s", got)
	}
}

// TestKeepManyObjects: more objects than one transaction takes are stored; two clients that store the same objects at once lose nothing.
func TestKeepManyObjects(t *testing.T) {
	s := etcdserver.Start(t, etcdserver.Options{})
	t.Setenv("FAIRWAY_STORE", s.URL())
	var all strings.Builder
	const n = 2*store.MaxChanges + 1
	for i := range n {
		fmt.Fprintf(&all, "---\n"+keptRule, fmt.Sprint("g", i), 80)
	}
	if got := keeping(all.String(), "apply", "-f", "-"); strings.Count(got, " created\n") != n {
		t.Error(got)
	}
	if got := keeping(all.String(), "apply", "-f", "-"); strings.Count(got, " unchanged\n") != n {
		t.Error(got)
	}
	bad := all.String() + "---\n" + strings.Replace(fmt.Sprintf(keptRule, "new", 80), "selector", "selectr", 1)
	if got := keeping(bad, "apply", "-f", "-"); !strings.Contains(got, "nothing was written") || strings.Contains(got, "configured") {
		t.Error(got)
	}
	if got := keeping("", "get", "gateways", "-A", "-o", "name"); strings.Count(got, "\n") != n {
		t.Error(got)
	}
	ended := make(chan string)
	for i := range 4 {
		go func() { ended <- keeping(fmt.Sprintf(keptRule, "g0", 8000+i), "apply", "-f", "-") }()
	}
	for range 4 {
		if got := <-ended; got != "Gateway/shop/g0 configured\n" {
			t.Error(got)
		}
	}
	large := fmt.Sprintf(keptRule, "large", 80) + "# " + strings.Repeat("x", 1_400_000) + "\n"
	if got := keeping(large, "apply", "-f", "-"); got != "Gateway/shop/large created\n" {
		t.Error(got)
	}
	if got := keeping(large+"# "+strings.Repeat("x", 1_000_000), "apply", "-f", "-"); !strings.Contains(got, "larger than etcd takes") {
		t.Error(got)
	}
}

// TestKeepStoreRefuses: the store's own package decides, so that no verb can bypass it.
func TestKeepStoreRefuses(t *testing.T) {
	s := etcdserver.Start(t, etcdserver.Options{})
	decoder, err := config.NewDecoder(config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	kept, err := store.Open(t.Context(), s.Reach(), store.Layout{}, decoder)
	if err != nil {
		t.Fatal(err)
	}
	defer kept.Close()
	key := config.Key{Kind: config.Gateway, Namespace: "shop", Name: "front"}
	for _, text := range []string{"kind: [", fmt.Sprintf(keptRule, "other", 80), fmt.Sprintf(keptRule, "front", 0)} {
		if _, err := kept.Commit(t.Context(), []store.Change{{Key: key, Text: []byte(text)}}); err == nil {
			t.Errorf("stored is %s", text)
		}
	}
	if _, there, err := kept.Get(t.Context(), key); there || err != nil {
		t.Error(there, err)
	}
}
