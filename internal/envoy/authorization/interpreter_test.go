package authorization_test

import (
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	templatev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/path/match/uri_template/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
)

// interpreter does with RBAC what Envoy's reference says (config.rbac.v3.RBAC).
type interpreter struct {
	testing.TB
	q request
}

// passes: an ALLOW engine lets through what a policy matches, a DENY engine what none does, a LOG engine everything.
func (i interpreter) passes(rules *rbacv3.RBAC) bool {
	if rules == nil {
		return true
	}
	matched := false
	for _, p := range rules.GetPolicies() {
		matched = matched ||
			slices.ContainsFunc(p.GetPermissions(), i.permission) && slices.ContainsFunc(p.GetPrincipals(), i.principal)
	}
	switch rules.GetAction() {
	case rbacv3.RBAC_ALLOW:
		return matched
	case rbacv3.RBAC_DENY:
		return !matched
	}
	return true
}

func (i interpreter) permission(p *rbacv3.Permission) bool {
	switch r := p.GetRule().(type) {
	case *rbacv3.Permission_Any:
		return r.Any
	case *rbacv3.Permission_AndRules:
		return !slices.ContainsFunc(r.AndRules.GetRules(), func(p *rbacv3.Permission) bool { return !i.permission(p) })
	case *rbacv3.Permission_OrRules:
		return slices.ContainsFunc(r.OrRules.GetRules(), i.permission)
	case *rbacv3.Permission_NotRule:
		return !i.permission(r.NotRule)
	case *rbacv3.Permission_Header:
		return i.header(r.Header)
	case *rbacv3.Permission_UrlPath:
		return i.q.http && i.text(r.UrlPath.GetPath(), i.q.path)
	case *rbacv3.Permission_UriTemplate:
		m, err := r.UriTemplate.GetTypedConfig().UnmarshalNew()
		if err != nil {
			i.Fatal(err)
		}
		return i.q.http && uriTemplate(m.(*templatev3.UriTemplateMatchConfig).GetPathTemplate()).MatchString(i.q.path)
	case *rbacv3.Permission_DestinationIp:
		return i.within(r.DestinationIp, i.q.destination)
	case *rbacv3.Permission_DestinationPort:
		return i.q.port == number(r.DestinationPort)
	case *rbacv3.Permission_RequestedServerName:
		return i.text(r.RequestedServerName, i.q.sni)
	case *rbacv3.Permission_Metadata:
		return i.metadata(r.Metadata) //nolint:staticcheck // as it is sent
	}
	i.Fatalf("no such permission: %v", p)
	return false
}

func (i interpreter) principal(p *rbacv3.Principal) bool {
	switch r := p.GetIdentifier().(type) {
	case *rbacv3.Principal_Any:
		return r.Any
	case *rbacv3.Principal_AndIds:
		return !slices.ContainsFunc(r.AndIds.GetIds(), func(p *rbacv3.Principal) bool { return !i.principal(p) })
	case *rbacv3.Principal_OrIds:
		return slices.ContainsFunc(r.OrIds.GetIds(), i.principal)
	case *rbacv3.Principal_NotId:
		return !i.principal(r.NotId)
	case *rbacv3.Principal_Authenticated_:
		return i.q.caller != "" && i.text(r.Authenticated.GetPrincipalName(), "spiffe://"+i.q.caller)
	case *rbacv3.Principal_DirectRemoteIp:
		return i.within(r.DirectRemoteIp, i.q.source)
	case *rbacv3.Principal_RemoteIp:
		return i.within(r.RemoteIp, i.q.remote)
	case *rbacv3.Principal_Metadata:
		return i.metadata(r.Metadata) //nolint:staticcheck // as it is sent
	}
	i.Fatalf("no such principal: %v", p)
	return false
}

// header: a header that is not there matches nothing. Requests have the pseudo headers, connections no header.
func (i interpreter) header(m *routev3.HeaderMatcher) bool {
	pseudo := map[string]string{":authority": i.q.host, ":method": i.q.method, ":path": i.q.path}
	value, there := pseudo[m.GetName()]
	if !there {
		value, there = i.q.headers[strings.ToLower(m.GetName())]
	}
	there = there && i.q.http
	switch s := m.GetHeaderMatchSpecifier().(type) {
	case *routev3.HeaderMatcher_PresentMatch:
		return there == s.PresentMatch
	case *routev3.HeaderMatcher_StringMatch:
		return there && i.text(s.StringMatch, value)
	}
	i.Fatalf("no such header matcher: %v", m)
	return false
}

func (i interpreter) text(m *matcherv3.StringMatcher, text string) bool {
	fold := func(s string) string {
		if m.GetIgnoreCase() {
			return strings.ToLower(s)
		}
		return s
	}
	switch s := m.GetMatchPattern().(type) {
	case *matcherv3.StringMatcher_Exact:
		return fold(text) == fold(s.Exact)
	case *matcherv3.StringMatcher_Prefix:
		return strings.HasPrefix(fold(text), fold(s.Prefix))
	case *matcherv3.StringMatcher_Suffix:
		return strings.HasSuffix(fold(text), fold(s.Suffix))
	case *matcherv3.StringMatcher_Contains:
		return strings.Contains(fold(text), fold(s.Contains))
	case *matcherv3.StringMatcher_SafeRegex:
		return expression(`^(?:` + s.SafeRegex.GetRegex() + `)$`).MatchString(text)
	}
	i.Fatalf("no such text matcher: %v", m)
	return false
}

func (i interpreter) metadata(m *matcherv3.MetadataMatcher) bool {
	var at any
	if m.GetFilter() == "envoy.filters.http.jwt_authn" {
		at = map[string]any{"payload": i.q.claims}
	} else {
		at = i.q.filters[m.GetFilter()]
	}
	for _, s := range m.GetPath() {
		object, _ := at.(map[string]any)
		at = object[s.GetKey()]
	}
	return i.value(m.GetValue(), at)
}

func (i interpreter) value(m *matcherv3.ValueMatcher, v any) bool {
	switch s := m.GetMatchPattern().(type) {
	case *matcherv3.ValueMatcher_StringMatch:
		text, ok := v.(string)
		return ok && i.text(s.StringMatch, text)
	case *matcherv3.ValueMatcher_ListMatch:
		list, _ := v.([]any)
		return slices.ContainsFunc(list, func(one any) bool { return i.value(s.ListMatch.GetOneOf(), one) })
	}
	i.Fatalf("no such value matcher: %v", m)
	return false
}

func (i interpreter) within(r *corev3.CidrRange, a netip.Addr) bool {
	return netip.PrefixFrom(netip.MustParseAddr(r.GetAddressPrefix()), int(r.GetPrefixLen().GetValue())).Contains(a)
}

// uriTemplate parses a template like Envoy: by the characters that a path may have (RFC 3986, pchar).
func uriTemplate(text string) *regexp.Regexp {
	text = regexp.QuoteMeta(text)
	text = strings.ReplaceAll(text, `\*\*`, `[a-zA-Z0-9._~%!$&'()+,;:@=/-]*`)
	text = strings.ReplaceAll(text, `\*`, `[a-zA-Z0-9._~%!$&'()+,;:@=-]+`)
	return expression(`^` + text + `$`)
}

var expressions = map[string]*regexp.Regexp{}

// expression compiles a regular expression once.
func expression(text string) *regexp.Regexp {
	if expressions[text] == nil {
		expressions[text] = regexp.MustCompile(text)
	}
	return expressions[text]
}
