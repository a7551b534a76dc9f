package registry_test

import (
	"testing"

	"fairway/internal/compile/registry"
	"fairway/internal/mesh"
)

// TestBeforeIsTotal: two hosts of one object have an order, so that an address which they share has one owner.
func TestBeforeIsTotal(t *testing.T) {
	service := func(host mesh.Host) *mesh.Service {
		return &mesh.Service{Key: mesh.ServiceKey{Host: host, Namespace: "default", Registry: "ServiceEntry", Object: "entry"}}
	}
	a, b := service("a.example"), service("b.example")
	if registry.Before(a, b) >= 0 || registry.Before(b, a) <= 0 || registry.Before(a, a) != 0 {
		t.Errorf("a before b: %d, b before a: %d, a before a: %d", registry.Before(a, b), registry.Before(b, a), registry.Before(a, a))
	}
}
