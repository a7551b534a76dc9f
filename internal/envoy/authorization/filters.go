package authorization

import (
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	httprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	networkrbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/rbac/v3"
	"google.golang.org/protobuf/proto"
	securityv1beta1 "istio.io/api/security/v1beta1"

	"fairway/internal/envoy"
)

// The names of the filters.
const (
	requestFilter    = "envoy.filters.http.rbac"
	connectionFilter = "envoy.filters.network.rbac"
)

// tcpPrefix is the prefix of statistics of connections.
const tcpPrefix = "tcp."

// stage is one step of the decision.
type stage struct {
	action securityv1beta1.AuthorizationPolicy_Action
	rbac   rbacv3.RBAC_Action
	dryRun string // prefix of statistics and metadata of policies in dry-run mode
}

// stages are the steps after CUSTOM, in the order of the decision: "CUSTOM action is evaluated first, then the DENY action, and finally
// the ALLOW action". The audit of a request does not depend on the others.
var stages = []stage{
	{securityv1beta1.AuthorizationPolicy_AUDIT, rbacv3.RBAC_LOG, ""},
	{securityv1beta1.AuthorizationPolicy_DENY, rbacv3.RBAC_DENY, "istio_dry_run_deny_"},
	{securityv1beta1.AuthorizationPolicy_ALLOW, rbacv3.RBAC_ALLOW, "istio_dry_run_allow_"},
}

// Requests returns the filters of HTTP requests, in order, for the policies that apply to a workload. ask is the authorizer for policies
// of action CUSTOM.
func Requests(policies []*Compiled, ask Authorizer) (out []*hcmv3.HttpFilter) {
	of := func(c *Compiled) []Rule { return c.Requests }
	add := func(name string, m proto.Message) {
		out = append(out, &hcmv3.HttpFilter{Name: name, ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: envoy.Any(m)}})
	}
	if rules := customRules(policies, of); rules != nil && ask.requests == nil {
		add(requestFilter, &httprbacv3.RBAC{Rules: rules})
	} else if rules != nil {
		add(requestFilter, &httprbacv3.RBAC{ShadowRules: rules, ShadowRulesStatPrefix: askedPrefix})
		add(Filter, ask.requests)
	}
	for _, s := range stages {
		rules, shadow := s.split(policies, of)
		if rules == nil && shadow == nil {
			continue
		}
		m := &httprbacv3.RBAC{Rules: rules, ShadowRules: shadow}
		if shadow != nil {
			m.ShadowRulesStatPrefix = s.dryRun
		}
		add(requestFilter, m)
	}
	return out
}

// Connections returns the filters of connections that are not HTTP, in order. If the authorizer supports only requests, connections that a
// CUSTOM policy matches are denied.
func Connections(policies []*Compiled, ask Authorizer) (out []*listenerv3.Filter) {
	of := func(c *Compiled) []Rule { return c.Connections }
	add := func(name string, m proto.Message) {
		out = append(out, &listenerv3.Filter{Name: name, ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: envoy.Any(m)}})
	}
	if rules := customRules(policies, of); rules != nil && ask.connections == nil {
		add(connectionFilter, &networkrbacv3.RBAC{StatPrefix: tcpPrefix, Rules: rules})
	} else if rules != nil {
		add(connectionFilter, &networkrbacv3.RBAC{StatPrefix: tcpPrefix, ShadowRules: rules, ShadowRulesStatPrefix: askedPrefix})
		add("envoy.filters.network.ext_authz", ask.connections)
	}
	for _, s := range stages {
		rules, shadow := s.split(policies, of)
		if rules == nil && shadow == nil {
			continue
		}
		m := &networkrbacv3.RBAC{StatPrefix: tcpPrefix, Rules: rules, ShadowRules: shadow}
		if shadow != nil {
			m.ShadowRulesStatPrefix = s.dryRun
		}
		add(connectionFilter, m)
	}
	return out
}

// split returns the rules of policies that are in force, and of those in dry-run mode. An ALLOW policy without rules denies everything, so
// the result is not nil if there is such a policy, even without rules.
func (s stage) split(policies []*Compiled, of func(*Compiled) []Rule) (rules, shadow *rbacv3.RBAC) {
	for _, p := range policies {
		if p.Action != s.action {
			continue
		}
		to := &rules
		if p.DryRun {
			to = &shadow
		}
		list := of(p)
		if len(list) == 0 && s.action != securityv1beta1.AuthorizationPolicy_ALLOW {
			continue
		}
		if *to == nil {
			*to = &rbacv3.RBAC{Action: s.rbac, Policies: map[string]*rbacv3.Policy{}}
		}
		for _, r := range list {
			(*to).Policies[r.Name] = r.RBAC
		}
	}
	return rules, shadow
}
