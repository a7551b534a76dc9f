package clusters_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/proto"

	"fairway/internal/admin/page"
	"fairway/internal/app"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/xdstype"
	"fairway/test/ads"
	"fairway/test/plane"
	"fairway/test/platform/kube/cluster"
	"fairway/test/rig"
)

// shop returns a Service with one pod; its address distinguishes the clusters.
func shop(address string) string {
	return strings.ReplaceAll(`
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: v1
kind: Namespace
metadata: {name: istio-system}
---
apiVersion: v1
kind: Node
metadata: {name: n1}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {selector: {app: web}, ports: [{name: http, port: 80, targetPort: 8080}]}
---
apiVersion: v1
kind: Pod
metadata: {name: web-1, namespace: shop, labels: {app: web}}
spec: {nodeName: n1, containers: [{name: web, image: web}]}
status: {phase: Running, podIP: ADDRESS, podIPs: [{ip: ADDRESS}], conditions: [{type: Ready, status: "True"}]}
`, "ADDRESS", address)
}

// remote is the Secret that says how a cluster is reached.
func remote(name string, kubeconfig []byte) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Secret
metadata: {name: remote-%[1]s, namespace: istio-system, labels: {istio/multiCluster: "true"}}
data: {%[1]s: %[2]s}
`, name, base64.StdEncoding.EncodeToString(kubeconfig))
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func options(t *testing.T, c *cluster.Cluster) app.Options {
	o := plane.Options()
	o.Registries, o.ClusterID = []string{"Kubernetes"}, "east"
	o.Kubeconfig = c.Kubeconfig(t, nil, "plane", "system:masters")
	return o
}

// sidecar is a proxy that keeps its resources and the names of removed ones.
type sidecar struct {
	*ads.Client
	mu      sync.Mutex
	removed []string
}

func connect(t *testing.T, p *plane.Plane) *sidecar {
	t.Helper()
	s := &sidecar{}
	x := plane.Proxy{Name: "web-1", IP: "10.3.0.1"}
	s.Client = ads.New(x.Node(), ads.NewReader(), func(e ads.Event) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.removed = append(s.removed, e.Removed...)
	})
	s.Bodies = true
	if err := s.Connect(context.Background(), p.Address()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Disconnect)
	return s
}

const web = "outbound|80||web.shop.svc.cluster.local"

// reaches waits until the endpoints of web are these.
func (s *sidecar) reaches(t *testing.T, want ...string) {
	t.Helper()
	s.leads(t, web, want...)
}

// leads waits until the endpoints of a cluster of Envoy's are these.
func (s *sidecar) leads(t *testing.T, to string, want ...string) {
	t.Helper()
	rig.Eventually(t, func() error {
		var got []string
		var load endpointv3.ClusterLoadAssignment
		body, _ := s.Body(xdstype.EndpointURL, to)
		if err := proto.Unmarshal(body, &load); err != nil {
			return err
		}
		for _, l := range load.GetEndpoints() {
			for _, e := range l.GetLbEndpoints() {
				got = append(got, e.GetEndpoint().GetAddress().GetSocketAddress().GetAddress())
			}
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			return fmt.Errorf("it leads to %v, want %v", got, want)
		}
		return nil
	})
}

// standings is what /debug/clusterz shows: "east synced".
func standings(p *plane.Plane) (out []string, err error) {
	response, err := http.Get(p.URL("/debug/clusterz"))
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	var all []page.RemoteCluster
	err = json.NewDecoder(response.Body).Decode(&all)
	for _, c := range all {
		out = append(out, strings.TrimSpace(c.ID+" "+c.SyncStatus+" "+c.SecretName))
	}
	return out, err
}

func stands(t *testing.T, p *plane.Plane, want ...string) {
	t.Helper()
	rig.Eventually(t, func() error {
		got, err := standings(p)
		if err == nil && !slices.Equal(got, want) {
			err = fmt.Errorf("there are %q, want %q", got, want)
		}
		return err
	})
}

// refused waits until there is a problem of a program in a kubeconfig, or none.
func refused(t *testing.T, p *plane.Plane, want bool) {
	t.Helper()
	rig.Eventually(t, func() error {
		all := p.Discovery.Problems()
		if has := slices.ContainsFunc(all, func(x mesh.Problem) bool {
			return x.Code == code.BadKubeconfig && strings.Contains(x.Message, "exec: ")
		}); has != want {
			return fmt.Errorf("the kubeconfig is refused: %t; there are %v", has, all)
		}
		return nil
	})
}

// A Secret adds a cluster, changes how it is reached, breaks, and removes the cluster, while proxies stay connected; and a cluster that
// does not answer delays no proxy.
func TestClustersComeAndGo(t *testing.T) {
	east, west := cluster.Start(t), cluster.Start(t)
	east.Apply(t, shop("10.3.0.1"))
	west.Apply(t, shop("10.4.0.1"))
	gate := west.Gate(t)
	p := plane.Start(t, options(t, east))
	s := connect(t, p)
	s.reaches(t, "10.3.0.1")
	stands(t, p, "east synced")

	way := read(t, west.Kubeconfig(t, gate, "reader", "system:masters"))
	east.Apply(t, remote("west", way))
	s.reaches(t, "10.3.0.1", "10.4.0.1")
	stands(t, p, "east synced", "west synced istio-system/remote-west")
	west.Apply(t, strings.ReplaceAll(shop("10.4.0.2"), "web-1", "web-2"))
	s.reaches(t, "10.3.0.1", "10.4.0.1", "10.4.0.2")
	p.Settle(t)
	for _, problem := range p.Discovery.Problems() {
		if problem.Code == code.SameHost {
			t.Errorf("one Service of two clusters is called a mistake: %s", problem)
		}
	}

	t.Run("another way there takes nothing away", func(t *testing.T) {
		s.mu.Lock()
		s.removed = nil
		s.mu.Unlock()
		east.Apply(t, remote("west", read(t, west.Kubeconfig(t, gate, "another", "system:masters"))))
		west.Apply(t, strings.ReplaceAll(shop("10.4.0.3"), "web-1", "web-3"))
		s.reaches(t, "10.3.0.1", "10.4.0.1", "10.4.0.2", "10.4.0.3")
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.removed) > 0 {
			t.Errorf("it took away %v", s.removed)
		}
	})
	t.Run("a way that must not be is refused", func(t *testing.T) {
		const exec = "user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: /bin/sh, interactiveMode: Never}, "
		bad := strings.Replace(string(way), "user: {", exec, 1)
		east.Apply(t, remote("west", []byte(bad)))
		refused(t, p, true)
		west.Delete(t, "apiVersion: v1\nkind: Pod\nmetadata: {name: web-3, namespace: shop}")
		s.reaches(t, "10.3.0.1", "10.4.0.1", "10.4.0.2") // it is read as before
		east.Apply(t, remote("west", way))
		refused(t, p, false)
		stands(t, p, "east synced", "west synced istio-system/remote-west")
	})
	t.Run("one that does not answer keeps what it said", func(t *testing.T) {
		gate.Close()
		stands(t, p, "east synced", "west stale istio-system/remote-west")
		east.Apply(t, strings.ReplaceAll(shop("10.3.0.2"), "web-1", "web-2"))
		s.reaches(t, "10.3.0.1", "10.3.0.2", "10.4.0.1", "10.4.0.2")

		o := options(t, east)
		o.ClusterWait = 200 * time.Millisecond
		other := plane.Start(t, o)
		connect(t, other).reaches(t, "10.3.0.1", "10.3.0.2")
		stands(t, other, "east synced", "west late istio-system/remote-west")
		gate.Open(t)
		stands(t, p, "east synced", "west synced istio-system/remote-west")
		stands(t, other, "east synced", "west synced istio-system/remote-west")
	})
	east.Delete(t, remote("west", way))
	s.reaches(t, "10.3.0.1", "10.3.0.2")
	stands(t, p, "east synced")
}
