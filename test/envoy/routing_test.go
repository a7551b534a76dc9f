package envoy

import (
	"testing"

	"fairway/test/envoy/live"
)

func routing() []feature {
	return []feature{
		{"weights", weights},
		{"subsets", pickSubsets},
		{"weights and headers of destinations", weightedHeaders},
		{"a service of its own on a second port", otherPort},
	}
}

// weights: a 90/10 split; 1,000 requests are within five standard deviations of it.
func weights(t *testing.T, m *live.Mesh) {
	m.Backends(t, "weights-v1", "weights-v2")
	m.Apply(t, service("weights.test", "weights-v1:v1", "weights-v2:v2")+subsets("weights.test", "v1", "v2")+virtual("weights.test", `
  http:
  - route:
    - {destination: {host: weights.test, subset: v1}, weight: 90}
    - {destination: {host: weights.test, subset: v2}, weight: 10}
`))
	got := live.Tally(t, 1000, from(m, "weights.test"))
	if n := got["weights-v2"]; n < 53 || n > 147 || got["weights-v1"]+n != 1000 {
		t.Errorf("90/10 came out as %v", got)
	}
	m.Apply(t, virtual("weights.test", `
  http:
  - route:
    - {destination: {host: weights.test, subset: v1}, weight: 0}
    - {destination: {host: weights.test, subset: v2}, weight: 100}
`))
	if got := live.Tally(t, 50, from(m, "weights.test")); got["weights-v2"] != 50 {
		t.Errorf("0/100 came out as %v", got)
	}
}

// pickSubsets: a subset is the endpoints whose labels it names; without a rule all of them serve.
func pickSubsets(t *testing.T, m *live.Mesh) {
	m.Backends(t, "subsets-v1", "subsets-v2")
	m.Apply(t, service("subsets.test", "subsets-v1:v1", "subsets-v2:v2"))
	if got := live.Tally(t, 40, from(m, "subsets.test")); got["subsets-v1"] == 0 || got["subsets-v2"] == 0 {
		t.Errorf("without rules the endpoints share requests, got %v", got)
	}
	m.Apply(t, subsets("subsets.test", "v1", "v2")+virtual("subsets.test", `
  http:
  - match: [{headers: {x-version: {exact: v2}}}]
    route: [{destination: {host: subsets.test, subset: v2}}]
  - route: [{destination: {host: subsets.test, subset: v1}}]
`))
	if got := live.Tally(t, 20, from(m, "subsets.test")); got["subsets-v1"] != 20 {
		t.Errorf("subset v1: %v", got)
	}
	if got := live.Tally(t, 20, with(from(m, "subsets.test"), "x-version", "v2")); got["subsets-v2"] != 20 {
		t.Errorf("subset v2: %v", got)
	}
	m.Delete(t, "VirtualService subsets-test", "DestinationRule subsets-test")
	if got := live.Tally(t, 40, from(m, "subsets.test")); got["subsets-v1"] == 0 || got["subsets-v2"] == 0 {
		t.Errorf("with the rules gone the endpoints share requests again, got %v", got)
	}
}

// weightedHeaders: what headers a destination of a weighted route asks for go with its share only.
func weightedHeaders(t *testing.T, m *live.Mesh) {
	m.Backends(t, "wheaders-v1", "wheaders-v2")
	m.Apply(t, service("wheaders.test", "wheaders-v1:v1", "wheaders-v2:v2")+subsets("wheaders.test", "v1", "v2")+virtual("wheaders.test", `
  http:
  - route:
    - destination: {host: wheaders.test, subset: v1}
      weight: 50
      headers: {request: {set: {x-share: one}}, response: {set: {x-answer: one}}}
    - destination: {host: wheaders.test, subset: v2}
      weight: 50
`))
	seen := map[string]bool{}
	for range 60 {
		r := live.Send(t, from(m, "wheaders.test"))
		want := ""
		if r.Echo.Server == "wheaders-v1" {
			want = "one"
		}
		wantHeader(t, "x-share to "+r.Echo.Server, r.Echo.Header.Get("x-share"), want)
		wantHeader(t, "x-answer of "+r.Echo.Server, r.Header.Get("x-answer"), want)
		seen[r.Echo.Server] = true
	}
	if len(seen) != 2 {
		t.Errorf("60 requests at 50/50 reached %v only", seen)
	}
}

// otherPort: a service's ports are told apart by where the client sends.
func otherPort(t *testing.T, m *live.Mesh) {
	m.Backends(t, "ports-a", "ports-b")
	m.Apply(t, `
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: ports, namespace: default}
spec:
  hosts: [ports.test]
  location: MESH_INTERNAL
  resolution: STATIC
  ports:
  - {number: 8000, name: http, protocol: HTTP, targetPort: 8080}
  - {number: 8001, name: http-other, protocol: HTTP, targetPort: 8080}
  endpoints: [{address: <ports-a>, labels: {version: a}}, {address: <ports-b>, labels: {version: b}}]
`+subsets("ports.test", "a", "b")+virtual("ports.test", `
  http:
  - match: [{port: 8001}]
    route: [{destination: {host: ports.test, port: {number: 8001}, subset: b}}]
  - route: [{destination: {host: ports.test, port: {number: 8000}, subset: a}}]
`))
	wantServer(t, live.Send(t, from(m, "ports.test")), "ports-a")
	second := from(m, "ports.test")
	second.To = m.Addr(client+"-egress", live.OtherPort)
	wantServer(t, live.Send(t, second), "ports-b")
}
