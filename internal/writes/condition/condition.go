package condition

import (
	"maps"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"fairway/internal/writes/work"
)

// Condition is one of a status. Times are as in RFC 3339.
type Condition struct {
	Type               string `json:"type"`
	Status             string `json:"status"` // True, False or Unknown
	Reason             string `json:"reason,omitempty"`
	Message            string `json:"message,omitempty"`
	LastProbeTime      string `json:"lastProbeTime,omitempty"`
	LastTransitionTime string `json:"lastTransitionTime,omitempty"`
	ObservedGeneration int64  `json:"observedGeneration,omitempty"`
}

// Standing is an object of an API server with the content of its status.
type Standing struct {
	UID, Version string
	Generation   int64
	Observed     int64     // generation, of the whole status
	Own, Also    Condition // of the types asked for; zero: there is none

	apiVersion, kind, namespace, name string
	others                            []any // conditions, unchanged; nil: none
}

// Of reads an object, and does not keep it. Own becomes the condition of type own, and Also the condition of type also, which may be empty.
func Of(o *unstructured.Unstructured, own, also string) Standing {
	s := Standing{
		apiVersion: o.GetAPIVersion(), kind: o.GetKind(), namespace: o.GetNamespace(), name: o.GetName(),
		UID: string(o.GetUID()), Version: o.GetResourceVersion(), Generation: o.GetGeneration(),
	}
	status, _ := o.Object["status"].(map[string]any)
	s.Observed = number(status["observedGeneration"])
	conditions, _ := status["conditions"].([]any)
	for _, c := range conditions {
		tree, _ := c.(map[string]any)
		typ, _ := tree["type"].(string)
		if typ == "" || typ != own && typ != also {
			s.others = append(s.others, maps.Clone(tree))
			continue
		}
		text := func(name string) string { v, _ := tree[name].(string); return v }
		is := Condition{
			Type: typ, Status: text("status"), Reason: text("reason"), Message: text("message"),
			LastProbeTime: text("lastProbeTime"), LastTransitionTime: text("lastTransitionTime"),
			ObservedGeneration: number(tree["observedGeneration"]),
		}
		if typ == own {
			s.Own = is
		} else {
			s.Also = is
		}
	}
	return s
}

// Same reports whether everything that an own condition depends on is equal.
func (s Standing) Same(o Standing) bool {
	return s.apiVersion == o.apiVersion && s.UID == o.UID && s.Generation == o.Generation && s.Observed == o.Observed && s.Own == o.Own &&
		s.Also == o.Also
}

// Path returns the API server's path of the status.
func (s Standing) Path() string { return work.StatusPath(s.apiVersion, s.kind, s.namespace, s.name) }

// Patch returns the merge patch that sets the own condition to is, the other one to also, and the status's generation to observed (0:
// none). A zero condition is left out. The patch applies only to the version that was seen.
func (s Standing) Patch(is, also Condition, observed int64) ([]byte, error) {
	conditions := slices.Clone(s.others)
	if is != (Condition{}) {
		conditions = append(conditions, is)
	}
	if also != (Condition{}) {
		conditions = append(conditions, any(also))
	}
	status := map[string]any{"conditions": conditions}
	if observed != 0 {
		status["observedGeneration"] = observed
	}
	return work.StatusPatch(s.Version, s.UID, status)
}

// number parses a generation, which is a number, or its digits as protobuf writes it in JSON.
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
