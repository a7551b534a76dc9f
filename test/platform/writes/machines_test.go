package writes_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/structpb"

	"fairway/internal/app/session"
	"fairway/test/ads"
	"fairway/test/plane"
	"fairway/test/rig"
)

const group = `
kind: WorkloadGroup
apiVersion: networking.istio.io/v1
metadata: {name: vms, namespace: shop}
spec:
  metadata: {labels: {app: vm}, annotations: {team: shop}}
  template: {serviceAccount: vm, ports: {http: 8080}, weight: 3}
  probe: {httpGet: {port: 8080}}
`

// left is the entry of a machine that registered with a control plane that is gone.
const left = `
kind: WorkloadEntry
apiVersion: networking.istio.io/v1
metadata:
  name: vms-10.4.0.9
  namespace: shop
  annotations: {istio.io/autoRegistrationGroup: vms, istio.io/workloadController: gone_1, istio.io/connectedAt: "2026-01-01T00:00:00Z"}
spec: {address: 10.4.0.9, serviceAccount: vm}
`

const entryPath = "/apis/networking.istio.io/v1/namespaces/shop/workloadentries/"

// workloadEntry is one with what the test looks at.
type workloadEntry struct {
	Metadata struct {
		UID                 string
		Labels, Annotations map[string]string
		OwnerReferences     []struct{ Kind, Name string }
	}
	Spec struct {
		Address, ServiceAccount string
		Ports                   map[string]int
		Weight                  int
	}
}

// machine connects a proxy that names the group, with an account's certificate.
func machine(t *testing.T, p *plane.Plane, account, ip string) *ads.Client {
	t.Helper()
	node := plane.Proxy{Name: "vm", IP: ip}.Node()
	node.Metadata.Fields["AUTO_REGISTER_GROUP"] = structpb.NewStringValue("vms")
	c := ads.New(node, ads.NewReader(), func(ads.Event) {})
	c.Credentials = p.Credentials(p.JoinAs(t, "shop", account))
	if err := c.Connect(context.Background(), p.Discovery.SecureAddr()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Disconnect)
	rig.Eventually(t, func() error {
		if !c.Complete() {
			return fmt.Errorf("it holds %s", c.State())
		}
		return nil
	})
	return c
}

// If a machine's proxy proves the group's account, it has a WorkloadEntry while it is connected, and a grace longer; a
// machine of another account has none. The entries of a control plane that is gone are removed, too.
func machines(t *testing.T, w world, p *plane.Plane) {
	w.Apply(t, group)
	p.Settle(t)
	entry := func(name string) (o workloadEntry, err error) { return o, w.get(t.Context(), entryPath+name, &o) }
	gone := func(name string) {
		t.Helper()
		rig.Eventually(t, func() error {
			o, err := entry(name)
			if err == nil {
				return fmt.Errorf("%s is still there: %+v", name, o)
			}
			if !strings.Contains(err.Error(), "404") {
				return err
			}
			return nil
		})
	}
	c := machine(t, p, "vm", "10.4.0.1")
	var first workloadEntry
	rig.Eventually(t, func() (err error) { first, err = entry("vms-10.4.0.1"); return err })
	notes := first.Metadata.Annotations
	if first.Spec.Address != "10.4.0.1" || first.Spec.ServiceAccount != "vm" || first.Spec.Ports["http"] != 8080 ||
		first.Spec.Weight != 3 ||
		first.Metadata.Labels["app"] != "vm" || notes["team"] != "shop" || notes["istio.io/autoRegistrationGroup"] != "vms" ||
		notes["istio.io/workloadController"] == "" || notes["istio.io/connectedAt"] == "" ||
		notes["proxy.istio.io/health-checks-enabled"] != "true" || len(first.Metadata.OwnerReferences) != 1 {
		t.Errorf("it is registered as %+v", first)
	}
	machine(t, p, "other", "10.4.0.2")

	t.Run("it comes back within the grace", func(t *testing.T) {
		c.Disconnect()
		rig.Eventually(t, func() error {
			o, err := entry("vms-10.4.0.1")
			if err == nil && o.Metadata.Annotations["istio.io/disconnectedAt"] == "" {
				err = fmt.Errorf("there is %+v", o)
			}
			return err
		})
		c = machine(t, p, "vm", "10.4.0.1")
		rig.Eventually(t, func() error {
			o, err := entry("vms-10.4.0.1")
			if err == nil && (o.Metadata.UID != first.Metadata.UID || o.Metadata.Annotations["istio.io/disconnectedAt"] != "") {
				err = fmt.Errorf("there is %+v", o)
			}
			return err
		})
	})
	t.Run("its application", func(t *testing.T) { applications(t, w, p) })
	c.Disconnect()
	gone("vms-10.4.0.1")
	if _, err := entry("vms-10.4.0.2"); err == nil {
		t.Error("another account's machine is registered")
	}
	gone("vms-10.4.0.9")
	w.Delete(t, group)
}

const (
	byMachines = `
kind: ServiceEntry
apiVersion: networking.istio.io/v1
metadata: {name: vms, namespace: shop}
spec:
  hosts: [vms.example.com]
  ports: [{number: 80, name: http, protocol: HTTP, targetPort: 8080}]
  resolution: STATIC
  workloadSelector: {labels: {app: vm}}
`
	// An entry made by hand, of a machine that registers with no group.
	byHand = `
kind: WorkloadEntry
apiVersion: networking.istio.io/v1
metadata: {name: old, namespace: shop, labels: {app: vm}, annotations: {proxy.istio.io/health-checks-enabled: "true"}}
spec: {address: 10.4.0.3, serviceAccount: other, labels: {app: vm}}
`
)

// If an agent reports its application to one control plane, another one knows it from the status of the machine's entry.
func applications(t *testing.T, w world, p *plane.Plane) {
	of := machine(t, p, "vm", "10.4.0.1")
	w.Apply(t, byMachines+"---"+byHand)
	o := w.options(t, nil, "two", "system:masters")
	o.HealthStart = time.Millisecond
	seer := plane.Start(t, o).Connect(t, plane.Proxy{Name: "seer", IP: "10.4.9.9", Secrets: true})
	say := func(c *ads.Client, failure string) {
		t.Helper()
		if err := c.Report(session.HealthType, failure); err != nil {
			t.Fatal(err)
		}
	}
	sees := func(want ...string) {
		t.Helper()
		rig.Eventually(t, func() error {
			got, err := seer.Endpoints("outbound|80||vms.example.com")
			if err == nil && !slices.Equal(got, want) {
				err = fmt.Errorf("the other control plane leads to %v, want %v", got, want)
			}
			return err
		})
	}
	sees()
	say(of, "")
	sees("10.4.0.1:8080")
	say(of, "no answer")
	sees()
	var got rule
	path := entryPath + "vms-10.4.0.1"
	if err := w.get(t.Context(), path, &got); err != nil || !strings.Contains(fmt.Sprint(got.Status), "no answer") {
		t.Errorf("its status says %+v: %v", got.Status, err)
	}
	say(of, "")
	sees("10.4.0.1:8080")

	t.Run("of an entry that somebody wrote", func(t *testing.T) {
		old := machine(t, p, "other", "10.4.0.3")
		say(old, "")
		sees("10.4.0.1:8080", "10.4.0.3:8080")
		old.Disconnect()
		sees("10.4.0.1:8080")
	})
	w.Delete(t, byMachines+"---"+byHand)
}
