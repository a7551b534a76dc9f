package writes_test

import (
	"fmt"
	"testing"
	"time"

	"fairway/test/plane"
	"fairway/test/rig"
)

// TestHealthIsTakenOver: what a control plane wrote of an application counts as long as it lives. When it is gone, with its Lease
// or without, the leader makes the condition Unknown, and takes the Lease away.
func TestHealthIsTakenOver(t *testing.T) {
	t.Parallel()
	w := start(t)
	const (
		entries = "/apis/networking.istio.io/v1/namespaces/shop/workloadentries"
		leases  = "/apis/coordination.k8s.io/v1/namespaces/istio-system/leases"
	)
	lease := func(spec string) string { return `{"spec":{"leaseDurationSeconds":15,"holderIdentity":` + spec + `}}` }
	for _, who := range []string{"living", "killed", "vanished"} {
		w.post(t, entries, `
apiVersion: networking.istio.io/v1
kind: WorkloadEntry
metadata: {name: of-`+who+`}
spec: {address: 10.9.0.1}
`)
		w.Patch(t, entries+"/of-"+who+"/status", `{"status":{"conditions":[
{"type":"Other","status":"True"},
{"type":"Healthy","status":"True","reason":"HeardBy.`+who+`","lastProbeTime":"2030-01-02T03:04:05Z","lastTransitionTime":"2030-01-02T03:04:05Z"}]}}`)
		if who != "vanished" {
			w.post(t, leases, `{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"istio-registrar-`+who+`"}}`)
			w.Patch(t, leases+"/istio-registrar-"+who, lease(`"`+who+`"`))
		}
	}
	o := w.options(t, nil, "plane", "system:masters")
	o.HealthGrace = time.Second
	plane.Start(t, o)
	status := func(who string) string {
		t.Helper()
		var o rule
		if err := w.get(t.Context(), entries+"/of-"+who, &o); err != nil {
			t.Fatal(err)
		}
		for _, c := range o.Status.Conditions {
			if c.Type == "Healthy" {
				return c.Status
			}
		}
		return "none"
	}
	begun, renewed := time.Now(), time.Now()
	for n := 0; ; n++ {
		if time.Since(renewed) > 3*time.Second {
			renewed = time.Now()
			w.Patch(t, leases+"/istio-registrar-living", lease(fmt.Sprintf(`"living-%d"`, n)))
		}
		killed, vanished := status("killed"), status("vanished")
		if killed == "Unknown" && vanished == "Unknown" {
			break
		}
		if took := time.Since(begun); took > time.Minute {
			t.Fatalf("after %s they say %s and %s", took, killed, vanished)
		} else if (killed != "True" || vanished != "True") && took < 15*time.Second {
			t.Fatalf("after %s already they say %s and %s", took, killed, vanished)
		}
		<-time.After(200 * time.Millisecond)
	}
	t.Logf("taken over after %s", time.Since(begun))
	if got := status("living"); got != "True" {
		t.Errorf("that of one that lives is %s", got)
	}
	var held rule
	err := w.get(t.Context(), entries+"/of-killed", &held)
	if err != nil || len(held.Status.Conditions) == 0 || held.Status.Conditions[0].Type != "Other" {
		t.Errorf("what others write is %+v, %v", held.Status, err)
	}
	rig.Eventually(t, func() error {
		var lease struct{}
		if err := w.get(t.Context(), leases+"/istio-registrar-killed", &lease); err == nil {
			return fmt.Errorf("its Lease is there still")
		}
		return nil
	})
	var living struct{}
	if err := w.get(t.Context(), leases+"/istio-registrar-living", &living); err != nil {
		t.Errorf("the Lease of one that lives: %v", err)
	}
}
