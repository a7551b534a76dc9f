package ctl_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"fairway/test/plane"
	"fairway/test/platform/registry/etcdserver"
	"fairway/test/rig"
)

// TestKeepNamesTheTurn: apply names the turn if a flag names a control plane that reads the store, and --wait waits as wait -f does.
func TestKeepNamesTheTurn(t *testing.T) {
	s := etcdserver.Start(t, etcdserver.Options{})
	t.Setenv("FAIRWAY_STORE", s.URL())
	text, err := json.Marshal(map[string]any{"registries": []any{map[string]any{"etcd": map[string]any{"urls": []string{s.URL()}}}}})
	if err != nil {
		t.Fatal(err)
	}
	o := plane.Options()
	o.RegistriesFile = rig.Write(t, t.TempDir(), "registries", text)
	p := plane.Start(t, o)
	address := p.Discovery.HTTPAddr()
	apply := func(port int, want string, args ...string) {
		t.Helper()
		got := keeping(fmt.Sprintf(keptRule, "front", port), append([]string{"apply", "-f", "-"}, args...)...)
		if !regexp.MustCompile("^" + want + "$").MatchString(got) {
			t.Errorf("apply %s prints\n%s\nwant\n%s", strings.Join(args, " "), got, want)
		}
	}
	apply(8080, `Gateway/shop/front created, turn \d+\n`, "--address", address)
	p.Connect(t, plane.Proxy{Name: "front-1", Namespace: "shop", Type: "router", Labels: map[string]string{"istio": "ingressgateway"}})
	apply(8080, `Gateway/shop/front unchanged\n`, "--address", address)
	apply(8081, `Gateway/shop/front configured\n`)
	const live = `Gateway shop/front: in force since turn \d+ \([\d:.]+\), acknowledged by every proxy \(1\); warming unknown\n`
	apply(8082, `Gateway/shop/front configured\n`+live, "--wait", "--address", address)
	apply(8082, `Gateway/shop/front unchanged\n`+live, "--wait", "--timeout", "5s", "--address", address)
	apply(8083, `Gateway/shop/front\n`+live, "--wait", "-o", "name", "--address", address)
	apply(8084, `the turn is not known: ask 127.0.0.1:1: .*\n(.*\n)*Gateway/shop/front configured\n`, "--address", "127.0.0.1:1")
	apply(8085, `Gateway/shop/front configured\nexit code 2: (.*\n)+`, "--wait", "--address", "127.0.0.1:1")
	apply(8086, `exit code 2: --wait and --dry-run: want one of them, .*\n`, "--wait", "--dry-run")
	apply(8086, `exit code 2: --timeout must not be negative\n`, "--wait", "--timeout", "-1s")
	// A rule that waits at the door has no turn, and --wait says what it waits for.
	waits := strings.Replace(fmt.Sprintf(keptRule, "front", 8086), "selector:", "selectr:", 1)
	if got := keeping(waits, "apply", "-f", "-", "--wait", "--address", address); !strings.Contains(got, "nothing was written") {
		t.Error(got)
	}
	route := "apiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: late, namespace: shop}\n" +
		"spec: {hosts: [late.example], http: [{route: [{destination: {host: late.example, subset: v9}}]}]}\n"
	got := keeping(route, "apply", "-f", "-", "--wait", "--timeout", "100ms", "--address", address)
	const over = "exit code 1: not everything is in force after 100ms"
	if !strings.Contains(got, "VirtualService shop/late: ") || !strings.Contains(got, over) {
		t.Error(got)
	}
}
