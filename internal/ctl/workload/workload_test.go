package workload

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io/fs"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fairway/internal/golden"
	"fairway/internal/identity"
	"fairway/internal/identity/authn"
)

// state returns a control plane's folder with a root that expires after a lifetime.
func state(t *testing.T, life time.Duration) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	form := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{Organization: []string{"test"}},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(life),
		IsCA:                  true,
		BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, form, form, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	put(t, filepath.Join(dir, rootFile), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	return dir
}

func put(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// call runs the command line.
func call(args ...string) (string, error) {
	c, out := Command(), &bytes.Buffer{}
	c.SetOut(out)
	c.SetErr(out)
	c.SetArgs(append([]string{"config"}, args...))
	err := c.Execute()
	return out.String(), err
}

// TestGolden: each archive's first line is a command line; its files are the input and, in out/, the wanted output.
func TestGolden(t *testing.T) {
	golden.Run(t, "testdata/*.txtar", func(t *testing.T, a *golden.Archive) {
		ca, dir := state(t, time.Hour), t.TempDir()
		for _, f := range a.Files {
			if !strings.HasPrefix(f.Name, "out/") {
				put(t, filepath.Join(dir, f.Name), string(f.Data))
			}
		}
		t.Chdir(dir)
		if _, err := call(append(strings.Fields(string(a.Comment)), "--caStateDir", ca, "-o", "out")...); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{envFile, meshFile, hostsFile, unitFile, entryFile} {
			text, err := os.ReadFile(filepath.Join("out", name))
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
			a.Result(t, "out/"+name, string(text))
		}
	})
}

// TestSecretsAndModes: only its owner may read the token, which names the workload; the root is the control plane's; no other user may look
// into the folder.
func TestSecretsAndModes(t *testing.T) {
	ca, out := state(t, time.Hour), filepath.Join(t.TempDir(), "deep", "out")
	if _, err := call("--name", "shop", "-n", "default", "-s", "web", "--ingressIP", "10.0.0.1", "--caStateDir", ca, "-o",
		out); err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]os.FileMode{".": 0o700, tokenFile: 0o600, rootFile: 0o644, envFile: 0o644, unitFile: 0o644} {
		if info, err := os.Stat(filepath.Join(out, name)); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v, want %v", name, info, err, mode)
		}
	}
	all, err := authn.NewJoinTokens(ca, time.Now, slog.New(slog.DiscardHandler)).List()
	if err != nil || len(all) != 1 ||
		all[0].ID != (identity.ID{TrustDomain: "cluster.local", Namespace: "default", ServiceAccount: "web"}) ||
		time.Until(all[0].Expires) > time.Hour {
		t.Errorf("tokens: %+v, %v", all, err)
	}
	token, err := os.ReadFile(filepath.Join(out, tokenFile))
	if err != nil || !strings.HasPrefix(string(token), authn.JoinPrefix+all[0].Name+".") {
		t.Errorf("token %q, %v", token, err)
	}
	a, _ := os.ReadFile(filepath.Join(ca, rootFile))
	b, _ := os.ReadFile(filepath.Join(out, rootFile))
	if len(a) == 0 || !bytes.Equal(a, b) {
		t.Error("the root is not the control plane's")
	}
	beside, err := os.ReadDir(filepath.Dir(out))
	if err != nil || len(beside) != 1 {
		t.Errorf("left beside the folder: %v, %v", beside, err)
	}
}

// TestReplacing: a folder of this command is replaced as a whole if the user asks for it; any other folder is never replaced.
// TestSeveralControlPlanes: the files name all of them, for configuration and for certificates.
func TestSeveralControlPlanes(t *testing.T) {
	ca, out := state(t, time.Hour), filepath.Join(t.TempDir(), "out")
	if _, err := call("--name", "shop", "-n", "default", "-s", "web", "--discoveryAddress", "a:15012,b:15012", "--caStateDir", ca,
		"-o", out); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{envFile: "CA_ADDR='a:15012,b:15012'", meshFile: "discoveryAddress: a:15012,b:15012"} {
		text, err := os.ReadFile(filepath.Join(out, name))
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: %v, %s; want %s", name, err, text, want)
		}
	}
}

func TestReplacing(t *testing.T) {
	ca, out := state(t, time.Hour), filepath.Join(t.TempDir(), "out")
	args := []string{"--name", "shop", "-n", "default", "--ingressIP", "10.0.0.1", "--caStateDir", ca, "-o", out}
	if _, err := call(append(args, "--address", "10.0.0.2")...); err != nil {
		t.Fatal(err)
	}
	if _, err := call(args...); err == nil || !strings.Contains(err.Error(), "--overwrite") {
		t.Errorf("written already: %v", err)
	}
	if _, err := call(append(args, "--overwrite")...); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(out, entryFile)); err == nil {
		t.Error("a file of the folder before is left")
	}
	put(t, filepath.Join(out, "mine"), "")
	if _, err := call(
		append(args, "--overwrite")...); err == nil ||
		!strings.Contains(err.Error(), "holds mine, which this command did not write") {
		t.Errorf("another's: %v", err)
	}
	if all, _ := authn.NewJoinTokens(ca, time.Now, slog.New(slog.DiscardHandler)).List(); len(all) != 2 {
		t.Errorf("%d tokens were made, want one for each folder written", len(all))
	}
}

