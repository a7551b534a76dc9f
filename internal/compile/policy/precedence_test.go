package policy_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"fairway/internal/compile/compiletest"
	"fairway/internal/mesh"
	"fairway/internal/xdstype"
)

// TestPrecedence: the issuers that shop's workload accepts tokens of, if several RequestAuthentications hold for it; they add up.
func TestPrecedence(t *testing.T) {
	rule := func(at, selector, issuer string) string {
		return "RequestAuthentication " + at + " {" + selector + "jwtRules: [{issuer: issuer-" + issuer +
			`, jwks: '{"keys":[{"kty":"oct","k":"AAAA","kid":"1","alg":"HS256"}]}'}]}` + "\n"
	}
	const web, other = "selector: {matchLabels: {app: web}}, ", "selector: {matchLabels: {app: other}}, "
	compiletest.Precedence(t, `
ServiceEntry shop/web {hosts: [web.shop], location: MESH_INTERNAL, resolution: STATIC, endpoints: [{address: 10.9.0.1}],
  ports: [{number: 80, name: http, protocol: HTTP, targetPort: 8080}]}
`, []mesh.Proxy{compiletest.Proxy("sidecar web.shop 10.9.0.1 app=web")}, []compiletest.Row{
		{
			Name:  "one without a selector holds for its namespace",
			Cite:  "request_authentication.proto RequestAuthentication.selector: If not set, the selector will match all workloads",
			Rules: rule("shop/all", "", "a") + rule("bank/all", "", "b"),
			Want:  "a",
		},
		{
			Name:  "one with a selector adds to one without, which goes on counting",
			Cite:  "beyond the API reference: docs/concepts/security, Request authentication: rules of all that match are combined",
			Rules: rule("shop/all", "", "a") + rule("shop/web", web, "b") + rule("shop/other", other, "c"),
			Want:  "a b",
		},
		{
			Name:  "two with selectors add up",
			Cite:  "beyond the API reference: docs/concepts/security, Request authentication: rules of all that match are combined",
			Rules: rule("shop/z", web, "a") + rule("shop/a", web, "b"),
			Want:  "a b",
		},
		{
			Name:  "the root namespace's holds for all namespaces, beside their own",
			Cite:  "beyond the API reference: docs/concepts/security, Policy storage: one of the root namespace applies to the mesh",
			Rules: rule("istio-system/all", "", "a") + rule("shop/web", web, "b"),
			Want:  "a b",
		},
		{
			Name:  "the root namespace's selector picks in all namespaces",
			Cite:  "request_authentication.proto RequestAuthentication.selector: additionally match with workloads in all namespaces",
			Rules: rule("istio-system/web", web, "a") + rule("istio-system/other", other, "b") + rule("bank/web", web, "c"),
			Want:  "a",
		},
		{
			Name:  "two rules of one issuer are both taken, once",
			Cite:  "beyond the API reference: docs/concepts/security, Request authentication: as if they were a single policy",
			Rules: rule("shop/z", web, "a") + rule("shop/a", web, "a"),
			Want:  "a",
		},
	}, issuers)
}

// issuers are the issuers of the tokens that the workload's listener accepts.
func issuers(w *compiletest.World) string {
	var out []string
	for _, all := range w.ByProxy(xdstype.Listeners) {
		for _, issuer := range []string{"a", "b", "c"} {
			if e := all["virtualInbound"]; e != nil && bytes.Contains(e.Body, []byte("issuer-"+issuer)) {
				out = append(out, issuer)
			}
		}
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}
