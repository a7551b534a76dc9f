package registry_test

import (
	"testing"

	"fairway/internal/compile/compiletest"
	"fairway/internal/mesh"
	"fairway/internal/source"
)

// A registry's service selects WorkloadEntries of its namespace beside the registry's own endpoints. The entry gives the number of a port
// by the port's name or by the name of its target; else it is the target's number.
func TestServicesSelectWorkloadEntries(t *testing.T) {
	service := func(registry string, change func(*mesh.Service)) *mesh.Service {
		s := &mesh.Service{
			Key: mesh.ServiceKey{Host: "db.shop.svc.cluster.local", Namespace: "shop", Registry: registry, Object: "db"},
			Ports: []mesh.Port{
				{Name: "admin", Number: 81, Protocol: mesh.HTTP}, {Name: "http", Number: 80, Target: 8080, Protocol: mesh.HTTP},
			},
			Resolution: mesh.ClientSide, Selects: mesh.MakeLabels(map[string]string{"app": "db", "tier": "back"}),
			TargetNames: mesh.MakeLabels(map[string]string{"admin": "manage"}),
		}
		change(s)
		return s
	}
	as := func(*mesh.Service) {}
	const entries = `apiVersion: networking.istio.io/v1
kind: WorkloadEntry
metadata: {name: vm1, namespace: shop}
spec: {address: 10.2.0.1, labels: {app: db, tier: back, version: v1}, ports: {manage: 9000}}
---
apiVersion: networking.istio.io/v1
kind: WorkloadEntry
metadata: {name: vm2, namespace: shop}
spec: {address: 10.2.0.2, labels: {app: db, tier: back}, ports: {manage: 9000, admin: 9001, http: 9002}}
---
apiVersion: networking.istio.io/v1
kind: WorkloadEntry
metadata: {name: front, namespace: shop}
spec: {address: 10.2.0.3, labels: {app: db, tier: front}}
---
apiVersion: networking.istio.io/v1
kind: WorkloadEntry
metadata: {name: elsewhere, namespace: bank}
spec: {address: 10.2.0.4, labels: {app: db, tier: back}}
`
	const both = "WorkloadEntry/vm1 10.2.0.1 ports=admin=9000,manage=9000 labels=app=db,tier=back,version=v1\n" +
		"WorkloadEntry/vm2 10.2.0.2 ports=admin=9001,http=9002,manage=9000 labels=app=db,tier=back"
	w := compiletest.New(t)
	w.Apply(entries)
	for _, step := range []struct {
		name string
		set  []*mesh.Service
		gone []mesh.ServiceKey
		want string
	}{
		{"no service", nil, nil, ""},
		{"one", []*mesh.Service{service(east, as)}, nil, both},
		{"another cluster's of the name", []*mesh.Service{service("Kubernetes/west", as)}, nil, both},
		{"other labels", []*mesh.Service{
			service(east, func(s *mesh.Service) { s.Selects = "app=db,tier=front" }),
			service("Kubernetes/west", func(s *mesh.Service) { s.Selects = "" }),
		}, nil, "WorkloadEntry/front 10.2.0.3 labels=app=db,tier=front"},
		{"none selected", []*mesh.Service{service(east, func(s *mesh.Service) { s.Selects = "" })}, nil, ""},
		{"outside", []*mesh.Service{service(east, func(s *mesh.Service) { s.External = true })}, nil, ""},
		{"gone", []*mesh.Service{service(east, as)}, []mesh.ServiceKey{service(east, as).Key}, ""},
	} {
		w.In.Apply(source.Batch{Set: source.Rows{Services: step.set}})
		if len(step.gone) > 0 {
			w.Settle()
			w.In.Apply(source.Batch{Gone: source.Keys{Services: step.gone}})
		}
		w.Settle()
		if got := rows(w); got != step.want {
			t.Errorf("%s:\n%s\nwant\n%s", step.name, got, step.want)
		}
	}
}
