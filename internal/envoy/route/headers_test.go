package route

import (
	"strings"
	"testing"

	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/mesh"
)

// TestWithheldCommandIsNamed, wherever a rule can write a header's value, and nothing of it is sent.
func TestWithheldCommandIsNamed(t *testing.T) {
	ops := func() *networking.Headers_HeaderOperations {
		return &networking.Headers_HeaderOperations{
			Set: map[string]string{"x-a": "%ENVIRONMENT(HOME)%", "x-b": "b"},
			Add: map[string]string{"x-c": "c %CEL(xds.node)%"},
		}
	}
	var codes []string
	b := Builder{Note: func(p mesh.Problem) { codes = append(codes, p.Code+" "+p.Field) }}
	o := b.operations("h", &networking.Headers{Request: ops(), Response: ops()})
	if len(o.requestAdd) != 1 || len(o.responseAdd) != 1 || o.requestAdd[0].Header.Value != "b" {
		t.Errorf("%v, %v", o.requestAdd, o.responseAdd)
	}
	want := "WithheldCommand h.request.set.x-a, WithheldCommand h.request.add.x-c, WithheldCommand h.response.set.x-a, " +
		"WithheldCommand h.response.add.x-c"
	if got := strings.Join(codes, ", "); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}
