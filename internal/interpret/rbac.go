package interpret

import (
	"fmt"
	"net/netip"
	"regexp"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	httprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	templatev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/path/match/uri_template/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"

	"fairway/internal/interpret/paths"
	"fairway/internal/interpret/way"
)

// decision is the decision of an RBAC engine.
type decision struct {
	allowed bool
	policy  string // that matched
	matched bool
	action  rbacv3.RBAC_Action
}

// String says what was decided.
func (d decision) String() string {
	what := map[bool]string{true: "allowed", false: "denied"}[d.allowed]
	if d.matched {
		return fmt.Sprintf("%s: policy %s (%s) matches", what, way.Quote(d.policy), d.action)
	}
	return fmt.Sprintf("%s: no policy (%s) matches", what, d.action)
}

// id is the name of the policy in the response code details.
func (d decision) id() string {
	if !d.matched {
		return "none"
	}
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune(" \t\n\v\f\r", r) {
			return '_'
		}
		return r
	}, d.policy)
}

// rbac decides by the rules of an engine: the first policy that matches, in order of name, is reported.
func (w *walk) rbac(rules *rbacv3.RBAC, at string) decision {
	d := decision{action: rules.GetAction()}
	for _, name := range way.Sorted(rules.GetPolicies()) {
		p := rules.GetPolicies()[name]
		w.Spend(1)
		match := way.All(2, func(i int) way.Tri {
			if i == 0 {
				return way.Any(len(p.GetPermissions()), func(i int) way.Tri { return w.permission(p.GetPermissions()[i], 0) })
			}
			return way.Any(len(p.GetPrincipals()), func(i int) way.Tri { return w.principal(p.GetPrincipals()[i], 0) })
		})
		if match != way.No && (p.GetCondition() != nil || p.GetCheckedCondition() != nil) {
			match = way.Unsure
		}
		if w.Decide(match, fmt.Sprintf("policy %s of %s matches", way.Quote(name), at)) {
			d.matched, d.policy = true, name
			break
		}
	}
	switch rules.GetAction() {
	case rbacv3.RBAC_ALLOW:
		d.allowed = d.matched
	case rbacv3.RBAC_DENY:
		d.allowed = !d.matched
	default:
		d.allowed = true
	}
	return d
}

// shadow evaluates rules that only leave their decision in metadata, where later filters find it.
func (w *walk) shadow(rules *rbacv3.RBAC, prefix, filter string) {
	if rules == nil {
		return
	}
	d := w.rbac(rules, "shadow rules "+prefix)
	w.Step("authorization", w.Resource, "shadow rules "+prefix, "would be %s", d)
	values := map[string]any{prefix + "shadow_engine_result": map[bool]string{true: "allowed", false: "denied"}[d.allowed]}
	if d.matched {
		values[prefix+"shadow_effective_policy_id"] = d.policy
	}
	w.setMetadata(filter, values)
}

// httpRBAC applies the rules for requests.
func (w *walk) httpRBAC(f filterConfig) {
	var m httprbacv3.RBAC
	var own httprbacv3.RBACPerRoute
	if f.perRoute != nil && way.Unpack(w.Resource, f.perRoute, &own) {
		m = httprbacv3.RBAC{}
		if own.GetRbac() == nil {
			w.Step("authorization", w.Resource, f.part, "the route switches it off")
			return
		}
		w.applyRBAC(own.GetRbac(), f)
		return
	}
	way.Unpack(w.Resource, f.config, &m)
	w.applyRBAC(&m, f)
}

func (w *walk) applyRBAC(m *httprbacv3.RBAC, f filterConfig) {
	if m.GetMatcher() != nil || m.GetShadowMatcher() != nil {
		w.Doubt("%s decides by a matcher tree, which is not interpreted", f.part)
	}
	w.shadow(m.GetShadowRules(), m.GetShadowRulesStatPrefix(), "envoy.filters.http.rbac")
	if m.GetRules() == nil {
		return
	}
	d := w.rbac(m.GetRules(), f.part)
	w.Step("authorization", w.Resource, f.part, "%s", d)
	if !d.allowed {
		w.answer(403, "", "rbac_access_denied_matched_policy["+d.id()+"]")
	}
}

