package authorization

import (
	"fmt"
	"slices"

	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	"google.golang.org/protobuf/proto"
	securityv1beta1 "istio.io/api/security/v1beta1"

	"fairway/internal/mesh"
)

// Policy is one AuthorizationPolicy.
type Policy struct {
	Namespace, Name string
	DryRun          bool // dry run: its decision is logged and counted, but not enforced
	Spec            *securityv1beta1.AuthorizationPolicy
}

// Rule is one rule of a policy, compiled for proxies. It is immutable.
type Rule struct {
	Name string // that Envoy reports when this rule denies a request
	RBAC *rbacv3.Policy
}

// Fault is a part of a policy that is not enforced as written.
type Fault struct {
	Field string // path inside the object: "spec.rules[0].when[1]"
	Why   string // without a full stop
}

// Compiled is a policy compiled for proxies. It is immutable.
type Compiled struct {
	Action   securityv1beta1.AuthorizationPolicy_Action
	DryRun   bool
	Provider string // of action CUSTOM: the extension provider that is asked
	// Requests are the rules for HTTP requests, Connections those for connections that are not HTTP.
	Requests, Connections []Rule
	// Faults are fields that cannot be compiled at all. OfRequests are fields that cannot be matched on connections that are not HTTP.
	Faults, OfRequests []Fault
}

// Equal reports whether two compiled policies do the same.
func (c *Compiled) Equal(o *Compiled) bool {
	same := func(a, b Rule) bool { return a.Name == b.Name && proto.Equal(a.RBAC, b.RBAC) }
	return c.Action == o.Action && c.DryRun == o.DryRun && c.Provider == o.Provider &&
		slices.EqualFunc(c.Requests, o.Requests, same) && slices.EqualFunc(c.Connections, o.Connections, same) &&
		slices.Equal(c.Faults, o.Faults) && slices.Equal(c.OfRequests, o.OfRequests)
}

// Compile compiles the rules of a policy. trust are the mesh's trust domain and its aliases; their identities mean the same
// (MeshConfig.trustDomain, trustDomainAliases).
func Compile(p Policy, trust []string) *Compiled {
	out := &Compiled{Action: p.Spec.GetAction(), DryRun: p.DryRun, Provider: p.Spec.GetProvider().GetName()}
	for i, r := range p.Spec.GetRules() {
		name := mesh.RuleName(p.Namespace, p.Name, i)
		requests := compiler{namespace: p.Namespace, trust: trust, http: true, at: fmt.Sprintf("spec.rules[%d]", i)}
		if rule, ok := requests.rule(r, out.Action); ok {
			out.Requests = append(out.Requests, Rule{name, rule})
		}
		out.Faults = append(out.Faults, requests.faults...)
		connections := requests
		connections.http, connections.faults = false, nil
		if rule, ok := connections.rule(r, out.Action); ok {
			out.Connections = append(out.Connections, Rule{name, rule})
		}
		out.OfRequests = append(out.OfRequests, connections.unknown...)
	}
	return out
}

// refuses reports whether requests that match are, or may be, denied. Then a field that cannot be matched is left out, and the rule
// matches more. Otherwise the rule matches nothing.
func refuses(action securityv1beta1.AuthorizationPolicy_Action) bool {
	return action == securityv1beta1.AuthorizationPolicy_DENY || action == securityv1beta1.AuthorizationPolicy_CUSTOM
}
