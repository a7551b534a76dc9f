package compiletest

import (
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/google/go-cmp/cmp"

	"fairway/internal/mesh"
)

// Golden runs every script of a folder as a test of its own. update rewrites what is expected.
func Golden(t *testing.T, pattern string, update bool) {
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts at %s: %v", pattern, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) { golden(t, file, update) })
	}
}

// script is one archive while it runs.
type script struct {
	*World
	archive *txtar.Archive
	update  bool
	changed bool
}

func golden(t *testing.T, file string, update bool) {
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s := &script{World: New(t), archive: archive, update: update}
	for line := range strings.Lines(string(archive.Comment)) {
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		s.run(t, words)
	}
	if s.changed {
		if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func (s *script) run(t *testing.T, words []string) {
	t.Helper()
	at := func(n int) string {
		if n < len(words) {
			return words[n]
		}
		return ""
	}
	switch words[0] {
	case "apply":
		s.Apply(s.file(t, at(1)))
	case "delete":
		namespace, name, _ := strings.Cut(at(2), "/")
		s.Delete(at(1), namespace, name)
	case "connect":
		s.Connect(parseProxy(words[1:]))
	case "disconnect":
		s.disconnect(at(1))
	case "report":
		s.report(at(1), at(2), at(3))
	case "silent":
		s.In.Health.Delete(sidecarID(at(1)))
	case "heard":
		s.In.HealthHeard.Set(struct{}{}, true)
	case "cmp":
		s.Settle()
		s.expect(t, at(1), s.Print(strings.ReplaceAll(at(2), "_", " "), at(3)))
	case "names":
		s.Settle()
		s.expect(t, at(1), s.NameText())
	case "problems":
		s.Settle()
		s.expect(t, at(1), s.ProblemText())
	default:
		t.Fatalf("unknown command %q", words[0])
	}
}

func (s *script) disconnect(name string) {
	namespace := name[strings.LastIndexByte(name, '.')+1:]
	for _, kind := range []string{"sidecar", "router"} {
		s.In.Proxies.Delete(mesh.ProxyID(kind + "~" + name + "~" + namespace))
	}
}

// report stages what a sidecar's agent says: the proxy as connect has it, with the service account that comes after its name.
func (s *script) report(who, address, state string) {
	name, account, _ := strings.Cut(who, "@")
	p := parseProxy([]string{"sidecar", name, address})
	p.ServiceAccount = account
	p.Name, p.Workload, _ = strings.Cut(p.Name, "=")
	p.Standing = mesh.Proven
	from, _ := netip.ParseAddr(p.IP)
	s.In.Health.Set(p.ID, mesh.HealthReport{Proxy: p, From: from, Healthy: state == "healthy", Detail: state})
}

func sidecarID(name string) mesh.ProxyID {
	return mesh.ProxyID("sidecar~" + name + "~" + name[strings.LastIndexByte(name, '.')+1:])
}

// parseProxy reads the words of connect after the command.
func parseProxy(words []string) mesh.Proxy {
	kind, name, ips := words[0], words[1], words[2]
	ip, _, _ := strings.Cut(ips, ",")
	dot := strings.LastIndexByte(name, '.')
	p := mesh.Proxy{ID: mesh.ProxyID(kind + "~" + name + "~" + name[dot+1:]), Name: name[:dot], Namespace: name[dot+1:], IP: ip, IPs: ips}
	if kind == "router" {
		p.Type = mesh.Router
	}
	rest := words[3:]
	if len(rest) > 0 && rest[0] != "-" {
		p.Labels = mesh.Labels(rest[0])
	}
	switch {
	case slices.Contains(rest, "none"):
		p.Interception = mesh.None
	case slices.Contains(rest, "tproxy"):
		p.Interception = mesh.TProxy
	}
	p.AutoVIP = slices.Contains(rest, "vip")
	p.Names = slices.Contains(rest, "dns")
	p.Mutual = slices.Contains(rest, "mutual")
	return p
}

func (s *script) file(t *testing.T, name string) string {
	t.Helper()
	for _, f := range s.archive.Files {
		if f.Name == name {
			return string(f.Data)
		}
	}
	t.Fatalf("the archive has no file %q", name)
	return ""
}

// expect compares output with a file of the archive.
func (s *script) expect(t *testing.T, name, got string) {
	t.Helper()
	i := slices.IndexFunc(s.archive.Files, func(f txtar.File) bool { return f.Name == name })
	if i < 0 {
		s.archive.Files = append(s.archive.Files, txtar.File{Name: name})
		i = len(s.archive.Files) - 1
	}
	if want := string(s.archive.Files[i].Data); got != want {
		if s.update {
			s.archive.Files[i].Data, s.changed = []byte(got), true
			return
		}
		t.Errorf("%s (-want +got):\n%s", name, cmp.Diff(want, got))
	}
}
