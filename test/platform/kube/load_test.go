package kube_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"fairway/test/ads"
	"fairway/test/plane"
	"fairway/test/platform/kube/cluster"
	"fairway/test/rig"
)

// profiles is a folder; empty: no profile is kept.
var profiles = flag.String("profiles", "", "where the scale test keeps the program's profiles")

var discovery = rig.Program{Name: "pilot-discovery"}

func TestMain(m *testing.M) {
	if kubeconfig := os.Getenv(decodes); kubeconfig != "" {
		if err := decode(kubeconfig); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		return
	}
	os.Exit(rig.Main(m, &discovery))
}

// program is pilot-discovery as users run it, that reads a cluster.
type program struct {
	*rig.Process
	grpc, http string
	cluster    *cluster.Cluster
	services   int // in the cluster
	reader     *ads.Reader
	clients    []*ads.Timed
}

// launch starts the program and returns once it serves.
func launch(t *testing.T, c *cluster.Cluster, services int) *program {
	t.Helper()
	p := &program{
		cluster: c, services: services, reader: ads.NewReader(),
		grpc: fmt.Sprintf("127.0.0.1:%d", rig.FreePort(t)), http: fmt.Sprintf("127.0.0.1:%d", rig.FreePort(t)),
	}
	path := discovery.Path(t)
	begun := time.Now()
	p.Process = rig.ControlPlane{
		Command: rig.Command{Path: path, Dir: t.TempDir(), Args: []string{
			"--registries=Kubernetes", "--kubeconfig=" + c.Kubeconfig(t, nil, "program", "system:masters"),
		}},
		GRPC: p.grpc, HTTP: p.http,
	}.Launch(t)
	ready := time.Since(begun)
	p.join(t, 1)
	t.Logf("the program is ready after %s, and its first proxy served after %s and %s of CPU: %s",
		ready, time.Since(begun), p.CPU(t), p.Memory(t))
	return p
}

func (p *program) page(path string) (string, error) { return rig.Page("http://" + p.http + path) }

// profile keeps one of the program's profiles if the command line says so.
func (p *program) profile(t *testing.T, page string) {
	name, _, _ := strings.Cut(page, "?")
	rig.KeepProfile(t, *profiles, "http://"+p.http+"/debug/pprof/"+page, name)
}

// turns is how many there have been.
func (p *program) turns(t *testing.T) int {
	t.Helper()
	n, err := rig.Metric("http://"+p.http+"/metrics", "fairway_turns_total")
	if err != nil {
		t.Fatal(err)
	}
	return int(n)
}

// join connects proxies until there are n, and returns once each holds all that it is due. They are spread over the namespaces.
func (p *program) join(t *testing.T, n int) {
	t.Helper()
	for i := len(p.clients); i < n; i++ {
		x := plane.Proxy{Name: fmt.Sprintf("client-%d", i), Namespace: namespace(i, p.services)}
		x.IP = fmt.Sprintf("10.9.%d.%d", i/250, i%250+1)
		l := ads.NewTimed(x.Node(), p.reader)
		if err := l.Connect(context.Background(), p.grpc); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(l.Disconnect)
		p.clients = append(p.clients, l)
	}
	for _, l := range p.clients {
		rig.Eventually(t, func() error {
			if !l.Synced(p.services) {
				return fmt.Errorf("%s holds %s", l.Node.Id, l.State())
			}
			return nil
		})
	}
}

// slicePath returns the path of a service's only EndpointSlice, and clusterOf the name of the service's cluster in proxies.
func (p *program) slicePath(i int) string {
	return fmt.Sprintf("/apis/discovery.k8s.io/v1/namespaces/%s/endpointslices/s-%d-x", namespace(i, p.services), i)
}

func (p *program) clusterOf(i int) string {
	return fmt.Sprintf("outbound|80||s-%d.%s.svc.cluster.local", i, namespace(i, p.services))
}

// load makes a program read a cluster of services, with proxies, and logs its cost.
func load(t *testing.T, c *cluster.Cluster, services int) {
	p := launch(t, c, services)
	p.join(t, 50)
	t.Logf("with 50 proxies: %s", p.atRest(t))
	p.profile(t, "heap?gc=1")
	t.Run("what nobody reads", p.noise)
	p.join(t, 100)
	t.Run("a pod turns ready", p.readiness)
	t.Run("500 pods replaced", p.replacement)
}

