package deployed

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"fairway/internal/mesh/code"
)

// Parameters are merged over the objects of a Gateway (GatewayInfrastructure.parametersRef, GatewayClassSpec.parametersRef). Their form is
// that of Istio: a ConfigMap with a key for each kind.
type Parameters struct {
	Overlays map[string]string // strategic merge patches in JSON, by the kind of the object
	Wrong    Fault             // why they cannot be used; zero: they can
	Reserved Fault             // why the author of a Gateway may not use them, but that of a GatewayClass may; zero: both may
	Unread   bool              // the ConfigMap has not been looked for yet
}

// Fault is a mistake in parameters. It is comparable; the zero Fault is none.
type Fault struct{ Code, Message, Fix string }

// SameParameters reports whether two are equal.
func SameParameters(a, b *Parameters) bool {
	return a.Wrong == b.Wrong && a.Reserved == b.Reserved && a.Unread == b.Unread && maps.Equal(a.Overlays, b.Overlays)
}

// Row implements table.Rower.
func (p *Parameters) Row() []string {
	kinds := strings.Join(slices.Sorted(maps.Keys(p.Overlays)), ", ")
	return []string{kinds, p.Wrong.Message, p.Reserved.Message}
}

// overlaid is a kind of object that parameters change.
type overlaid struct {
	kind  string
	empty func() any
	least string // the least object that is merged into
	// open are the fields that the author of a Gateway may set: they choose neither programs, nor identities, nor rights. Only the author
	// of a GatewayClass may set others.
	open []string
}

// byKey returns the kinds by the keys of the ConfigMap (secret.ParameterKeys).
func byKey() map[string]overlaid {
	const pod = "spec.template.spec."
	return map[string]overlaid{
		"deployment": {
			"Deployment", func() any { return &appsv1.Deployment{} },
			`{"spec": {"template": {"spec": {"containers": [{"name": "istio-proxy"}]}}}}`,
			[]string{
				"spec.replicas", "spec.strategy", "spec.minReadySeconds", "spec.revisionHistoryLimit", "spec.progressDeadlineSeconds",
				"spec.template.metadata.labels", "spec.template.metadata.annotations",
				pod + "affinity", pod + "nodeSelector", pod + "tolerations", pod + "topologySpreadConstraints", pod + "priorityClassName",
				pod + "terminationGracePeriodSeconds", pod + "schedulerName", pod + "imagePullSecrets",
				pod + "dnsPolicy", pod + "dnsConfig",
				pod + "containers[].name", pod + "containers[].resources",
			},
		},
		"service": {
			"Service", func() any { return &corev1.Service{} }, `{"spec": {"ports": [{"port": 15021}]}}`,
			[]string{
				"spec.type", "spec.ports", "spec.clusterIP", "spec.clusterIPs", "spec.ipFamilies", "spec.ipFamilyPolicy",
				"spec.loadBalancerIP", "spec.loadBalancerClass", "spec.loadBalancerSourceRanges",
				"spec.allocateLoadBalancerNodePorts", "spec.healthCheckNodePort",
				"spec.externalTrafficPolicy", "spec.internalTrafficPolicy", "spec.trafficDistribution", "spec.sessionAffinity",
				"spec.sessionAffinityConfig",
			},
		},
		"serviceAccount": {
			"ServiceAccount", func() any { return &corev1.ServiceAccount{} }, `{}`, []string{"imagePullSecrets"},
		},
		"horizontalPodAutoscaler": {
			"HorizontalPodAutoscaler", func() any { return &autoscalingv2.HorizontalPodAutoscaler{} }, `{}`,
			[]string{"spec.minReplicas", "spec.maxReplicas", "spec.metrics", "spec.behavior"},
		},
		"podDisruptionBudget": {
			"PodDisruptionBudget", func() any { return &policyv1.PodDisruptionBudget{} }, `{}`,
			[]string{"spec.minAvailable", "spec.maxUnavailable", "spec.unhealthyPodEvictionPolicy"},
		},
	}
}

// metadata are the fields of the metadata of an object that parameters may set.
var metadata = []string{"apiVersion", "kind", "metadata.name", "metadata.labels", "metadata.annotations"}

