package webhook

import (
	"encoding/json"
	"errors"

	meshconfig "istio.io/api/mesh/v1alpha1"
	admissionv1 "k8s.io/api/admission/v1"

	"fairway/internal/config/document"
	"fairway/internal/inject"
	"fairway/internal/printable"
)

// reasonKey is the audit annotation, below the webhook's name, that says why a pod was injected or was not.
const reasonKey = "injection"

// injected is the answer for a pod, and whether that has a proxy then. The namespace's labels are not looked at: the API server
// has judged by them, with the webhook's selectors.
func (h *Handlers) injected(
	injector *inject.Injector,
	q *admissionv1.AdmissionRequest,
	path string,
) (a *admissionv1.AdmissionResponse, has bool, err error) {
	pod, bad := document.ParseJSON(q.Object.Raw)
	if bad != nil {
		return nil, false, errors.New(bad.Message)
	}
	request := inject.Request{Pod: pod, Namespace: q.Namespace}
	request.Cluster, request.Network = place(path)
	if of := h.options.ProxyConfigs; of != nil {
		request.ProxyConfigs = func(labels map[string]string) (wide, own []*meshconfig.ProxyConfig) { return of(q.Namespace, labels) }
	}
	result, err := injector.Inject(request)
	if err != nil {
		return nil, false, err
	}
	a = allowed(result.Warnings...)
	a.AuditAnnotations = map[string]string{reasonKey: printable.Text(result.Reason, printable.Short)}
	if !result.Inject {
		return a, false, nil
	}
	ops := inject.Patch(pod, result.Pod)
	if len(ops) == 0 {
		return a, true, nil // it has all of it already
	}
	patch, err := json.Marshal(ops)
	if err != nil {
		return nil, false, err
	}
	kind := admissionv1.PatchTypeJSONPatch
	a.Patch, a.PatchType = patch, &kind
	return a, true, nil
}
