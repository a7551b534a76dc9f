package policy_test

import (
	"strings"
	"testing"
	"time"

	"fairway/internal/compile/compiletest"
	"fairway/internal/jwks"
)

// TestUnreadKeys: a version of a policy leaves proxies as they are while its keys have not been asked for. The version before stays in
// force.
func TestUnreadKeys(t *testing.T) {
	w := compiletest.New(t)
	w.Connect(compiletest.Sidecar("web", "shop", "10.0.0.1"))
	write := func(source string) {
		t.Helper()
		w.Apply("apiVersion: security.istio.io/v1\nkind: RequestAuthentication\nmetadata: {name: web, namespace: shop}\n" +
			"spec: {jwtRules: [{issuer: one, jwksUri: \"https://" + source + "/keys\"}]}\n")
		w.Settle()
	}
	answer := func(source string) {
		t.Helper()
		w.In.KeySets.Set(jwks.Source{URI: "https://" + source + "/keys", Timeout: 5 * time.Second}, jwks.Answer{Keys: "KEYS OF " + source})
		w.Settle()
	}
	has := func(when string, verifies, waits bool) {
		t.Helper()
		listeners := w.Print("listener/inbound", "")
		if !strings.Contains(listeners, "virtualInbound") {
			t.Fatalf("%s: the workload has no listener", when)
		}
		if got := strings.Contains(w.Print("request authentications/enforced", ""), "web"); got != verifies {
			t.Errorf("%s: the policy is in force: %v", when, got)
		}
		if got := strings.Contains(w.Print("waiting", ""), "web"); got != waits {
			t.Errorf("%s: a proxy that comes waits: %v", when, got)
		}
	}
	w.Settle()
	without := w.Print("listener/inbound", "")
	write("a.test")
	has("its keys are not known", false, true)
	if got := w.Print("listener/inbound", ""); got != without {
		t.Errorf("a policy that is not in force changes a listener:\n%s\nwas\n%s", got, without)
	}
	answer("a.test")
	has("its keys are known", true, false)
	before := w.Print("listener/inbound", "")
	write("b.test")
	has("it has another issuer", true, true)
	if got := w.Print("listener/inbound", ""); got != before {
		t.Errorf("keys that are not known change a listener:\n%s\nwas\n%s", got, before)
	}
	if asked := w.Print("request authentications/asked", ""); !strings.Contains(asked, "a.test") || !strings.Contains(asked, "b.test") {
		t.Errorf("asked are\n%s", asked)
	}
	answer("b.test")
	has("the other issuer's keys are known", true, false)
	if w.Print("listener/inbound", "") == before {
		t.Error("the listener is still the old one", before, w.Print("listener/inbound", ""))
	}
	w.Settle()
	if asked := w.Print("request authentications/asked", ""); strings.Contains(asked, "a.test") {
		t.Errorf("asked are\n%s", asked)
	}
	w.Delete("RequestAuthentication", "shop", "web")
	w.Settle()
	if got := w.Print("listener/inbound", ""); got != without {
		t.Errorf("after it is gone:\n%s\nwas\n%s", got, without)
	}
}
