package writes_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"fairway/internal/xdstype"
	"fairway/test/plane"
	"fairway/test/platform/kube/cluster"
	"fairway/test/rig"
)

const v9Rule = `
kind: DestinationRule
apiVersion: networking.istio.io/v1
metadata: {name: web, namespace: shop}
spec: {host: web.example.com, subsets: [{name: v9, labels: {version: v9}}]}
`

// TestRefusedElsewhere: if a proxy of another control plane than the leader refuses a resource, the object's status says so. The status is
// cleared when the object is corrected, when the proxy goes, and within 20 s when that control plane is gone; the leader makes no turn for
// it.
func TestRefusedElsewhere(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.Apply(t, host+"---"+v9Rule)
	run := func(through *cluster.Gate, user string) *plane.Plane {
		o := w.options(t, through, user, "system:masters")
		o.ProxyLinger = time.Second // of what a proxy refused that has gone
		return plane.Start(t, o)
	}
	leader := run(nil, "leader")
	const path = "/apis/networking.istio.io/v1/namespaces/shop/destinationrules/web"
	w.reconciled(t, path, "True", "")
	gate := w.Gate(t)
	other := run(gate, "other")
	if holder := w.holder(t); holder == "" {
		t.Fatal("nobody leads")
	}
	const v9 = "outbound|80|v9|web.example.com"
	const words = "a proxy refused the Cluster " + v9 + " that was made of this: no such thing"
	refuse := func(t *testing.T, name string) {
		t.Helper()
		begun := time.Now()
		other.Refuse(t, plane.Proxy{Name: name, IP: "10.0.0.8"}, xdstype.ClusterURL, v9, "no such thing")
		w.reconciled(t, path, "True", "warning: "+words)
		t.Logf("told after %s", time.Since(begun))
	}
	gone := func(t *testing.T, within time.Duration) {
		t.Helper()
		begun := time.Now()
		rig.Eventually(t, func() error {
			if o := w.reconciled(t, path, "True", ""); strings.Contains(fmt.Sprint(o.Status), "refused") {
				return fmt.Errorf("it says %+v", o.Status)
			}
			return nil
		})
		took := time.Since(begun)
		if t.Logf("gone after %s", took); took > within {
			t.Errorf("it is gone after %s", took)
		}
		rig.Eventually(t, func() error {
			var leases struct {
				Items []struct{ Metadata struct{ Name string } }
			}
			err := w.get(t.Context(), "/apis/coordination.k8s.io/v1/namespaces/istio-system/leases", &leases)
			for _, l := range leases.Items {
				if strings.HasPrefix(l.Metadata.Name, "istio-refused-") {
					err = fmt.Errorf("there is %s still", l.Metadata.Name)
				}
			}
			return err
		})
	}
	leader.Settle(t)
	turn := leader.Discovery.LastTurn().Version
	t.Run("the proxy goes", func(t *testing.T) { refuse(t, "odd-1") })
	gone(t, 10*time.Second)
	t.Run("the control plane is cut off, and comes back", func(t *testing.T) {
		refuse(t, "odd-2")
		gate.Close()
		gone(t, 20*time.Second)
		gate.Open(t)
		w.reconciled(t, path, "True", "warning: "+words)
	})
	gone(t, 10*time.Second)
	leader.Settle(t)
	statuses := []string{"refused", "refused/problems", "problems/all", "problems/object", "statuses"}
	last := leader.Discovery.LastTurn()
	for _, part := range last.Tables {
		if !slices.Contains(statuses, part.Name) {
			t.Errorf("what others refuse changed %s of the leader's", part.Name)
		}
	}
	if last.Version == turn || last.Version > turn+12 { // two refusals that come and go, in their parts
		t.Errorf("what others refuse made %d turns of the leader's", last.Version-turn)
	}
	t.Run("it is mended", func(t *testing.T) {
		refuse(t, "odd-3")
		w.Apply(t, strings.ReplaceAll(v9Rule, "v9", "v8"))
		gone(t, 10*time.Second)
		w.Apply(t, v9Rule)
		w.reconciled(t, path, "True", "warning: "+words)
	})
	gone(t, 10*time.Second)
	t.Run("another leads", func(t *testing.T) {
		other.Refuse(t, plane.Proxy{Name: "odd-4", IP: "10.0.0.8"}, xdstype.ClusterURL, v9, "no such thing")
		w.reconciled(t, path, "True", "warning: "+words)
		if err := leader.Stop(); err != nil {
			t.Fatal(err)
		}
		w.reconciled(t, path, "True", "warning: "+words)
	})
	gone(t, 10*time.Second)
	if err := other.Stop(); err != nil {
		t.Error(err)
	}
}
