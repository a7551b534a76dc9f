package status

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"fairway/internal/mesh"
	"fairway/internal/writes/condition"
)

// An object with the right condition needs no patch, whatever client wrote it and in whatever number format. Any other object gets a patch;
// it keeps the conditions of other controllers, and the transition time of a condition that has not changed.
func TestPatch(t *testing.T) {
	object := func(status string) condition.Standing {
		t.Helper()
		text := `{"apiVersion":"networking.istio.io/v1","kind":"VirtualService","metadata":{"uid":"u",` +
			`"resourceVersion":"5","generation":3},"status":` + status + `}`
		o := &unstructured.Unstructured{}
		if err := o.UnmarshalJSON([]byte(text)); err != nil {
			t.Fatal(err)
		}
		return condition.Of(o, reconciled)
	}
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	wrong := []mesh.Problem{
		{Field: "spec.a", Code: "Odd", Severity: mesh.Warning, Message: "odd"},
		{Field: "spec.b", Code: "Bad", Severity: mesh.Error, Message: "bad", Fix: "mend it"},
	}
	const good = `{"type":"Reconciled","status":"True","reason":"InForce",` +
		`"lastTransitionTime":"2029-01-01T00:00:00Z","observedGeneration":"3"}`
	for _, c := range []struct {
		name, status string
		problems     []mesh.Problem
		want         []string // in the patch; none: there is no patch
	}{
		{"nothing stands", `{}`, nil, []string{`"status":"True"`, `"lastTransitionTime":"2030-01-02T03:04:05Z"`, `"resourceVersion":"5"`}},
		{"it stands", `{"conditions":[` + good + `],"observedGeneration":3}`, nil, nil},
		{"of an older version", `{"conditions":[` + good + `],"observedGeneration":2}`, nil,
			[]string{`"observedGeneration":3}`, `"lastTransitionTime":"2029-01-01T00:00:00Z"`}},
		{"another's beside it", `{"conditions":[{"type":"Other","status":"Unknown"},` + good + `],"observedGeneration":3}`, wrong,
			[]string{`[{"status":"Unknown","type":"Other"},`, `"status":"False"`, `"reason":"Bad"`,
				`spec.b: bad (mend it); warning: spec.a: odd`,
				`"lastTransitionTime":"2030-01-02T03:04:05Z"`}},
		{"a warning alone", `{}`, wrong[:1], []string{`"status":"True"`, `warning: spec.a: odd`}},
	} {
		body, err := patch(object(c.status), verdict(append([]mesh.Problem(nil), c.problems...)), now)
		if err != nil {
			t.Fatal(err)
		}
		if c.want == nil && body != nil || c.want != nil && !json.Valid(body) {
			t.Errorf("%s: the patch is %s", c.name, body)
		}
		for _, want := range c.want {
			if !strings.Contains(string(body), want) {
				t.Errorf("%s: no %s in %s", c.name, want, body)
			}
		}
	}
}

// A status is bounded, whatever the number of problems.
func TestVerdictIsBounded(t *testing.T) {
	var list []mesh.Problem
	for range 30 {
		list = append(list, mesh.Problem{Field: strings.Repeat("f", len(list)+1), Severity: mesh.Error, Message: strings.Repeat("x", 300)})
	}
	got := verdict(list)
	if len(got.Message) > mostText+100 || !strings.Contains(got.Message, "and 20 more") {
		t.Errorf("%d bytes: %s", len(got.Message), got.Message)
	}
}
