package work

import (
	"errors"
	"testing"
	"time"
)

// TestRivals: the same write is made once more at once, and after that ever more rarely while another client undoes it; another write, or
// one after a calm time, need not wait.
func TestRivals(t *testing.T) {
	var r rivals[string]
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	waits := func(k string, what uint64) time.Duration {
		var rival rivalError
		if err := r.may(k, what, now); err == nil || !errors.As(err, &rival) {
			return 0
		}
		return rival.wait
	}
	for i, want := range []time.Duration{0, 0, time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second} {
		if got := waits("a", 1); got != want {
			t.Errorf("write %d waits %s, want %s", i, got, want)
		}
		now = now.Add(want)
		if got := waits("a", 1); got != 0 {
			t.Errorf("write %d waits %s more", i, got)
		}
		r.wrote("a", 1, now)
	}
	if got := waits("b", 1); got != 0 {
		t.Errorf("another object waits %s", got)
	}
	if got := waits("a", 2); got != 0 {
		t.Errorf("another write waits %s", got)
	}
	for range 40 {
		now = now.Add(waits("a", 1))
		r.wrote("a", 1, now)
	}
	if got := waits("a", 1); got != rivalLast {
		t.Errorf("the longest wait is %s", got)
	}
	now = now.Add(rivalCalm)
	if got := waits("a", 1); got != 0 {
		t.Errorf("after a calm time it waits %s", got)
	}
	r.wrote("a", 1, now)
	if got := waits("a", 1); got != 0 {
		t.Errorf("the first after a calm time makes the next one wait %s", got)
	}
	r.wrote("a", 1, now)
	if r.forget("a"); waits("a", 1) != 0 || len(r.by) != 0 {
		t.Errorf("an object that is gone leaves %v", r.by)
	}
}

// The names of Istio's kinds in paths are those of their CRDs.
func TestStatusPath(t *testing.T) {
	for kind, want := range map[string]string{
		"Gateway": "gateways", "ServiceEntry": "serviceentries", "AuthorizationPolicy": "authorizationpolicies", "Telemetry": "telemetries",
		"Sidecar": "sidecars", "ProxyConfig": "proxyconfigs", "PeerAuthentication": "peerauthentications",
	} {
		if got := StatusPath("g/v1", kind, "n", "x"); got != "/apis/g/v1/namespaces/n/"+want+"/x/status" {
			t.Errorf("%s: %s", kind, got)
		}
	}
	if got := StatusPath("g/v1", "GatewayClass", "", "x"); got != "/apis/g/v1/gatewayclasses/x/status" {
		t.Errorf("an object in no namespace: %s", got)
	}
}
