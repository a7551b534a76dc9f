package policy

import (
	"fmt"
	"strconv"

	securityv1beta1 "istio.io/api/security/v1beta1"

	"fairway/internal/compile/selects"
	"fairway/internal/config"
	"fairway/internal/config/security"
	"fairway/internal/envoy/authorization"
	"fairway/internal/envoy/listener"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
)

// declareAuthorizations compiles each AuthorizationPolicy once, however many workloads it holds for, and notes the parts that cannot be
// carried out.
func (t *Tables) declareAuthorizations() {
	t.authorizations = table.Derive(
		t.in.AuthorizationPolicies, "authorization policies/compiled", config.CompareKey, (*authorization.Compiled).Equal,
		func(r *table.Reader, k config.Key, o *config.Object, emit func(config.Key, *authorization.Compiled)) {
			dry, _ := strconv.ParseBool(o.Annotations[security.DryRun])
			c := authorization.Compile(authorization.Policy{
				Namespace: o.Namespace, Name: o.Name, DryRun: dry, Spec: config.Spec[*securityv1beta1.AuthorizationPolicy](o),
			}, t.in.TrustDomains(r))
			for _, f := range c.Faults {
				r.Note(o.Problem(f.Field, code.Uncompiled, mesh.Error, "this cannot be carried out: "+f.Why+"; "+instead(c), ""))
			}
			targets := config.Spec[*securityv1beta1.AuthorizationPolicy](o).GetTargetRefs()
			selects.NoteTargets(r, o, t.in.RootNamespace(r), "policies", targets)
			emit(k, c)
		})
	t.holds(t.in.AuthorizationPolicies, func(o *config.Object) selects.Selector {
		spec := config.Spec[*securityv1beta1.AuthorizationPolicy](o)
		return selectorOf(o, spec.GetSelector(), spec.GetTargetRef(), spec.GetTargetRefs()) //nolint:staticcheck // deprecated, still taken
	})
}

// instead describes the effect of a rule with a part that cannot be matched.
func instead(c *authorization.Compiled) string {
	switch c.Action {
	case securityv1beta1.AuthorizationPolicy_DENY:
		return "the rule denies without looking at it"
	case securityv1beta1.AuthorizationPolicy_CUSTOM:
		return "the authorizer is asked without looking at it"
	}
	return "the rule matches nothing"
}

// compiled lists the AuthorizationPolicies of a set.
func (t *Tables) compiled(r *table.Reader, s Set) (out []*authorization.Compiled) {
	for _, k := range s.Of(config.AuthorizationPolicy) {
		if c, ok := table.Get(r, t.authorizations, k); ok {
			out = append(out, c)
		}
	}
	return out
}

// authorize adds the filters of a set's AuthorizationPolicies.
func (t *Tables) authorize(r *table.Reader, s Set, to *Filters) {
	t.noteTokens(r, s)
	list := t.compiled(r, s)
	ask, cluster := t.authorizer(r, s)
	if cluster != (mesh.ClusterKey{}) {
		to.Needs = append(to.Needs, cluster)
	}
	to.Requests = to.Requests.WithHTTP(listener.Authorization, authorization.Requests(list, ask)...)
	to.Connections = to.Connections.WithConnections(listener.Authorization, authorization.Connections(list, ask)...)
}

// NoteOfRequests notes the fields of a set's policies that only requests have, for a port with connections that are not HTTP.
func (t *Tables) NoteOfRequests(r *table.Reader, s Set, port uint32) {
	for _, k := range s.Of(config.AuthorizationPolicy) {
		c, ok := table.Get(r, t.authorizations, k)
		if !ok || len(c.OfRequests) == 0 {
			continue
		}
		o, ok := table.Get(r, t.in.AuthorizationPolicies, k)
		if !ok {
			continue
		}
		r.Note(o.Problem(
			c.OfRequests[0].Field, code.OnlyRequests, mesh.Warning,
			fmt.Sprintf("only HTTP requests have it, and port %d of a workload that it selects is not HTTP: there %s", port, instead(c)),
			"write a rule for the port that asks for nothing of requests, or select other workloads",
		))
	}
}
