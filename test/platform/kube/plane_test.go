package kube_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"fairway/internal/app"
	"fairway/internal/xdstype"
	"fairway/test/ads"
	"fairway/test/plane"
	"fairway/test/platform/kube/cluster"
	"fairway/test/rig"
)

// options are those of a control plane that reads a cluster, through a gate unless that is nil.
func options(t testing.TB, c *cluster.Cluster, through *cluster.Gate) app.Options {
	t.Helper()
	o := plane.Options()
	o.Registries, o.ClusterID = []string{"Kubernetes"}, "east"
	o.Kubeconfig = c.Kubeconfig(t, through, "plane", "system:masters")
	return o
}

// sidecar is a connected proxy that keeps its events, with their times.
type sidecar struct {
	*ads.Client
	mu     sync.Mutex
	events []ads.Event
}

func connect(t testing.TB, p *plane.Plane, x plane.Proxy) *sidecar {
	t.Helper()
	return connectTo(t, p.Address(), x)
}

func connectTo(t testing.TB, address string, x plane.Proxy) *sidecar {
	t.Helper()
	s := newSidecar(x, func(ads.Event) {})
	if err := s.Client.Connect(context.Background(), address); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Disconnect)
	rig.Eventually(t, func() error {
		if !s.Complete() {
			return fmt.Errorf("it holds %s", s.State())
		}
		return nil
	})
	return s
}

// newSidecar makes one that is not connected. hear is called for each response, and when the stream has ended.
func newSidecar(x plane.Proxy, hear func(ads.Event)) *sidecar {
	s := &sidecar{}
	s.Client = ads.New(x.Node(), ads.NewReader(), func(e ads.Event) {
		s.mu.Lock()
		s.events = append(s.events, e)
		s.mu.Unlock()
		hear(e)
	})
	s.Bodies = true
	return s
}

// taken is what has come since the last call.
func (s *sidecar) taken() []ads.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.events
	s.events = nil
	return out
}

const webCluster = "outbound|80||web.shop.svc.cluster.local"

// reaches waits until the endpoints of a cluster are these.
func (s *sidecar) reaches(t testing.TB, cluster string, want ...string) {
	t.Helper()
	rig.Eventually(t, func() error {
		if got, err := s.Endpoints(cluster); err != nil || !slices.Equal(got, want) {
			return fmt.Errorf("%s leads to %v, want %v; there are %v", cluster, got, want, s.Names(xdstype.EndpointURL))
		}
		return nil
	})
}

// routes waits until the virtual host of web says something.
func (s *sidecar) routes(t testing.TB, want string) {
	t.Helper()
	rig.Eventually(t, func() error {
		var h routev3.VirtualHost
		body, has := s.Body(xdstype.VirtualHostURL, "80/web.shop.svc.cluster.local:80")
		if err := proto.Unmarshal(body, &h); err != nil || !has {
			return fmt.Errorf("no virtual host: %v; there are %v", err, s.Names(xdstype.VirtualHostURL))
		}
		text, err := protojson.Marshal(&h)
		if err == nil && !strings.Contains(strings.ReplaceAll(string(text), " ", ""), want) {
			err = fmt.Errorf("no %s in %s", want, text)
		}
		return err
	})
}

func pod(n int, ready bool) string {
	status := "False"
	if ready {
		status = "True"
	}
	text := strings.ReplaceAll(webPod, "web-1", fmt.Sprintf("web-%d", n))
	text = strings.ReplaceAll(text, "10.3.0.1", fmt.Sprintf("10.3.%d.%d", n/250, n%250+1))
	return strings.Replace(text, `status: "True"`, `status: "`+status+`"`, 1)
}

// A sidecar gets the objects of the cluster: a Service with its pods, a rule, a pod that turns ready.
func TestClusterReachesProxies(t *testing.T) {
	c := cluster.Start(t)
	c.Define(t)
	c.Apply(t, shop+"---"+pod(1, true)+"---"+pod(2, false))
	p := plane.Start(t, options(t, c, nil))
	s := connect(t, p, plane.Proxy{Name: "web-1", IP: "10.3.0.2"})
	s.reaches(t, webCluster, "10.3.0.2:8080")
	s.routes(t, `"cluster":"outbound|80||web.shop.svc.cluster.local"`)

	c.Apply(t, webRule)
	s.routes(t, `"timeout":"3s"`)
	c.Apply(t, pod(2, true))
	s.reaches(t, webCluster, "10.3.0.2:8080", "10.3.0.3:8080")

	t.Run("what nobody reads is not sent", func(t *testing.T) {
		p.Settle(t)
		s.taken()
		for i := range 50 {
			note := fmt.Sprintf(`{"metadata":{"annotations":{"n":"%d"}}}`, i)
			for _, path := range []string{
				"/api/v1/namespaces/shop/pods/web-1", "/api/v1/namespaces/shop/services/web", "/api/v1/nodes/n1",
				"/apis/networking.istio.io/v1/namespaces/shop/virtualservices/web",
			} {
				c.Patch(t, path, note)
			}
		}
		c.Apply(t, strings.ReplaceAll(webRule, "3s", "9s"))
		s.routes(t, `"timeout":"9s"`)
		if got := s.taken(); len(got) != 1 || got[0].Type != xdstype.VirtualHostURL {
			t.Errorf("beside the rule there came %+v", got)
		}
	})
	t.Run("a pod turns ready", func(t *testing.T) { readiness(t, c, s) })
	t.Run("a namespace goes with all that is in it", func(t *testing.T) {
		const ns = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}"
		c.Delete(t, pod(1, true)+"---"+pod(2, true))
		c.Delete(t, ns)
		rig.Eventually(t, func() error {
			if names := s.Names(xdstype.ClusterURL); slices.Contains(names, webCluster) {
				return fmt.Errorf("there are %v", names)
			}
			return nil
		})
	})
}