// ParametersOf parses the values of a ConfigMap; others are its keys that have no meaning here.
func ParametersOf(texts map[string]string, others []string) *Parameters {
	known := byKey()
	if len(others) > 0 {
		return &Parameters{Wrong: Fault{code.UnknownField, "key " + strconv.Quote(others[0]) + " has no meaning",
			"the keys are " + strings.Join(slices.Sorted(maps.Keys(known)), ", ")}}
	}
	out := &Parameters{Overlays: map[string]string{}}
	for _, key := range slices.Sorted(maps.Keys(texts)) {
		of, is := known[key]
		if !is {
			continue
		}
		patch, tree, wrong := of.parse(texts[key])
		if wrong.Message != "" {
			wrong.Message = "key " + key + ": " + wrong.Message
			return &Parameters{Wrong: wrong}
		}
		if at := closed("", tree, append(slices.Clone(metadata), of.open...)); at != "" && out.Reserved == (Fault{}) {
			at = strings.TrimSuffix(at, "[]")
			out.Reserved = Fault{code.NotSupported, "key " + key + ": " + at + " may not be set by the author of a Gateway",
				"leave it out, or have it set by the parameters of the GatewayClass"}
		}
		out.Overlays[of.kind] = patch
	}
	return out
}

// parse reads a patch.
func (of overlaid) parse(text string) (patch string, tree map[string]any, wrong Fault) {
	data, err := yaml.YAMLToJSONStrict([]byte(text))
	if err != nil {
		return "", nil, Fault{code.Syntax, "it is not YAML: " + err.Error(), "mend it"}
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(data, &tree); err != nil || tree == nil {
		return "", nil, Fault{code.WrongType, "it is not a set of fields", "write fields of a " + of.kind + ", such as metadata"}
	}
	if at := directive("", tree); at != "" {
		return "", nil, Fault{code.UnknownField, at + " is not a field", "of the directives, only $patch with delete or replace is known"}
	}
	plain, err := json.Marshal(without(tree))
	if err != nil {
		return "", nil, Fault{code.Syntax, err.Error(), "mend it"}
	}
	strict, err := kjson.UnmarshalStrict(plain, of.empty())
	switch {
	case err != nil:
		return "", nil, Fault{code.WrongType, fmt.Sprintf("it is no part of a %s: %s", of.kind, err), "correct the value"}
	case len(strict) > 0:
		return "", nil, Fault{code.UnknownField, strict[0].Error(), "look for a misspelling"}
	}
	if _, err := strategicpatch.StrategicMergePatch([]byte(of.least), data, of.empty()); err != nil {
		return "", nil, Fault{code.BadValue, fmt.Sprintf("it cannot be merged into a %s: %s", of.kind, err),
			"give each item of a list its key, such as the name of a container"}
	}
	return string(data), tree, Fault{}
}

// patchDirective is the only directive of strategic merges that parameters may have.
const patchDirective = "$patch"

// directive returns the path of a directive that is not known; empty: there is none.
func directive(at string, v any) string {
	switch v := v.(type) {
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			in := strings.TrimPrefix(at+"."+k, ".")
			if known := v[k] == "delete" || v[k] == "replace"; strings.HasPrefix(k, "$") && (k != patchDirective || !known) {
				return in
			}
			if found := directive(in, v[k]); found != "" {
				return found
			}
		}
	case []any:
		for _, item := range v {
			if found := directive(at+"[]", item); found != "" {
				return found
			}
		}
	}
	return ""
}

// without returns a tree without directives.
func without(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, item := range v {
			if k != patchDirective {
				out[k] = without(item)
			}
		}
		return out
	case []any:
		out := make([]any, 0, len(v))
		for _, item := range v {
			out = append(out, without(item))
		}
		return out
	}
	return v
}

// closed returns the path of a field that is neither one of the open fields nor below one; empty: there is none.
func closed(at string, v any, open []string) string {
	if strings.HasSuffix(at, ".metadata.labels") || strings.HasSuffix(at, ".metadata.annotations") {
		tree, _ := v.(map[string]any)
		for _, k := range slices.Sorted(maps.Keys(tree)) {
			if injects(k) {
				return at + "[" + k + "]"
			}
		}
	}
	if slices.Contains(open, at) {
		return ""
	}
	switch v := v.(type) {
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			if found := closed(strings.TrimPrefix(at+"."+k, "."), v[k], open); found != "" {
				return found
			}
		}
		return ""
	case []any:
		for _, item := range v {
			if found := closed(at+"[]", item, open); found != "" {
				return found
			}
		}
		return ""
	}
	return at
}
