package plan

import (
	"fmt"
	"maps"
	"slices"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	httprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	networkrbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/rbac/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"fairway/internal/mesh"
)

// authorization is what the RBAC filters of a listener do.
type authorization struct {
	rules   map[rule]string // with their content
	allows  bool            // only what some rule allows is let through
	configs []*hcmv3.HttpConnectionManager
}

// rule is a rule of an AuthorizationPolicy.
type rule struct {
	policy string // namespace/name
	number string
	action string // ALLOW, DENY
	dryRun bool
}

func (r rule) String() string {
	out := fmt.Sprintf("AuthorizationPolicy %s (%s", r.policy, r.action)
	if r.dryRun {
		out += ", dry run"
	}
	return out + ") spec.rules[" + r.number + "]"
}

// policies says which rules begin or cease to hold, and whether requests that no rule is about are let through.
func (s *sentences) policies(g *group, before, after authorization) {
	names := maps.Clone(before.rules)
	maps.Copy(names, after.rules)
	for r := range names {
		was, had := before.rules[r]
		is, has := after.rules[r]
		switch {
		case had && !has:
			s.add(r.action == "DENY" && !r.dryRun, g.crowds, "%s no longer holds", r)
		case !had && has:
			s.add(r.action == "DENY" && !r.dryRun, g.crowds, "%s holds from then on", r)
		case was != is:
			s.add(!r.dryRun, g.crowds, "%s is about other requests", r)
		}
	}
	switch {
	case after.allows && !before.allows:
		s.add(true, g.crowds, "requests that no ALLOW policy is about are denied from then on")
	case before.allows && !after.allows:
		s.add(true, g.crowds, "requests that no ALLOW policy is about are let through from then on")
	}
}

func authorizationOf(l *listenerv3.Listener) authorization {
	out := authorization{rules: map[rule]string{}}
	for _, c := range slices.Concat(l.GetFilterChains(), []*listenerv3.FilterChain{l.GetDefaultFilterChain()}) {
		for _, f := range c.GetFilters() {
			switch m := unpacked(f.GetTypedConfig()).(type) {
			case *networkrbacv3.RBAC:
				out.take(m.GetRules(), false)
				out.take(m.GetShadowRules(), true)
			case *hcmv3.HttpConnectionManager:
				out.configs = append(out.configs, m)
				for _, f := range m.GetHttpFilters() {
					if r, is := unpacked(f.GetTypedConfig()).(*httprbacv3.RBAC); is {
						out.take(r.GetRules(), false)
						out.take(r.GetShadowRules(), true)
					}
				}
			}
		}
	}
	return out
}

// take notes the rules of a filter.
func (a *authorization) take(m *rbacv3.RBAC, dryRun bool) {
	if m == nil {
		return
	}
	a.allows = a.allows || m.GetAction() == rbacv3.RBAC_ALLOW && !dryRun
	for name, p := range m.GetPolicies() {
		r := rule{policy: name, action: m.GetAction().String(), dryRun: dryRun}
		if namespace, policy, number, ok := mesh.ParseRuleName(name); ok {
			r.policy, r.number = namespace+"/"+policy, number
		}
		content, err := proto.MarshalOptions{Deterministic: true}.Marshal(p)
		if err != nil {
			continue // it came from bytes
		}
		a.rules[r] += string(content)
	}
}

// unpacked returns the message in an Any; nil: its type is not linked.
func unpacked(a *anypb.Any) proto.Message {
	if a == nil {
		return nil
	}
	m, err := a.UnmarshalNew()
	if err != nil {
		return nil
	}
	return m
}

// inlineHosts lists the virtual hosts that are written in the listener.
func (a authorization) inlineHosts() (out []*routev3.VirtualHost) {
	for _, m := range a.configs {
		for _, v := range m.GetRouteConfig().GetVirtualHosts() {
			if len(v.GetRoutes()) > 1 { // a listener's own port passes everything to the workload
				out = append(out, v)
			}
		}
	}
	return out
}
