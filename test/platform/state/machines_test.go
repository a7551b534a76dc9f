package state

import (
	"context"
	"fmt"
	"slices"
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
  metadata: {labels: {app: vm}}
  template: {serviceAccount: vm, ports: {http: 8080}}
  probe: {httpGet: {port: 8080}}
---
kind: ServiceEntry
apiVersion: networking.istio.io/v1
metadata: {name: vms, namespace: shop}
spec:
  hosts: [vms.example.com]
  ports: [{number: 80, name: http, protocol: HTTP, targetPort: 8080}]
  resolution: STATIC
  workloadSelector: {labels: {app: vm}}
`

// sharingPlane runs a control plane with its state in a store.
func sharingPlane(t *testing.T, kind, at, under, key string) *plane.Plane {
	t.Helper()
	o := plane.SecureOptions(t)
	o.Identity.Sharing.State, o.Identity.Sharing.KeyFile = kind+"://"+at+"/"+under, key
	o.Identity.CA.State = t.TempDir()
	o.HealthStart, o.HealthGrace = time.Millisecond, time.Millisecond
	p := plane.Start(t, o)
	p.Apply(t, "group.yaml", group)
	return p
}

// register connects the proxy of a machine that registers with the group.
func register(t *testing.T, p *plane.Plane, ip string) *ads.Client {
	t.Helper()
	node := plane.Proxy{Name: "vm", Namespace: "shop", IP: ip}.Node()
	node.Metadata.Fields["AUTO_REGISTER_GROUP"] = structpb.NewStringValue("vms")
	c := ads.New(node, ads.NewReader(), func(ads.Event) {})
	c.Credentials = p.Credentials(p.JoinAs(t, "shop", "vm"))
	if err := c.Connect(context.Background(), p.Discovery.SecureAddr()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Disconnect)
	return c
}

// testMachinesAreShared: a machine that registers with one control plane has endpoints at the others with the same state, as its agent
// reports about the application; it moves, and goes with a control plane that has died.
func testMachinesAreShared(t *testing.T, kind string, at server) {
	_, key := sealer(t)
	under := prefix(t)
	one, two := sharingPlane(t, kind, at.Address(), under, key), sharingPlane(t, kind, at.Address(), under, key)
	seer := two.Connect(t, plane.Proxy{Name: "seer", IP: "10.4.9.9", Secrets: true})
	sees := func(c *plane.Client, want ...string) {
		t.Helper()
		rig.Eventually(t, func() error {
			got, err := c.Endpoints("outbound|80||vms.example.com")
			if err == nil && !slices.Equal(got, want) {
				err = fmt.Errorf("it leads to %v, want %v", got, want)
			}
			return err
		})
	}
	say := func(c *ads.Client, failure string) {
		t.Helper()
		if err := c.Report(session.HealthType, failure); err != nil {
			t.Fatal(err)
		}
	}
	sees(seer)
	machine := register(t, one, "10.4.0.1")
	say(machine, "")
	sees(seer, "10.4.0.1:8080")
	say(machine, "no answer")
	sees(seer)
	say(machine, "")
	sees(seer, "10.4.0.1:8080")
	three := sharingPlane(t, kind, at.Address(), under, key) // has it at once
	got, err := three.Connect(t, plane.Proxy{Name: "late", IP: "10.4.9.8", Secrets: true}).Endpoints("outbound|80||vms.example.com")
	if err != nil || !slices.Equal(got, []string{"10.4.0.1:8080"}) {
		t.Errorf("a control plane that starts later: %v, %v", got, err)
	}
	machine.Disconnect()
	sees(seer)
	machine = register(t, two, "10.4.0.1")
	say(machine, "")
	sees(seer, "10.4.0.1:8080")
	last := one.Connect(t, plane.Proxy{Name: "last", IP: "10.4.9.6", Secrets: true})
	sees(last, "10.4.0.1:8080")
	seer.Disconnect()
	if err := two.Stop(); err != nil {
		t.Fatal(err)
	}
	sees(last)
}
