package status

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"fairway/internal/mesh"
	"fairway/internal/printable"
)

// reconciled is the type of the condition that is ours.
const reconciled = "Reconciled"

// condition is one of istio.meta.v1alpha1.IstioStatus.
type condition struct {
	Type               string `json:"type"`
	Status             string `json:"status"`
	Reason             string `json:"reason,omitempty"`
	Message            string `json:"message,omitempty"`
	LastTransitionTime string `json:"lastTransitionTime,omitempty"`
	ObservedGeneration int64  `json:"observedGeneration,omitempty"`
}

// standing is an object of an API server with what its status says.
type standing struct {
	apiVersion, uid, version string
	generation               int64
	observed                 int64     // of the whole status
	own                      condition // zero: there is none
	others                   []any     // conditions, as they stand; nil: none
}

// same says whether nothing is different that a status is made of.
func (s standing) same(o standing) bool {
	return s.apiVersion == o.apiVersion && s.uid == o.uid && s.generation == o.generation && s.observed == o.observed && s.own == o.own
}

func standingOf(o *unstructured.Unstructured) standing {
	s := standing{
		apiVersion: o.GetAPIVersion(), uid: string(o.GetUID()), version: o.GetResourceVersion(), generation: o.GetGeneration(),
	}
	status, _ := o.Object["status"].(map[string]any)
	s.observed = number(status["observedGeneration"])
	conditions, _ := status["conditions"].([]any)
	for _, c := range conditions {
		tree, _ := c.(map[string]any)
		if tree["type"] != reconciled {
			s.others = append(s.others, maps.Clone(tree))
			continue
		}
		text := func(name string) string { v, _ := tree[name].(string); return v }
		s.own = condition{
			Type: reconciled, Status: text("status"), Reason: text("reason"), Message: text("message"),
			LastTransitionTime: text("lastTransitionTime"), ObservedGeneration: number(tree["observedGeneration"]),
		}
	}
	return s
}

// number reads a generation, which is a number or, as protobuf has it in JSON, its digits.
func number(v any) int64 {
	switch n := v.(type) {
	case int64:
		return n
	case float64:
		return int64(n)
	case string:
		out, _ := strconv.ParseInt(n, 10, 64)
		return out
	}
	return 0
}

// Bounds of what a status says.
const (
	mostProblems = 10
	mostText     = 4 << 10 // bytes
)

// verdict is the condition of an object with these problems.
func verdict(list []mesh.Problem) condition {
	slices.SortFunc(list, mesh.CompareUrgency)
	list = slices.Compact(list)
	out := condition{Type: reconciled, Status: "True", Reason: "InForce"}
	var lines []string
	for i, p := range list {
		if p.Severity == mesh.Error && out.Status == "True" {
			out.Status, out.Reason = "False", p.Code
		}
		if i < mostProblems {
			lines = append(lines, sentence(p))
		}
	}
	if more := len(list) - mostProblems; more > 0 {
		lines = append(lines, "and "+strconv.Itoa(more)+" more")
	}
	out.Message = printable.Text(strings.Join(lines, "; "), mostText)
	return out
}

// sentence is a problem without the object, in which it stands.
func sentence(p mesh.Problem) string {
	s := p.Message
	if p.Field != "" {
		s = p.Field + ": " + s
	}
	if p.Severity == mesh.Warning {
		s = "warning: " + s
	}
	if p.Fix != "" {
		s += " (" + p.Fix + ")"
	}
	return s
}

// patch is what makes the status say this; nil: it does so. It holds for the version that was seen alone.
func (s standing) patch(is condition, now time.Time) ([]byte, error) {
	is.ObservedGeneration = s.generation
	is.LastTransitionTime = s.own.LastTransitionTime
	if is == s.own && s.observed == s.generation {
		return nil, nil
	}
	if is.Status != s.own.Status || is.LastTransitionTime == "" {
		is.LastTransitionTime = now.UTC().Format(time.RFC3339)
	}
	return json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": s.version, "uid": s.uid},
		"status": map[string]any{
			"conditions":         append(slices.Clone(s.others), any(is)),
			"observedGeneration": s.generation,
		},
	})
}