func TestMistakes(t *testing.T) {
	ca, dir := state(t, time.Hour), t.TempDir()
	out := filepath.Join(dir, "out")
	group := put(
		t,
		filepath.Join(dir, "group.yaml"),
		"apiVersion: networking.istio.io/v1\nkind: WorkloadGroup\nmetadata: {name: a, namespace: default}\nspec: "+
			"{template: {}, probe: {httpGet: {port: 1, scheme: FTP}}}\n",
	)
	key := put(t, filepath.Join(dir, "key.pem"), "-----BEGIN PRIVATE KEY-----\nAA==\n-----END PRIVATE KEY-----\n")
	empty := put(t, filepath.Join(dir, "empty"), "\n")
	large := put(t, filepath.Join(dir, "large"), "")
	if err := os.Truncate(large, 64<<20+1); err != nil {
		t.Fatal(err)
	}
	who := []string{"--name", "shop", "-n", "default"}
	good := append(who[:2:2], "-n", "default", "--ingressIP", "10.0.0.1", "--caStateDir", ca, "-o", out)
	for _, c := range []struct {
		args []string
		want []string
	}{
		{
			nil,
			[]string{
				"name a WorkloadGroup's file with -f", "--namespace: missing",
				"--discoveryAddress, or its address with --ingressIP", "--output: missing",
			},
		},
		{[]string{"-f", filepath.Join(dir, "none")}, []string{"-f: open", "no such file"}},
		{[]string{"-f", group, "-o", out}, []string{"group.yaml:4", "spec.probe.httpGet.scheme", "one of [HTTP, HTTPS]"}},
		{[]string{"-f", empty}, []string{"holds no valid WorkloadGroup"}},
		{[]string{"-f", empty, "--name", "x"}, []string{`no valid WorkloadGroup "x"`}},
		{append(who, "--discoveryAddress", "nowhere", "-o", out), []string{`--discoveryAddress: "nowhere"; want host:port`}},
		{append(who, "--discoveryAddress", "10.0.0.1:1", "--ingressIP", "10.0.0.2", "-o", out), []string{"is at an address already"}},
		{append(who, "-n", "default", "--discoveryAddress", "10.0.0.1:1,10.0.0.2", "-o", out), []string{`"10.0.0.2"; want host:port`}},
		{append(good, "--discoveryAddress", "a:1,b:1"), []string{"--discoveryAddress names several"}},
		{append(good, "--ingressIP", "x"), []string{`--ingressIP: "x" is not an IP address`}},
		{append(good, "--interception", "MAYBE"), []string{"want REDIRECT, TPROXY or NONE"}},
		{append(good, "--directory", "a b"), []string{"--directory", "absolute path"}},
		{
			append(good, "--caStateDir", filepath.Join(dir, "nowhere")),
			[]string{"the control plane's root", "--caStateDir, or give the root with --root"},
		},
		{append(good, "--caStateDir", state(t, -time.Minute)), []string{"no certificate in PEM that is valid still"}},
		{append(good, "--root", key), []string{"holds a private key, which no machine may have"}},
		{append(good, "--root", empty), []string{"no certificate in PEM"}},
		{append(good, "--tokenFile", empty), []string{"is empty"}},
		{append(good, "--tokenFile", filepath.Join(dir, "none")), []string{"--tokenFile: open"}},
		{[]string{"-f", large}, []string{"-f: ", large, "more than 67108864 bytes"}},
		{append(good, "--root", large), []string{"--root: ", large, "more than 16777216 bytes"}},
		{append(good, "--tokenFile", large), []string{"--tokenFile: ", large, "more than 65536 bytes"}},
		{append(good, "--tokenDuration", "0s"), []string{"a join token of 0s"}},
		{append(good, "-l", "app=it's"), []string{"CANONICAL_SERVICE", "single quote"}},
		{append(good, "-s", "a/b"), []string{"invalid identity"}},
		{append(good, "-o", filepath.Join(empty, "out")), []string{"--output"}},
	} {
		_, err := call(c.args...)
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v: %v, want %q", c.args, err, want)
			}
		}
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("a mistake left a folder behind")
	}
	if all, _ := authn.NewJoinTokens(ca, time.Now, slog.New(slog.DiscardHandler)).List(); len(all) != 0 {
		t.Errorf("mistakes made tokens: %+v", all)
	}
}
