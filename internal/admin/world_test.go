package admin_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"testing"

	"go.uber.org/goleak"

	"fairway/internal/admin"
	"fairway/internal/mesh"
	"fairway/internal/questions"
	"fairway/test/plane"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const reviews = `
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: reviews, namespace: shop}
spec:
  hosts: [reviews.shop.svc.cluster.local]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{number: 80, name: http, protocol: HTTP}]
  endpoints:
  - {address: 10.0.0.1, labels: {version: v1}, locality: north/a, weight: 3}
  - {address: 10.0.0.2, labels: {version: v2}}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: ratings, namespace: shop}
spec:
  hosts: [ratings.shop.svc.cluster.local]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{number: 80, name: http, protocol: HTTP}]
  workloadSelector: {labels: {app: ratings}}
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: reviews, namespace: shop}
spec:
  host: reviews
  subsets:
  - {name: v1, labels: {version: v1}}
  - {name: v2, labels: {version: v2}}
`

// mistakes has two VirtualServices with one host, a subset that no rule defines and one that is defined twice.
const mistakes = `
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: first, namespace: shop}
spec:
  hosts: [reviews]
  http:
  - route:
    - destination:
        host: reviews
        subset: v9
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: second, namespace: shop}
spec:
  hosts: [reviews]
  http:
  - route:
    - destination: {host: reviews}
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: reviews-again, namespace: shop}
spec:
  host: reviews
  subsets:
  - {name: v2, labels: {version: v3}}
`

// start runs a control plane in which no change waits at the door.
func start(t testing.TB) *plane.Plane {
	opts := plane.Options()
	opts.Grace = 0
	p := plane.Start(t, opts)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	return p
}

// atOnce is a queue for pages without turns.
func atOnce(m *admin.Metrics) *questions.Queue {
	return questions.New(questions.Options{
		Between: func(_ context.Context, f func()) error { f(); return nil }, Meter: m.Questions,
	})
}

// ask requests a page and returns its status, type and body.
func ask(t testing.TB, p *plane.Plane, method, path string) (status int, contentType, body string) {
	t.Helper()
	req, err := http.NewRequest(method, p.URL(path), nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header.Get("Content-Type"), string(text)
}

// read requests a page of JSON.
func read[T any](t testing.TB, p *plane.Plane, path string) T {
	t.Helper()
	status, contentType, body := ask(t, p, http.MethodGet, path)
	if status != http.StatusOK || contentType != "application/json" {
		t.Fatalf("GET %s: %d %s %s", path, status, contentType, body)
	}
	var out T
	if err := json.Unmarshal([]byte(body), &out); err != nil {
		t.Fatalf("GET %s: %v", path, err)
	}
	return out
}

// elsewhere is a service of another registry, for the host that the ServiceEntry has too.
func elsewhere() *mesh.Service {
	return &mesh.Service{
		Key:   mesh.ServiceKey{Host: "reviews.shop.svc.cluster.local", Namespace: "shop", Registry: "Elsewhere"},
		Ports: []mesh.Port{{Name: "http", Number: 80, Protocol: mesh.HTTP}}, ExportTo: []string{"*"},
		Origin: mesh.ObjectRef{Kind: "Service", Namespace: "shop", Name: "reviews"},
	}
}
