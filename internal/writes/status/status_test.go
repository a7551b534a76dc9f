package status

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/writes/condition"
	"fairway/internal/writes/work"
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
		return condition.Of(o, reconciled, live)
	}
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	good := condition.Condition{Type: reconciled, Status: "True", Reason: "InForce"}
	bad := condition.Condition{Type: reconciled, Status: "False", Reason: "Bad", Message: "spec.b: bad"}
	const stands = `{"type":"Reconciled","status":"True","reason":"InForce",` +
		`"lastTransitionTime":"2029-01-01T00:00:00Z","observedGeneration":"3"}`
	for _, c := range []struct {
		name, status string
		wanted       condition.Condition
		want         []string // in the patch; none: there is no patch
	}{
		{"nothing stands", `{}`, good, []string{`"status":"True"`, `"lastTransitionTime":"2030-01-02T03:04:05Z"`, `"resourceVersion":"5"`}},
		{"it stands", `{"conditions":[` + stands + `],"observedGeneration":3}`, good, nil},
		{"of an older version", `{"conditions":[` + stands + `],"observedGeneration":2}`, good,
			[]string{`"observedGeneration":3}`, `"lastTransitionTime":"2029-01-01T00:00:00Z"`}},
		{"another's beside it", `{"conditions":[{"type":"Other","status":"Unknown"},` + stands + `],"observedGeneration":3}`, bad,
			[]string{`[{"status":"Unknown","type":"Other"},`, `"status":"False"`, `"reason":"Bad"`,
				`spec.b: bad`,
				`"lastTransitionTime":"2030-01-02T03:04:05Z"`}},
	} {
		body, err := patch(object(c.status), c.wanted, condition.Condition{}, now)
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

// TestWhichCondition: an object gets the condition of its newest version, and none while the result of that is not known.
func TestWhichCondition(t *testing.T) {
	force, newest := condition.Condition{Type: reconciled, Status: "True"}, condition.Condition{Type: reconciled, Status: "False"}
	key := config.Key{Kind: "VirtualService", Namespace: "shop", Name: "v"}
	var wanted Wanted
	w := New(Options{
		Mine: func(map[string]string) bool { return true }, Wanted: func(config.Key) Wanted { return wanted },
		Report: work.NewReport(prometheus.NewRegistry(), slog.New(slog.DiscardHandler), func(string, []mesh.Problem) {}),
	})
	if _, _, body, err := w.change(key); body != nil || err != nil {
		t.Errorf("an object that is not in the cluster gets %s, %v", body, err)
	}
	o := &unstructured.Unstructured{}
	if err := o.UnmarshalJSON([]byte(`{"apiVersion":"networking.istio.io/v1","kind":"VirtualService",` +
		`"metadata":{"namespace":"shop","name":"v","uid":"u","generation":3}}`)); err != nil {
		t.Fatal(err)
	}
	w.Observe(o, false)
	for _, c := range []struct {
		name   string
		wanted Wanted
		status string // empty: no patch
	}{
		{"in force", Wanted{Version: config.Stored{UID: "u", Generation: 3}, InForce: force, Newest: newest}, "True"},
		{"refused", Wanted{Version: config.Stored{UID: "u", Generation: 2}, InForce: force, Newest: newest}, "False"},
		{"refused at once", Wanted{Version: config.Stored{}, InForce: force, Newest: newest}, "False"},
		{"another object of the name", Wanted{Version: config.Stored{UID: "x", Generation: 3}, InForce: force, Newest: newest}, "False"},
		{"it waits", Wanted{Version: config.Stored{UID: "u", Generation: 2}, InForce: force, Newest: condition.Condition{}}, ""},
	} {
		wanted = c.wanted
		_, _, body, err := w.change(key)
		if err != nil || c.status == "" && body != nil || !strings.Contains(string(body), `"status":"`+c.status) && c.status != "" {
			t.Errorf("%s: %s, %v", c.name, body, err)
		}
	}
}

// TestLive: the condition Live is written with Reconciled, once for a generation; one that is not known yet stays as it is.
func TestLive(t *testing.T) {
	key := config.Key{Kind: "VirtualService", Namespace: "shop", Name: "v"}
	var wanted Wanted
	w := New(Options{
		Mine: func(map[string]string) bool { return true }, Wanted: func(config.Key) Wanted { return wanted },
		Report: work.NewReport(prometheus.NewRegistry(), slog.New(slog.DiscardHandler), func(string, []mesh.Problem) {}),
	})
	force := condition.Condition{Type: reconciled, Status: "True", Reason: "InForce"}
	all := condition.Condition{Type: live, Status: "True", Reason: "Acknowledged"}
	bad := condition.Condition{Type: reconciled, Status: "False", Reason: "Bad", Message: "spec.b: bad"}
	stored := func(generation int64) config.Stored { return config.Stored{UID: "u", Generation: generation} }
	const both = `{"observedGeneration":3,"conditions":[` +
		`{"type":"Reconciled","status":"True","reason":"InForce","lastTransitionTime":"2029-01-01T00:00:00Z","observedGeneration":3},` +
		`{"type":"Live","status":"True","reason":"Acknowledged","lastTransitionTime":"2029-01-01T00:00:00Z","observedGeneration":3}]}`
	waits := condition.Condition{Type: live, Status: "False", Reason: "Waiting", Message: "for subset v2"}
	late := condition.Condition{Type: live, Status: "False", Reason: "NotAcknowledged", Message: "2 of 3 proxies lack it"}
	said := strings.ReplaceAll(both, `"Live","status":"True","reason":"Acknowledged","lastTransitionTime":"2029-01-01T00:00:00Z",`+
		`"observedGeneration":3`, `"Live","status":"False","reason":"Waiting","message":"for subset v1","observedGeneration":4`)
	lateBefore := strings.ReplaceAll(strings.ReplaceAll(said, "Waiting", "NotAcknowledged"), `"observedGeneration":3`, `"observedGeneration":4`)
	for _, c := range []struct {
		name, status string
		generation   int
		wanted       Wanted
		want         string // the patch's condition, without times; empty: no patch
	}{
		{"live", `{}`, 3, Wanted{Version: stored(3), InForce: force, Live: all}, `Live True Acknowledged 3`},
		{"on its way", `{}`, 3, Wanted{Version: stored(3), InForce: force}, ``},
		{"it stands", both, 3, Wanted{Version: stored(3), InForce: force, Live: all}, `-`},
		{"it stands, and nothing is known", both, 3, Wanted{Version: stored(3), InForce: force}, `-`},
		{"the next one is on its way", both, 4, Wanted{Version: stored(4), InForce: force}, `Live True Acknowledged 3`},
		{"the next one is live", both, 4, Wanted{Version: stored(4), InForce: force, Live: all}, `Live True Acknowledged 4`},
		{"the next one is refused", both, 4, Wanted{Version: stored(3), InForce: force, Newest: bad, Live: all}, `Live False Bad 4`},
		{"the next one waits", both, 4, Wanted{Version: stored(3), InForce: force, Live: all}, `-`},
		{"the next one waits at the door", both, 4, Wanted{Version: stored(3), InForce: force, Live: all, Waits: waits},
			`Live False Waiting 4 of 3`},
		{"it is said already that the next one waits", said, 4, Wanted{Version: stored(3), InForce: force, Live: all, Waits: waits}, `-`},
		{"the first one waits", `{}`, 1, Wanted{Waits: waits}, `Live False Waiting 1 of 0`},
		{"it does not wait any more", said, 4, Wanted{Version: stored(4), InForce: force, Live: all}, `Live True Acknowledged 4`},
		{"it is late", both, 4, Wanted{Version: stored(4), InForce: force, Live: late}, `Live False NotAcknowledged 4`},
		{"it was late in other numbers", lateBefore, 4, Wanted{Version: stored(4), InForce: force, Live: late}, `-`},
		{"it has errors", `{}`, 3, Wanted{Version: stored(3), InForce: bad, Live: all}, `Live False Bad 3`},
	} {
		o := &unstructured.Unstructured{}
		if err := o.UnmarshalJSON(fmt.Appendf(nil, `{"apiVersion":"networking.istio.io/v1","kind":"VirtualService",`+
			`"metadata":{"namespace":"shop","name":"v","uid":"u","generation":%d},"status":%s}`, c.generation, c.status)); err != nil {
			t.Fatal(err)
		}
		w.Observe(o, false)
		wanted = c.wanted
		_, _, body, err := w.change(key)
		if err != nil {
			t.Fatal(err)
		}
		var patch struct {
			Status struct {
				Conditions         []condition.Condition
				ObservedGeneration int64
			}
		}
		got := "-"
		if body != nil {
			got = ""
			if err := json.Unmarshal(body, &patch); err != nil {
				t.Fatal(err)
			}
		}
		for _, is := range patch.Status.Conditions {
			if is.Type == live {
				got = fmt.Sprint(is.Type, " ", is.Status, " ", is.Reason, " ", is.ObservedGeneration)
			}
			if is.Reason == "Waiting" { // the rest of the status is of the version in force
				got += fmt.Sprint(" of ", patch.Status.ObservedGeneration)
			}
		}
		if got != c.want {
			t.Errorf("%s: %q in %s, want %q", c.name, got, body, c.want)
		}
	}
}
