package envoy

import (
	"path/filepath"
	"testing"

	"fairway/test/envoy/live"
)

// gatewayClaims: as long as no proxy verifies tokens no request has claims, whatever it brings along.
func gatewayClaims(t *testing.T, m *live.Mesh) {
	m.Backends(t, "gwclaims-a", "gwclaims-b", "gwclaims-c")
	m.Apply(
		t,
		service(
			"gwclaims.test",
			"gwclaims-a:a",
			"gwclaims-b:b",
			"gwclaims-c:c",
		)+subsets(
			"gwclaims.test",
			"a",
			"b",
			"c",
		)+entrance(
			"gwclaims",
			`
  - {port: {number: 8000, name: http, protocol: HTTP}, bind: <gwclaims-entry>, hosts: ["*.gwclaims.example"]}
`,
		)+behind(
			"gwclaims",
			"shop.gwclaims.example",
			`
  http:
  - match: [{headers: {"@request.auth.claims.group": {exact: admins}}}, {headers: {"@request.auth.claims[group]": {}}}]
    route: [{destination: {host: gwclaims.test, subset: a}}]
  - match: [{uri: {prefix: /guests}, withoutHeaders: {"@request.auth.claims.group": {exact: admins}, "@request.auth.claims.sub": {regex: "*"}}}]
    route: [{destination: {host: gwclaims.test, subset: b}}]
  - route: [{destination: {host: gwclaims.test, subset: c}}]
`,
		),
	)
	const token = "Bearer eyJhbGciOiJub25lIn0.eyJncm91cCI6ImFkbWlucyIsInN1YiI6ImEifQ." // {"group":"admins","sub":"a"}, signed by nobody
	for _, authorization := range []string{"", token} {
		enter := func(path string) live.Reply {
			r := live.Request{To: m.Addr("gwclaims-entry", 8000), Host: "shop.gwclaims.example", Path: path}
			if authorization != "" {
				r = with(r, "authorization", authorization)
			}
			return live.Send(t, r)
		}
		wantServer(t, enter("/"), "gwclaims-c")
		wantServer(t, enter("/guests"), "gwclaims-b")
	}
}

// gatewaySocket: a server at a unix socket.
func gatewaySocket(t *testing.T, m *live.Mesh) {
	m.Backend(t, "gwsocket")
	socket := filepath.Join(t.TempDir(), "s")
	m.Apply(t, service("gwsocket.test", "gwsocket")+entrance("gwsocket", `
  - {port: {number: 0, name: http, protocol: HTTP}, bind: "unix://`+socket+`", hosts: [gwsocket.example]}
`)+behind("gwsocket", "gwsocket.example", `
  http: [{match: [{uri: {prefix: ""}}], route: [{destination: {host: gwsocket.test}}]}]
`))
	wantServer(t, live.Send(t, live.Request{To: socket, Host: "gwsocket.example"}), "gwsocket")
	wantStatus(t, live.Send(t, live.Request{To: socket, Host: "other.example"}), 404)
}