func (w *walk) permission(p *rbacv3.Permission, depth int) way.Tri {
	w.Deep(depth)
	switch r := p.GetRule().(type) {
	case *rbacv3.Permission_Any:
		return way.Of(r.Any)
	case *rbacv3.Permission_AndRules:
		return way.All(len(r.AndRules.GetRules()), func(i int) way.Tri { return w.permission(r.AndRules.GetRules()[i], depth+1) })
	case *rbacv3.Permission_OrRules:
		return way.Any(len(r.OrRules.GetRules()), func(i int) way.Tri { return w.permission(r.OrRules.GetRules()[i], depth+1) })
	case *rbacv3.Permission_NotRule:
		return w.permission(r.NotRule, depth+1).Not()
	case *rbacv3.Permission_Header:
		return w.header(r.Header)
	case *rbacv3.Permission_UrlPath:
		return w.urlPath(r.UrlPath)
	case *rbacv3.Permission_UriTemplate:
		return w.uriTemplate(r.UriTemplate)
	case *rbacv3.Permission_DestinationIp:
		return w.address(r.DestinationIp, w.destination.Addr())
	case *rbacv3.Permission_DestinationPort:
		return way.Of(uint32(w.destination.Port()) == r.DestinationPort)
	case *rbacv3.Permission_DestinationPortRange:
		port := int32(w.destination.Port())
		return way.Of(port >= r.DestinationPortRange.GetStart() && port < r.DestinationPortRange.GetEnd())
	case *rbacv3.Permission_RequestedServerName:
		return w.Text(r.RequestedServerName, w.name)
	case *rbacv3.Permission_Metadata:
		return w.metadata(r.Metadata) //nolint:staticcheck // proxies still get it
	case *rbacv3.Permission_SourcedMetadata:
		if r.SourcedMetadata.GetMetadataSource() == rbacv3.MetadataSource_DYNAMIC {
			return w.metadata(r.SourcedMetadata.GetMetadataMatcher())
		}
	}
	return way.Unsure
}

func (w *walk) principal(p *rbacv3.Principal, depth int) way.Tri {
	w.Deep(depth)
	switch r := p.GetIdentifier().(type) {
	case *rbacv3.Principal_Any:
		return way.Of(r.Any)
	case *rbacv3.Principal_AndIds:
		return way.All(len(r.AndIds.GetIds()), func(i int) way.Tri { return w.principal(r.AndIds.GetIds()[i], depth+1) })
	case *rbacv3.Principal_OrIds:
		return way.Any(len(r.OrIds.GetIds()), func(i int) way.Tri { return w.principal(r.OrIds.GetIds()[i], depth+1) })
	case *rbacv3.Principal_NotId:
		return w.principal(r.NotId, depth+1).Not()
	case *rbacv3.Principal_Authenticated_:
		return w.authenticated(r.Authenticated.GetPrincipalName())
	case *rbacv3.Principal_DirectRemoteIp:
		return w.address(r.DirectRemoteIp, w.source.Addr())
	case *rbacv3.Principal_RemoteIp:
		return w.remote(r.RemoteIp)
	case *rbacv3.Principal_SourceIp:
		return w.address(r.SourceIp, w.source.Addr()) //nolint:staticcheck // deprecated, still in force
	case *rbacv3.Principal_Header:
		return w.header(r.Header)
	case *rbacv3.Principal_UrlPath:
		return w.urlPath(r.UrlPath)
	case *rbacv3.Principal_Metadata:
		return w.metadata(r.Metadata) //nolint:staticcheck // proxies still get it
	case *rbacv3.Principal_SourcedMetadata:
		if r.SourcedMetadata.GetMetadataSource() == rbacv3.MetadataSource_DYNAMIC {
			return w.metadata(r.SourcedMetadata.GetMetadataMatcher())
		}
	}
	return way.Unsure
}

// address matches an address of the connection, which may be unknown.
func (w *walk) address(r *corev3.CidrRange, a netip.Addr) way.Tri {
	if !a.IsValid() {
		return way.Unsure
	}
	return way.Of(w.Within(r, a))
}

// remote matches the address of the client that the HTTP connection manager found out.
func (w *walk) remote(r *corev3.CidrRange) way.Tri {
	if w.http == nil {
		return w.address(r, w.source.Addr())
	}
	return w.address(r, w.http.remote)
}

// authenticated matches the name of the peer: its URIs, or its DNS names if it has no URI.
func (w *walk) authenticated(m *matcherv3.StringMatcher) way.Tri {
	t := w.asked.TLS
	if t == nil || !t.Certificate || !w.terminated {
		return way.No
	}
	if m == nil {
		return way.Yes
	}
	names := t.URIs
	if len(names) == 0 {
		names = t.DNSNames
	}
	if len(names) == 0 {
		return way.Unsure // the subject of the certificate
	}
	return way.Any(len(names), func(i int) way.Tri { return w.Text(m, names[i]) })
}

// urlPath matches the path without its query; connections have none.
func (w *walk) urlPath(m *matcherv3.PathMatcher) way.Tri {
	if w.http == nil || !w.http.hasPath {
		return way.No
	}
	return w.Text(m.GetPath(), paths.WithoutQuery(w.http.path))
}

// uriTemplate matches a path template: * is one segment, ** is anything.
func (w *walk) uriTemplate(c *corev3.TypedExtensionConfig) way.Tri {
	var m templatev3.UriTemplateMatchConfig
	if !way.Unpack(w.Resource, c.GetTypedConfig(), &m) {
		return way.Unsure
	}
	if strings.ContainsAny(m.GetPathTemplate(), "{}") {
		return way.Unsure // named segments
	}
	if w.http == nil || !w.http.hasPath {
		return way.No
	}
	pattern := regexp.QuoteMeta(m.GetPathTemplate())
	pattern = strings.ReplaceAll(pattern, `\*\*`, `[a-zA-Z0-9._~%!$&'()+,;:@=/-]*`)
	pattern = strings.ReplaceAll(pattern, `\*`, `[a-zA-Z0-9._~%!$&'()+,;:@=-]+`)
	return w.Regex(pattern, paths.WithoutQuery(w.http.path))
}
