package webhook

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"

	"fairway/internal/config"
	"fairway/internal/config/document"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
)

// validate answers whether an object is valid for its kind.
func (h *Handlers) validate(w http.ResponseWriter, r *http.Request) {
	q, err := h.read(w, r, mostReview)
	if err != nil {
		h.metrics.unread.Inc()
		h.refuse(w, r, err)
		return
	}
	if !isRule(q) {
		answer(w, q, allowed())
		return
	}
	var a *admissionv1.AdmissionResponse
	var reason string
	if err := h.do(r, func(ctx context.Context) { a, reason = validated(ctx, h.options.Decoder, q) }); err != nil {
		h.metrics.unread.Inc()
		h.refuse(w, r, err)
		return
	}
	h.metrics.validated(q, reason)
	if turn := h.lastTurn(); turn > 0 && len(a.Warnings) > 0 {
		a.Warnings = append(a.Warnings, fmt.Sprintf("turn %d is the last one: pilotctl history --follow shows the next", turn))
	}
	if !a.Allowed {
		h.refused(r, q, errors.New(a.Result.Message))
	}
	answer(w, q, a)
}

// lastTurn returns the last turn of the control plane; 0: there was none, or it is not known.
func (h *Handlers) lastTurn() uint64 {
	if h.options.LastTurn == nil {
		return 0
	}
	return h.options.LastTurn()
}

// isRule reports whether a review is about an object of Istio's that is created or updated. All other reviews pass: deletions,
// subresources, and other kinds.
func isRule(q *admissionv1.AdmissionRequest) bool {
	return (q.Operation == admissionv1.Create || q.Operation == admissionv1.Update) && q.SubResource == "" &&
		strings.HasSuffix(q.Kind.Group, ".istio.io") && len(q.Object.Raw) > 0
}

// validated returns the verdict on an object, and the reason of a refusal, a word for metrics. Once ctx ends there is no verdict.
func validated(
	ctx context.Context, decoder *config.Decoder, q *admissionv1.AdmissionRequest,
) (a *admissionv1.AdmissionResponse, reason string) {
	tree, bad := document.ParseJSON(q.Object.Raw)
	if bad != nil {
		return forbidden(bad.Message), "yaml_decode_error"
	}
	if ctx.Err() != nil {
		return nil, ""
	}
	_, problems := decoder.DecodeTree("", tree)
	var errs, warnings []string
	for _, p := range problems {
		switch {
		case p.Code == code.UnknownKind: // of a newer release: the API server that serves the kind knows it
			warnings = append(warnings, sentence(p)+"; this control plane passes it over")
		case p.Severity == mesh.Error:
			errs = append(errs, sentence(p))
		case p.Severity == mesh.Warning:
			warnings = append(warnings, sentence(p))
		}
	}
	if len(errs) == 0 {
		return allowed(warnings...), ""
	}
	if leaving(tree) {
		return allowed(append(warnings, errs...)...), "" // its finalizers have to be taken off
	}
	return forbidden(strings.Join(errs, "\n"), warnings...), "invalid_resource"
}

// leaving reports whether an object is being deleted.
func leaving(tree map[string]any) bool {
	meta, _ := tree["metadata"].(map[string]any)
	return meta["deletionTimestamp"] != nil
}

// sentence returns a problem's text without the object, which the API server names.
func sentence(p mesh.Problem) string {
	s := p.Message
	if p.Field != "" {
		s = p.Field + ": " + s
	}
	if p.Fix != "" {
		s += "; " + p.Fix
	}
	return s
}
