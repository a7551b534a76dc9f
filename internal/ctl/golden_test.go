package ctl_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"fairway/internal/ctl"
	"fairway/internal/golden"
	"fairway/internal/levels"
	"fairway/internal/xdstype"
	"fairway/test/plane"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pilotctl runs the program in this process. Its output includes an error and its exit code.
func pilotctl(args ...string) string { return piped(nil, args...) }

// piped is pilotctl with standard input.
func piped(input []byte, args ...string) string {
	var out bytes.Buffer
	cmd := ctl.Command("test")
	cmd.SetIn(bytes.NewReader(input))
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SetArgs(args)
	if err := cmd.ExecuteContext(context.Background()); err != nil {
		fmt.Fprintf(&out, "exit code %d: %v\n", ctl.ExitCode(err), err)
	}
	return out.String()
}

// varies matches output that differs from run to run: times, nonces (the size of a response is a matter of timing), and work done.
var varies = []struct {
	pattern *regexp.Regexp
	instead string
}{
	{regexp.MustCompile(`(connected_at"?: )"[^"]*"`), `${1}"TIME"`},
	{regexp.MustCompile(`((?:_sent|_acked)"?: )"\d+"`), `${1}"NONCE"`},
	{regexp.MustCompile(`("?recomputed"?: )\d+`), `${1}0`},
	{regexp.MustCompile(`\b\d\d:\d\d:\d\d\.\d{3}\b`), `TIME`},
	{regexp.MustCompile(`\d{4}-\d\d-\d\d TIME`), `DATE TIME`},
	{regexp.MustCompile(`since \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`), `since TIME`},
	{regexp.MustCompile(`("(?:at|until|since)"?: )"[^"]*"`), `${1}"TIME"`},
	{regexp.MustCompile(`("turn"?: |\bturn (?:is )?)\d+`), `${1}N`},
	{regexp.MustCompile(`(version"?: )"?[0-9a-f]{16}"?`), `${1}"VERSION"`},
}

func scrub(out, address string) string {
	out = strings.ReplaceAll(out, address, "ADDRESS")
	for _, v := range varies {
		out = v.pattern.ReplaceAllString(out, v.instead)
	}
	return out
}

// TestGolden runs the commands of each archive against a control plane. The commands are the names of the files that begin with "$";
// they find the files in the folder files/ there, also as standard input ("< files/NAME"), and the control plane gets the other files.
// "connect" in the comment names the proxies: name.namespace, followed by "router" or "sotw"; "refuse" names one that refuses a cluster.
func TestGolden(t *testing.T) {
	golden.Run(t, "testdata/*.txtar", commands)
}

func commands(t *testing.T, archive *golden.Archive) {
	opts := plane.Options()
	opts.Grace = 0 // mistakes are shown as such, not as something that waits
	var err error
	if opts.Levels, err = levels.New("info", levels.Control()); err != nil {
		t.Fatal(err)
	}
	p := plane.Start(t, opts)
	dir := t.TempDir()
	for _, f := range archive.Files {
		switch {
		case strings.HasPrefix(f.Name, "files/"):
			path := filepath.Join(dir, f.Name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, f.Data, 0o600)); err != nil {
				t.Fatal(err)
			}
		case !strings.HasPrefix(f.Name, "$"):
			p.Apply(t, f.Name, string(f.Data))
		}
	}
	for i, line := range strings.Split(string(archive.Comment), "\n") {
		words := strings.Fields(line)
		x := plane.Proxy{IP: fmt.Sprintf("10.0.0.%d", 8+i)}
		switch {
		case len(words) > 1 && words[0] == "connect":
			connect(t, p, x, words[1:])
		case len(words) > 2 && words[0] == "refuse":
			x.Name, x.Namespace, _ = strings.Cut(words[1], ".")
			p.Refuse(t, x, xdstype.ClusterURL, words[2], "Cluster "+words[2]+": no such thing")
		}
	}
	for i, f := range archive.Files {
		command, ok := strings.CutPrefix(f.Name, "$ pilotctl ")
		if !ok {
			continue
		}
		command, input, _ := strings.Cut(command, " < ")
		args := words(command)
		if i := slices.Index(args, "--address"); i < 0 || !strings.Contains(args[i+1], ":") { // or it is a filter
			args = append(args, "--address", p.Discovery.HTTPAddr())
		}
		for i, a := range args {
			if strings.HasPrefix(a, "files/") {
				args[i] = filepath.Join(dir, a)
			}
		}
		got := strings.ReplaceAll(scrub(piped(archive.File(input), args...), p.Discovery.HTTPAddr()), dir+"/", "")
		archive.ResultAt(t, i, got)
	}
}

// words splits a command at spaces that are not in single quotes.
func words(command string) (out []string) {
	for i, part := range strings.Split(command, "'") {
		if i%2 == 1 {
			out = append(out, part)
			continue
		}
		out = append(out, strings.Fields(part)...)
	}
	return out
}

func connect(t *testing.T, p *plane.Plane, x plane.Proxy, words []string) {
	x.Name, x.Namespace, _ = strings.Cut(words[0], ".")
	for _, w := range words[1:] {
		switch w {
		case "router":
			x.Type, x.Labels = "router", map[string]string{"istio": "ingressgateway"}
		case "sotw":
			x.SotW = true
		}
	}
	p.Connect(t, x)
}