// readiness measures how long it takes from the EndpointSlice's event, as another client hears it, to the proxy.
func readiness(t *testing.T, c *cluster.Cluster, s *sidecar) {
	var mu sync.Mutex
	heard := map[bool]time.Time{} // when an event last said that the pod is ready, or is not
	c.Follow(t, "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices", func(e cluster.Event) {
		mu.Lock()
		defer mu.Unlock()
		ready := strings.Contains(fmt.Sprint(e.Object), "addresses:[10.3.0.3] conditions:map[ready:true")
		if now := heard[ready]; now.IsZero() {
			heard = map[bool]time.Time{ready: e.At}
		}
	})
	var whole, own []time.Duration
	for i := range 60 {
		ready := i%2 == 1
		want := []string{"10.3.0.2:8080"}
		if ready {
			want = append(want, "10.3.0.3:8080")
		}
		s.taken()
		begun := time.Now()
		c.Apply(t, pod(2, ready))
		s.reaches(t, webCluster, want...)
		events := s.taken()
		arrived := events[len(events)-1].At
		rig.Eventually(t, func() error {
			mu.Lock()
			defer mu.Unlock()
			if heard[ready].Before(begun) {
				return fmt.Errorf("the event has not been heard")
			}
			own = append(own, arrived.Sub(heard[ready]))
			return nil
		})
		whole = append(whole, arrived.Sub(begun))
	}
	slices.Sort(whole)
	slices.Sort(own)
	t.Logf("from the status to the proxy: median %s, worst %s; from the event to the proxy: median %s, worst %s",
		whole[30], whole[59], own[30], own[59])
	if own[30] > 50*time.Millisecond {
		t.Errorf("from the event to the proxy it takes %s", own[30])
	}
}

// Files and a cluster at once: of an object that both have the file's counts, and the other has a problem that says so.
func TestFilesGoFirst(t *testing.T) {
	c := cluster.Start(t)
	c.Define(t, "virtualservices.networking.istio.io")
	c.Apply(t, shop+"---"+pod(1, true)+"---"+webRule)
	o := options(t, c, nil)
	o.ConfigDir = t.TempDir()
	rig.Write(t, o.ConfigDir, "web.yaml", []byte(strings.ReplaceAll(webRule, "3s", "8s")))
	p := plane.Start(t, o)
	s := connect(t, p, plane.Proxy{Name: "web-1", IP: "10.3.0.2"})
	s.routes(t, `"timeout":"8s"`)
	said := ""
	for _, problem := range p.Discovery.Problems() {
		said += problem.String() + "\n"
	}
	if !strings.Contains(said, "not in force") || !strings.Contains(said, "Kubernetes/east") {
		t.Errorf("nobody is told that one does not count:\n%s", said)
	}
}

// The API server goes, and the control plane too: proxies keep their resources, and if one comes back to a control
// plane that has not read the cluster yet, nothing is removed from it.
func TestProxiesKeepWhatTheyHave(t *testing.T) {
	c := cluster.Start(t)
	c.Define(t, "virtualservices.networking.istio.io")
	c.Apply(t, shop+"---"+pod(1, true)+"---"+webRule)
	gate := c.Gate(t)
	p := plane.Start(t, options(t, c, gate))
	s := connect(t, p, plane.Proxy{Name: "web-1", IP: "10.3.0.2"})
	s.reaches(t, webCluster, "10.3.0.2:8080")
	s.routes(t, `"timeout":"3s"`)
	held := slices.Sorted(maps.Keys(s.InUse()[xdstype.ClusterURL]))
	s.taken()
	gate.Close()
	c.StopServer()
	c.StartServer(t)
	c.Apply(t, pod(2, true))
	gate.Open(t)
	s.reaches(t, webCluster, "10.3.0.2:8080", "10.3.0.3:8080")
	for _, e := range s.taken() {
		if e.Type != xdstype.EndpointURL || len(e.Removed) > 0 {
			t.Errorf("an outage of the API server sent %s: %v, took away %v", e.Type, e.Names, e.Removed)
		}
	}

	gate.Close()
	again := plane.Run(t, options(t, c, gate))
	if err := again.Discovery.Ready(); err == nil {
		t.Error("a control plane that has read nothing calls itself ready")
	}
	gate.Open(t)
	s2 := connect(t, again, plane.Proxy{Name: "web-1", IP: "10.3.0.2"})
	s2.reaches(t, webCluster, "10.3.0.2:8080", "10.3.0.3:8080")
	if now := slices.Sorted(maps.Keys(s2.InUse()[xdstype.ClusterURL])); !slices.Equal(held, now) {
		t.Errorf("clusters of the first: %v, of the second: %v", held, now)
	}
}
