package mesh_test

import (
	"encoding/json"
	"slices"
	"testing"
	"unsafe"

	"fairway/internal/mesh"
)

// The second address of an endpoint is compared, printed and stored like the first.
func TestOthers(t *testing.T) {
	one := mesh.Endpoint{Address: "10.0.0.1"}
	two := one
	two.Also = mesh.MakeOthers("fd00::1", "fd00::2")
	same := one
	same.Also = mesh.MakeOthers("fd00::1", "fd00::2")
	if one == two || two != same {
		t.Error("endpoints are the same by their first address alone")
	}
	if got := slices.Collect(two.Addresses()); !slices.Equal(got, []string{"10.0.0.1", "fd00::1", "fd00::2"}) {
		t.Errorf("addresses are %v", got)
	}
	if got := two.String(); got != "10.0.0.1 also=fd00::1,fd00::2" {
		t.Errorf("printed as %q", got)
	}
	for _, e := range []mesh.Endpoint{one, two} {
		var back mesh.Endpoint
		text, err := json.Marshal(e)
		if err == nil {
			err = json.Unmarshal(text, &back)
		}
		if err != nil || back != e {
			t.Errorf("%v came back as %v (%v)", e, back, err)
		}
	}
	if n := slices.Collect(one.Addresses()); len(n) != 1 || mesh.MakeOthers() != (mesh.Others{}) {
		t.Errorf("an endpoint with one address has %v", n)
	}
}

// A mesh has many endpoints, and nearly all have one address: the field must cost them nothing.
func TestEndpointSize(t *testing.T) {
	if got := unsafe.Sizeof(mesh.Endpoint{}); unsafe.Sizeof("") == 16 && got > 168 {
		t.Errorf("an endpoint takes %d bytes", got)
	}
}
