package webhook

import (
	"context"
	"encoding/json"
	"errors"

	meshconfig "istio.io/api/mesh/v1alpha1"
	admissionv1 "k8s.io/api/admission/v1"

	"fairway/internal/config/document"
	"fairway/internal/inject"
	"fairway/internal/inject/edit"
	"fairway/internal/printable"
	"fairway/internal/webhook/place"
)

// reasonKey is the audit annotation, below the webhook's name, that says why a pod was injected or was not.
const reasonKey = "injection"

// keyless is the warning for a pod that lacks the settings of ProxyConfig resources.
const keyless = "ProxyConfig resources do not reach this pod: " + withoutKey

const withoutKey = "the URL of the injection webhook has no key that the control plane knows " +
	"(docs/injection.md, \"The key of the webhook\")"

// keylessMesh is the warning for a pod that lacks the mesh's variables.
const keylessMesh = "proxyMetadata of MeshConfig's defaultConfig does not reach this pod: " + withoutKey

// injection is the answer for a pod.
type injection struct {
	answer *admissionv1.AdmissionResponse
	has    bool  // the pod has a proxy then
	err    error // the pod cannot be injected as it asks
}

// injected returns the answer for a pod. It ignores the namespace's labels, because the API server has already checked them with the
// webhook's selectors. known callers get the settings of ProxyConfig resources and, if API servers show keys, the mesh's proxyMetadata. It
// stops at the next step once ctx ends.
func (h *Handlers) injected(
	ctx context.Context, injector *inject.Injector, q *admissionv1.AdmissionRequest, at place.Place, known bool,
) injection {
	pod, bad := document.ParseJSON(q.Object.Raw)
	if bad != nil {
		return injection{err: errors.New(bad.Message)}
	}
	request := inject.Request{Pod: pod, Namespace: q.Namespace}
	request.Cluster, request.Network = at.Cluster, at.Network
	request.Untrusted = !known && h.options.Keyed != nil && h.options.Keyed()
	if of := h.options.ProxyConfigs; of != nil && known {
		request.ProxyConfigs = func(labels map[string]string) (wide, own []*meshconfig.ProxyConfig) { return of(q.Namespace, labels) }
	}
	if ctx.Err() != nil {
		return injection{err: ctx.Err()}
	}
	result, err := injector.Inject(request)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return injection{err: err}
	}
	if result.Inject && !known && h.options.Configured != nil && h.options.Configured() {
		result.Warnings = append(result.Warnings, keyless)
	}
	if result.Inject && request.Untrusted && injector.Metadata() {
		result.Warnings = append(result.Warnings, keylessMesh)
	}
	a := allowed(result.Warnings...)
	a.AuditAnnotations = map[string]string{reasonKey: printable.Text(result.Reason, printable.Short)}
	if !result.Inject {
		return injection{answer: a}
	}
	ops := edit.Patch(pod, result.Pod)
	if len(ops) == 0 {
		return injection{answer: a, has: true} // it is injected already
	}
	patch, err := json.Marshal(ops)
	if err != nil {
		return injection{err: err}
	}
	kind := admissionv1.PatchTypeJSONPatch
	a.Patch, a.PatchType = patch, &kind
	return injection{answer: a, has: true}
}
