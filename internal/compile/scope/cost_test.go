package scope_test

import (
	"fmt"
	"slices"
	"testing"

	"fairway/internal/compile/compiletest"
)

// sender is a VirtualService for a host of its own, which sends requests to a.example.
func sender(i int) string {
	return fmt.Sprintf("---\napiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: v%[1]d, namespace: shop}\n"+
		"spec: {hosts: [h%[1]d.example], http: [{route: [{destination: {host: a.example}}]}]}\n", i)
}

// TestRulesToOneHostAreApart: if many VirtualServices send requests to one host, one more or less recomputes none of the others, nor the
// view of the host for proxies without a Sidecar.
func TestRulesToOneHostAreApart(t *testing.T) {
	w := compiletest.Large(t)
	w.Apply("apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: a, namespace: shop}\n" +
		"spec: {hosts: [a.example], ports: [{number: 80, name: http, protocol: HTTP}], resolution: STATIC, " +
		"endpoints: [{address: 10.0.0.1}]}\n")
	w.Connect(compiletest.Sidecar("p", "shop", "10.250.0.1"), compiletest.Proxy("router e.shop 10.0.0.3 istio=edge"))
	w.Settle()
	for i := range 20 {
		w.Apply(sender(i))
		for _, part := range w.Settle().Tables {
			if slices.Contains([]string{"route/checks", "seen"}, part.Name) && part.Recomputed > 1 {
				t.Errorf("with rule %d, %d rows of %s were recomputed", i, part.Recomputed, part.Name)
			}
		}
	}
	for i := range 20 {
		w.Delete("VirtualService", "shop", fmt.Sprint("v", i))
		for _, part := range w.Settle().Tables {
			if slices.Contains([]string{"route/checks", "seen"}, part.Name) && part.Recomputed > 0 {
				t.Errorf("without rule %d, %d rows of %s were recomputed", i, part.Recomputed, part.Name)
			}
		}
	}
}
