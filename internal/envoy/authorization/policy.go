package authorization

import (
	"fmt"
	"slices"

	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	"google.golang.org/protobuf/proto"
	securityv1beta1 "istio.io/api/security/v1beta1"
)

// Policy is one AuthorizationPolicy.
type Policy struct {
	Namespace, Name string
	DryRun          bool // it is tried out: what it would do is logged and counted, and not done
	Spec            *securityv1beta1.AuthorizationPolicy
}

// Rule is one rule of a policy, for proxies. It is immutable.
type Rule struct {
	Name string // that Envoy says where a request is denied by it
	RBAC *rbacv3.Policy
}

// Fault is something of a policy that is not carried out as it is written.
type Fault struct {
	Field string // path inside the object: "spec.rules[0].when[1]"
	Why   string // without a full stop
}

// Compiled is what proxies make of a policy. It is immutable.
type Compiled struct {
	Action   securityv1beta1.AuthorizationPolicy_Action
	DryRun   bool
	Provider string // of action CUSTOM: the extension provider that is asked
	// Requests are the rules for HTTP requests, Connections those for connections that are not HTTP.
	Requests, Connections []Rule
	// Faults are what cannot be carried out at all, OfRequests what connections that are not HTTP cannot be judged by.
	Faults, OfRequests []Fault
}

// Equal says whether two compiled policies do the same.
func (c *Compiled) Equal(o *Compiled) bool {
	same := func(a, b Rule) bool { return a.Name == b.Name && proto.Equal(a.RBAC, b.RBAC) }
	return c.Action == o.Action && c.DryRun == o.DryRun && c.Provider == o.Provider &&
		slices.EqualFunc(c.Requests, o.Requests, same) && slices.EqualFunc(c.Connections, o.Connections, same) &&
		slices.Equal(c.Faults, o.Faults) && slices.Equal(c.OfRequests, o.OfRequests)
}

// Compile makes the rules of a policy. trust are the mesh's trust domain and its aliases, whose identities mean the same
// (MeshConfig.trustDomain, trustDomainAliases).
func Compile(p Policy, trust []string) *Compiled {
	out := &Compiled{Action: p.Spec.GetAction(), DryRun: p.DryRun, Provider: p.Spec.GetProvider().GetName()}
	for i, r := range p.Spec.GetRules() {
		name := fmt.Sprintf("ns[%s]-policy[%s]-rule[%d]", p.Namespace, p.Name, i)
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

// refuses says whether requests that match are refused, or may be: then a field that cannot be matched is left out, and the
// rule matches more. Otherwise the rule matches nothing.
func refuses(action securityv1beta1.AuthorizationPolicy_Action) bool {
	return action == securityv1beta1.AuthorizationPolicy_DENY || action == securityv1beta1.AuthorizationPolicy_CUSTOM
}
