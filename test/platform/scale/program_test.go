package scale_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"fairway/internal/xdstype"
	"fairway/test/ads"
	"fairway/test/plane"
	"fairway/test/rig"
)

var discovery = rig.Program{Name: "pilot-discovery"}

func TestMain(m *testing.M) { os.Exit(rig.Main(m, &discovery)) }

// program is pilot-discovery as users run it.
type program struct {
	*rig.Process
	grpc, http string
	reader     *ads.Reader
	clients    []*ads.Timed
}

// launch starts a program that reads a folder, and the registry of an entry of the registries file; empty: none.
func launch(t *testing.T, folder, entry string) *program {
	t.Helper()
	p := &program{
		grpc: fmt.Sprintf("127.0.0.1:%d", rig.FreePort(t)), http: fmt.Sprintf("127.0.0.1:%d", rig.FreePort(t)), reader: ads.NewReader(),
	}
	dir := t.TempDir()
	args := []string{"--registries=", "--meshConfig=", "--networksConfig=", "--configDir=" + folder}
	if entry != "" {
		args = append(args, "--registriesConfig="+rig.Write(t, dir, "registries", []byte("registries:\n- "+entry+"\n")))
	}
	p.Process = rig.ControlPlane{
		Command: rig.Command{Path: discovery.Path(t), Dir: dir, Args: args}, GRPC: p.grpc, HTTP: p.http,
	}.Launch(t)
	return p
}

func (p *program) page(path string) (string, error) { return rig.Page("http://" + p.http + path) }

// profile keeps one of the program's profiles if the command line says so.
func (p *program) profile(t *testing.T, page, name string) {
	rig.KeepProfile(t, *profiles, "http://"+p.http+"/debug/pprof/"+page, name)
}

// rows is how many the program has computed so far.
func (p *program) rows(t *testing.T) float64 {
	t.Helper()
	n, err := rig.Metric("http://"+p.http+"/metrics", "fairway_rows_recomputed_total")
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// join connects proxies until there are n, and returns once each holds all services. They connect ten at a time, because this process plays
// them all.
func (p *program) join(t *testing.T, n, services int) {
	t.Helper()
	for len(p.clients) < n {
		p.come(t, min(len(p.clients)+10, n), services)
	}
}

func (p *program) come(t *testing.T, n, services int) {
	t.Helper()
	for i := len(p.clients); i < n; i++ {
		who := plane.Proxy{Name: fmt.Sprintf("client-%d", i), Namespace: "shop", IP: fmt.Sprintf("10.9.%d.%d", i/250, i%250+1)}
		x := ads.NewTimed(who.Node(), p.reader)
		if err := x.Connect(context.Background(), p.grpc); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(x.Disconnect)
		p.clients = append(p.clients, x)
	}
	for _, x := range p.clients {
		rig.Eventually(t, func() error {
			if have := len(x.Names(xdstype.EndpointURL)); !x.Complete() || have < services {
				return fmt.Errorf("%s holds %d load assignments: %s", x.Node.Id, have, x.State())
			}
			return nil
		})
	}
}

// live is how many bytes the program holds: objects on its heap after a collection, and stacks. It does not count memory that was not given
// back yet, which depends on other work of the machine.
func (p *program) live(t *testing.T) (n int) {
	t.Helper()
	text, err := p.page("/debug/pprof/heap?gc=1&debug=1")
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{"\n# HeapAlloc = ", "\n# Stack = "} {
		var bytes int
		_, rest, has := strings.Cut(text, word)
		if _, err := fmt.Sscan(rest, &bytes); err != nil || !has {
			t.Fatalf("no%sis told: %v", word, err)
		}
		n += bytes
	}
	return n
}