// atRest is what the program takes once it has given back what a burst took, which it does when there is nothing to do
// for some seconds.
func (p *program) atRest(t *testing.T) rig.Memory {
	const span = 6 * time.Second
	least, begun := p.Memory(t), time.Now()
	rig.Eventually(t, func() error {
		if m := p.Memory(t); m.Own < least.Own {
			least = m
		}
		if time.Since(begun) < span {
			return errors.New("it may give back more")
		}
		return nil
	})
	return least
}

// readiness measures from an EndpointSlice's event, as another client hears it, to a hundred proxies.
func (p *program) readiness(t *testing.T) {
	var mu sync.Mutex
	heard := map[string]time.Time{} // by resourceVersion
	p.cluster.Follow(t, strings.TrimSuffix(p.slicePath(0), "/s-0-x"), func(e cluster.Event) {
		mu.Lock()
		defer mu.Unlock()
		heard[e.Object.Meta("resourceVersion")] = e.At
	})
	var took []time.Duration
	for round := range 40 {
		begun := time.Now()
		stored := p.cluster.Patch(t, p.slicePath(0), fmt.Sprintf(`{"endpoints":[%s]}`, endpoint(namespace(0, p.services), 0, round%2 == 1)))
		for _, l := range p.clients {
			rig.Eventually(t, func() error {
				mu.Lock()
				event, is := heard[stored.Meta("resourceVersion")]
				mu.Unlock()
				at, has := l.Since(p.clusterOf(0), begun)
				if !is || !has {
					return fmt.Errorf("%s is not told (the event was heard: %t)", l.Node.Id, is)
				}
				took = append(took, at.Sub(event))
				return nil
			})
		}
	}
	slices.Sort(took)
	p99 := took[len(took)*99/100]
	t.Logf("from the event to %d proxies: median %s, p99 %s, worst %s", len(p.clients), took[len(took)/2], p99, took[len(took)-1])
	if p99 > 500*time.Millisecond { // ten times the promised time, for machines with other work
		t.Errorf("from the event to the proxies it takes %s (p99)", p99)
	}
}

// endpoint is that of a pod.
func endpoint(namespace string, pod int, ready bool) string {
	return fmt.Sprintf(
		`{"addresses":[%q],"conditions":{"ready":%t},"targetRef":{"kind":"Pod","namespace":%q,"name":"p-%d"}}`,
		podAddress(pod), ready, namespace, pod,
	)
}

// replacement has all pods of a hundred services replaced at once.
func (p *program) replacement(t *testing.T) {
	services, turns := min(100, p.services), p.turns(t)
	before := make([]int, len(p.clients))
	for i, l := range p.clients {
		before[i] = l.Count()
	}
	begun, post := time.Now(), poster(t, p.cluster)
	at(t, services, func(i int) error {
		var all []string
		for k := range 5 {
			n := 200_000 + i*5 + k
			if err := onePod(post, p.cluster, t, namespace(i, p.services), fmt.Sprintf("s-%d", i), n, max(p.services/10, 1)); err != nil {
				return err
			}
			all = append(all, endpoint(namespace(i, p.services), n, true))
		}
		body := fmt.Sprintf(`{"endpoints":[%s]}`, strings.Join(all, ","))
		_, err := p.cluster.Do(t.Context(), http.MethodPatch, p.slicePath(i), "application/merge-patch+json", []byte(body))
		return err
	})
	written := time.Now()
	var last time.Time
	for _, l := range p.clients {
		for i := range services {
			rig.Eventually(t, func() error {
				at, has := l.Since(p.clusterOf(i), begun)
				if !has {
					return fmt.Errorf("%s has not heard of %s", l.Node.Id, p.clusterOf(i))
				}
				if at.After(last) {
					last = at
				}
				return nil
			})
		}
	}
	sent := 0
	for i, l := range p.clients {
		sent += l.Count() - before[i]
	}
	t.Logf("%d pods replaced in %s: the last of %d proxies was told %s after the last write, in %d turns; %d resources each",
		services*5, written.Sub(begun), len(p.clients), last.Sub(written), p.turns(t)-turns, sent/len(p.clients))
	if late := last.Sub(written); late > 5*time.Second { // five times the promised time, for machines with other work
		t.Errorf("proxies are right %s after the last write", late)
	}
	if each := sent / len(p.clients); each > services*5 {
		t.Errorf("each proxy was sent %d resources", each)
	}
}
