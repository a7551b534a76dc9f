package condition

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// A status with any content is read as far as possible.
func TestOddStatuses(t *testing.T) {
	for text, want := range map[string]Condition{
		`{}`:                    {},
		`7`:                     {},
		`{"conditions":{}}`:     {},
		`{"conditions":[7]}`:    {},
		`{"conditions":[null]}`: {},
		`{"conditions":[{"type":"Own","status":7,"observedGeneration":"x"}]}`:              {Type: "Own"},
		`{"conditions":[{"type":"Other"},{"type":"Own","status":"True"}]}`:                 {Type: "Own", Status: "True"},
		`{"conditions":[{"type":"Own","status":"True","observedGeneration":"4"}],"x":"y"}`: {Type: "Own", Status: "True", ObservedGeneration: 4},
	} {
		o := &unstructured.Unstructured{}
		if err := o.UnmarshalJSON([]byte(`{"apiVersion":"a/v1","kind":"Thing","metadata":{"name":"n"},"status":` + text + `}`)); err != nil {
			t.Fatal(err)
		}
		s := Of(o, "Own", "")
		if s.Own != want {
			t.Errorf("%s: %+v", text, s.Own)
		}
		if _, err := s.Patch(Condition{Type: "Own"}, Condition{}, 0); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}
