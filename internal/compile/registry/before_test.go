package registry

import (
	"testing"

	"fairway/internal/mesh"
)

// TestBeforeIsTotal: of two hosts of one object one goes first, so that an address they share has one owner.
func TestBeforeIsTotal(t *testing.T) {
	service := func(host mesh.Host) *mesh.Service {
		return &mesh.Service{Key: mesh.ServiceKey{Host: host, Namespace: "default", Registry: "ServiceEntry", Object: "entry"}}
	}
	a, b := service("a.example"), service("b.example")
	if Before(a, b) >= 0 || Before(b, a) <= 0 || Before(a, a) != 0 {
		t.Errorf("a before b: %d, b before a: %d, a before a: %d", Before(a, b), Before(b, a), Before(a, a))
	}
}
