package gatewayapi

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/writes/work"
)

func is(typ string, status metav1.ConditionStatus) metav1.Condition {
	return metav1.Condition{Type: typ, Status: status, Reason: "Why"}
}

// stands is a condition as an API server has it, of the first generation.
func stands(typ, status string) string {
	return `{"type": "` + typ + `", "status": "` + status + `", "reason": "Why", "message": "", "observedGeneration": 1, ` +
		`"lastTransitionTime": "2029-01-01T00:00:00Z"}`
}

// TestPatch: a status that says what is wanted needs no patch. Any other one gets a patch, which keeps what is others', and the time of a
// condition that has not changed.
func TestPatch(t *testing.T) {
	parent := func(controller gatewayv1.GatewayController, name gatewayv1.ObjectName, all ...metav1.Condition) gatewayv1.RouteParentStatus {
		return gatewayv1.RouteParentStatus{
			ParentRef: gatewayv1.ParentReference{Name: name}, ControllerName: controller, Conditions: all,
		}
	}
	at := func(controller, name, condition string) string {
		return `{"parentRef": {"name": "` + name + `"}, "controllerName": "` + controller + `", "conditions": [` + condition + `]}`
	}
	yes, stood, other := is("Accepted", "True"), stands("Accepted", "True"), at("other/x", "a", stands("Accepted", "False"))
	ours := Content{Parents: []gatewayv1.RouteParentStatus{parent("ours/x", "a", yes)}}
	ancestor := func(controller, name, condition string) string {
		return strings.ReplaceAll(at(controller, name, condition), "parentRef", "ancestorRef")
	}
	policy := Content{Ancestors: []gatewayv1.PolicyAncestorStatus{{
		AncestorRef: gatewayv1.ParentReference{Name: "a"}, ControllerName: "ours/x", Conditions: []metav1.Condition{yes},
	}}}
	gateway := Content{
		Conditions: []metav1.Condition{yes},
		Listeners:  []gatewayv1.ListenerStatus{{Name: "web", AttachedRoutes: 2, Conditions: []metav1.Condition{yes}}},
	}
	for _, c := range []struct {
		name, kind, status string
		generation         int64
		wanted             Content
		want               string // the patch, without the times of new conditions; empty: none
	}{
		{"a route without a status", "HTTPRoute", `{}`, 1, ours, "other: ; ours: a Accepted=True of 1 new"},
		{"it stands", "HTTPRoute", `{"parents": [` + at("ours/x", "a", stood) + `]}`, 1, ours, ""},
		{"it stands for the generation before", "HTTPRoute", `{"parents": [` + at("ours/x", "a", stood) + `]}`, 2, ours,
			"other: ; ours: a Accepted=True of 2 old"},
		{"another's stays, and first", "HTTPRoute", `{"parents": [` + other + `, ` + at("ours/x", "a", stands("Accepted", "False")) + `]}`, 1,
			ours, "other: a Accepted=False of 1 old; ours: a Accepted=True of 1 new"},
		{"it is bound elsewhere", "HTTPRoute", `{"parents": [` + at("ours/x", "b", stood) + `, ` + other + `]}`, 1, ours,
			"other: a Accepted=False of 1 old; ours: a Accepted=True of 1 new"},
		{"it is bound nowhere", "HTTPRoute", `{"parents": [` + at("ours/x", "b", stood) + `, ` + other + `]}`, 1, Content{},
			"other: a Accepted=False of 1 old; ours: "},
		{"it is bound nowhere, and never was", "HTTPRoute", `{"parents": [` + other + `]}`, 1, Content{}, ""},
		{"a type that is not said any more", "HTTPRoute", `{"parents": [` + at("ours/x", "a", stood+", "+stands("PartiallyInvalid", "True")) +
			`]}`, 1, ours, "other: ; ours: a Accepted=True of 1 old"},
		{"a policy", "BackendTLSPolicy", `{"ancestors": [` + ancestor("other/x", "a", stands("Accepted", "False")) + `, ` +
			ancestor("ours/x", "a", stood) + `]}`, 2, policy, "other: a Accepted=False of 1 old; ours: a Accepted=True of 2 old"},
		{"a policy of no Gateway", "BackendTLSPolicy", `{"ancestors": [` + ancestor("ours/x", "a", stood) + `]}`, 1, Content{},
			"other: ; ours: "},
		{"a Gateway", "Gateway", `{"conditions": [` + stands("Theirs", "True") + `], "addresses": [{"value": "192.0.2.1"}]}`, 1, gateway,
			"Theirs=True of 1 old, Accepted=True of 1 new; web 2 Accepted=True of 1 new"},
		{"its listener has another route", "Gateway", `{"conditions": [` + stood + `], "listeners": [{"name": "web", "attachedRoutes": 1, ` +
			`"supportedKinds": [], "conditions": [` + stood + `]}]}`, 1, gateway, "Accepted=True of 1 old; web 2 Accepted=True of 1 old"},
		{"a Gateway that names nothing any more", "Gateway", `{"conditions": [` + stood + `, ` + stands("ResolvedRefs", "False") + `], ` +
			`"listeners": [{"name": "web", "attachedRoutes": 2, "supportedKinds": [], "conditions": [` + stood + `]}]}`, 1, gateway,
			"Accepted=True of 1 old; web 2 Accepted=True of 1 old"},
		{"a Gateway that lets no client in without a certificate any more", "Gateway", `{"conditions": [` + stands("Theirs", "True") + ", " +
			stands("InsecureFrontendValidationMode", "True") + `]}`, 1, gateway,
			"Theirs=True of 1 old, Accepted=True of 1 new; web 2 Accepted=True of 1 new"},
		{"a Gateway that is not ours", "Gateway", `{"conditions": [` + stood + `]}`, 2, Content{}, ""},
	} {
		w := New(Options{
			Leads:  func(bool) bool { return true },
			Mine:   func(map[string]string) bool { return true },
			Ours:   func(c gatewayv1.GatewayController) bool { return strings.HasPrefix(string(c), "ours/") },
			Report: work.NewReport(prometheus.NewRegistry(), slog.New(slog.DiscardHandler), func(string, []mesh.Problem) {}),
		})
		o := &unstructured.Unstructured{}
		if err := o.UnmarshalJSON(fmt.Appendf(nil, `{"apiVersion": "gateway.networking.k8s.io/v1", "kind": %q, "metadata": {"namespace": "n",`+
			`"name": "x", "uid": "u", "resourceVersion": "5", "generation": %d}, "status": %s}`, c.kind, c.generation, c.status)); err != nil {
			t.Fatal(err)
		}
		w.Observe(o, false)
		kind, _ := config.KindOf("gateway.networking.k8s.io", c.kind)
		stands := w.seen[config.Key{Kind: kind, Namespace: "n", Name: "x"}]
		wanted := Wanted{config.Stored{UID: "another", Generation: c.generation}, false, c.wanted}
		if body, err := w.change(kind, stands, wanted); body != nil || err != nil {
			t.Errorf("%s: what is said of another object makes %s, %v", c.name, body, err)
		}
		wanted.Version.UID = "u"
		body, err := w.change(kind, stands, wanted)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if body != nil {
			var patch struct {
				Metadata struct{ ResourceVersion string }
				Status   map[string]json.RawMessage
			}
			var is Content
			if err := json.Unmarshal(body, &patch); err != nil {
				t.Fatal(err)
			}
			text, _ := json.Marshal(patch.Status)
			if err := json.Unmarshal(text, &is); err != nil || patch.Metadata.ResourceVersion != "5" || patch.Status["addresses"] != nil {
				t.Errorf("%s: %s, %v", c.name, body, err)
			}
			is.Parents = append(is.Parents, parts(is.Ancestors)...)
			got = printed(is, stands.route || stands.policy)
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func printed(is Content, route bool) string {
	of := func(all []metav1.Condition) string {
		var out []string
		for _, c := range all {
			age := "new"
			if c.LastTransitionTime.Year() == 2029 {
				age = "old"
			}
			out = append(out, fmt.Sprintf("%s=%s of %d %s", c.Type, c.Status, c.ObservedGeneration, age))
		}
		return strings.Join(out, ", ")
	}
	if !route {
		out := of(is.Conditions)
		for _, l := range is.Listeners {
			out += fmt.Sprintf("; %s %d %s", l.Name, l.AttachedRoutes, of(l.Conditions))
		}
		return out
	}
	by := map[bool]string{}
	for _, p := range is.Parents {
		by[p.ControllerName == "other/x"] += string(p.ParentRef.Name) + " " + of(p.Conditions)
	}
	return "other: " + by[true] + "; ours: " + by[false]
}
