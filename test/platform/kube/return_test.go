package kube_test

import (
	"context"
	"fmt"
	"net/http"
	"path"
	"testing"

	"fairway/internal/xdstype"
	"fairway/test/plane"
	"fairway/test/platform/kube/cluster"
	"fairway/test/rig"
)

// A proxy comes back to a control plane that was just started, and reads the cluster kind by kind. It gets nothing
// until all has been read; then nothing is taken from it, and unchanged resources are not sent again.
func TestAProxyThatComesBackLosesNothing(t *testing.T) {
	c := cluster.Start(t)
	c.Define(t, "virtualservices.networking.istio.io", "sidecars.networking.istio.io")
	c.Apply(t, shop+"---"+pod(1, true)+"---"+pod(2, true)+"---"+webRule)
	o := options(t, c, nil)
	o.GRPCAddr = fmt.Sprintf("127.0.0.1:%d", rig.FreePort(t))
	first := plane.Start(t, o)
	s := connect(t, first, plane.Proxy{Name: "web-1", IP: "10.3.0.2"})
	s.reaches(t, webCluster, "10.3.0.2:8080", "10.3.0.3:8080")
	s.routes(t, `"timeout":"3s"`)
	first.Settle(t)
	s.Disconnect()
	if err := first.Stop(); err != nil {
		t.Fatal(err)
	}
	s.taken()

	kinds := []string{"services", "pods", "endpointslices", "virtualservices", "configmaps", "namespaces"}
	held := map[string]chan struct{}{}
	for _, kind := range kinds {
		held[kind] = make(chan struct{})
	}
	slow := c.Between(t, func(_ http.ResponseWriter, r *http.Request) bool {
		if until := held[path.Base(r.URL.Path)]; until != nil {
			select {
			case <-until:
			case <-r.Context().Done():
			}
		}
		return false
	})
	o.Kubeconfig = rig.Write(t, t.TempDir(), "slow.kubeconfig", fmt.Appendf(nil, `apiVersion: v1
kind: Config
clusters: [{name: slow, cluster: {server: %q}}]
contexts: [{name: slow, context: {cluster: slow}}]
current-context: slow
`, slow.Host))
	c.Apply(t, pod(3, true)) // the one thing that is different now
	again := plane.Run(t, o)
	back := make(chan error, 1)
	go func() { back <- s.Connect(context.Background(), again.Address()) }()
	for _, kind := range kinds {
		if err := again.Discovery.Ready(); err == nil {
			t.Errorf("it calls itself ready before it has read %s", kind)
		}
		if got := s.taken(); len(got) > 0 {
			t.Errorf("before %s have been read there came %+v", kind, got)
		}
		close(held[kind])
	}
	if err := <-back; err != nil {
		t.Fatal(err)
	}
	s.reaches(t, webCluster, "10.3.0.2:8080", "10.3.0.3:8080", "10.3.0.4:8080")
	again.Settle(t)
	for _, e := range s.taken() {
		if e.Err != nil || len(e.Removed) > 0 || len(e.Names) > 0 && e.Type != xdstype.EndpointURL {
			t.Errorf("it was sent %s %v, lost %v: %v", e.Type, e.Names, e.Removed, e.Err)
		}
	}
}
