package requests

import (
	"slices"
	"strconv"

	networking "istio.io/api/networking/v1alpha3"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"fairway/internal/config"
	"fairway/internal/config/native"
)

// Rule is a rule of an HTTPRoute or a GRPCRoute, in the words of the former.
type Rule struct {
	Field    string // of the route
	Name     string
	Matches  []*networking.HTTPMatchRequest
	Filters  []native.HTTPRouteFilter
	Backends []native.HTTPBackendRef
	Timeouts *gatewayv1.HTTPRouteTimeouts
	Retry    *gatewayv1.HTTPRouteRetry
	Sessions *native.SessionPersistence
	Missing  uint32 // status of requests to a backend that is not there

	// First is the index of the first of Backends in the route's list: a rule may be one of several parts (Apart).
	First int
	// Upto is the share of the requests that this part and those before it take, of a million; 0: all.
	Upto uint32
}

// OfHTTP returns the rules of an HTTPRoute.
func OfHTTP(spec *native.HTTPRouteSpec) (out []Rule) {
	for i, rule := range spec.Rules {
		one := Rule{
			Field: ruleField(i), Name: string(value(rule.Name, "")), Filters: rule.Filters, Backends: rule.BackendRefs,
			Timeouts: rule.Timeouts, Retry: rule.Retry, Sessions: rule.SessionPersistence, Missing: 500,
		}
		for _, m := range rule.Matches {
			one.Matches = append(one.Matches, Match(m))
		}
		out = append(out, one)
	}
	return out
}

// OfGRPC returns the rules of a GRPCRoute: requests of gRPC are requests of HTTP whose paths are /service/method.
func OfGRPC(spec *native.GRPCRouteSpec) (out []Rule) {
	for i, rule := range spec.Rules {
		one := Rule{
			Field: ruleField(i), Name: string(value(rule.Name, "")), Sessions: rule.SessionPersistence, Missing: 503,
		}
		for _, m := range rule.Matches {
			one.Matches = append(one.Matches, MatchCall(m))
		}
		for _, f := range rule.Filters {
			one.Filters = append(one.Filters, OfCalls(f))
		}
		for _, ref := range rule.BackendRefs {
			backend := native.HTTPBackendRef{BackendRef: ref.BackendRef}
			for _, f := range ref.Filters {
				backend.Filters = append(backend.Filters, OfCalls(f))
			}
			one.Backends = append(one.Backends, backend)
		}
		out = append(out, one)
	}
	return out
}

func ruleField(i int) string { return "spec.rules[" + strconv.Itoa(i) + "]" }

// Heads reports whether a filter changes headers: a destination can have it. Other filters are of a whole route.
func Heads(f native.HTTPRouteFilter) bool {
	return f.Type == gatewayv1.HTTPRouteFilterRequestHeaderModifier || f.Type == gatewayv1.HTTPRouteFilterResponseHeaderModifier
}

// IsPool reports whether a reference to a backend names an InferencePool.
func IsPool(ref gatewayv1.BackendObjectReference) bool {
	return value(ref.Group, "") == native.InferenceGroup && value(ref.Kind, "") == gatewayv1.Kind(config.InferencePool)
}

// million is what shares are parts of.
const million = 1_000_000

// Apart returns a rule in parts of one backend each, if a backend has what only a whole route can have: filters, or a picker of its own;
// else the rule itself. Each part takes its backend's share of the requests.
func (r Rule) Apart() []Rule {
	total := int64(0)
	for _, ref := range r.Backends {
		total += int64(value(ref.Weight, 1))
	}
	if total == 0 || !slices.ContainsFunc(r.Backends, func(ref native.HTTPBackendRef) bool {
		return IsPool(ref.BackendObjectReference) ||
			slices.ContainsFunc(ref.Filters, func(f native.HTTPRouteFilter) bool { return !Heads(f) })
	}) {
		return []Rule{r}
	}
	var out []Rule
	sum := int64(0)
	for j, ref := range r.Backends {
		weight := int64(value(ref.Weight, 1))
		if weight == 0 {
			continue
		}
		sum += weight
		part := r
		part.Backends, part.First, part.Upto = r.Backends[j:j+1], j, 0
		if sum < total {
			part.Upto = max(1, uint32(million*sum/total)) //nolint:gosec // less than a million
		}
		out = append(out, part)
	}
	return out
}
