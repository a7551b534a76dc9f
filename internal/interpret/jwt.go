package interpret

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	jwtv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/jwt_authn/v3"

	"fairway/internal/interpret/way"
)

// verdict is the result of a requirement on tokens.
type verdict struct {
	status  int    // 0: satisfied
	details string // why not
	missing bool   // there is no token
	clears  bool   // the route is to be chosen again
}

const noToken = "Jwt_is_missing"

// jwt verifies tokens.
func (w *walk) jwt(f filterConfig) {
	var m jwtv3.JwtAuthentication
	way.Unpack(w.Resource, f.config, &m)
	_, origin, _ := w.headerValue("origin")
	_, preflight, _ := w.headerValue("access-control-request-method")
	if m.GetBypassCorsPreflight() && w.http.method == "OPTIONS" && origin && preflight {
		w.Step("tokens", w.Resource, f.part, "preflight requests need no token")
		return
	}
	requirement, why := w.requirement(&m, f)
	w.sanitize(&m)
	if requirement == nil {
		w.Step("tokens", w.Resource, f.part, "%s", why)
		return
	}
	v := w.require(&m, requirement, 0)
	if v.status != 0 {
		w.Step("tokens", w.Resource, f.part, "%s: the requirement is not met: %s", why, v.details)
		w.answer(v.status, "", "jwt_authn_access_denied{"+v.details+"}")
	}
	w.Step("tokens", w.Resource, f.part, "%s: the requirement is met", why)
	w.http.reroute = w.http.reroute || v.clears
}

// requirement returns what the filter requires of the request; nil: nothing.
func (w *walk) requirement(m *jwtv3.JwtAuthentication, f filterConfig) (*jwtv3.JwtRequirement, string) {
	var own jwtv3.PerRouteConfig
	if f.perRoute != nil && way.Unpack(w.Resource, f.perRoute, &own) {
		if own.GetDisabled() {
			return nil, "the route switches it off"
		}
		r := m.GetRequirementMap()[own.GetRequirementName()]
		if r == nil {
			w.CannotSay("%s has no requirement %s", f.part, way.Quote(own.GetRequirementName()))
		}
		return r, "the route's requirement " + way.Quote(own.GetRequirementName())
	}
	for i, r := range m.GetRules() {
		is, why := w.matches(r.GetMatch())
		if !w.Decide(is, fmt.Sprintf("rules[%d] of %s matches: %s", i, f.part, why)) {
			continue
		}
		out := r.GetRequires()
		if name := r.GetRequirementName(); name != "" {
			if out = m.GetRequirementMap()[name]; out == nil {
				w.CannotSay("%s has no requirement %s", f.part, way.Quote(name))
			}
		}
		return out, fmt.Sprintf("rules[%d] applies", i)
	}
	if m.GetFilterStateRules() != nil {
		w.CannotSay("%s picks requirements by filter state, which is not interpreted", f.part)
	}
	return nil, "no rule applies"
}

// sanitize removes the headers that only the filter may set.
func (w *walk) sanitize(m *jwtv3.JwtAuthentication) {
	for _, name := range way.Sorted(m.GetProviders()) {
		p := m.GetProviders()[name]
		w.Spend(1)
		delete(w.http.headers, way.Lower(p.GetForwardPayloadHeader()))
		for _, c := range p.GetClaimToHeaders() {
			delete(w.http.headers, way.Lower(c.GetHeaderName()))
		}
	}
}

// require evaluates a requirement.
func (w *walk) require(m *jwtv3.JwtAuthentication, r *jwtv3.JwtRequirement, depth int) verdict {
	w.Deep(depth)
	switch t := r.GetRequiresType().(type) {
	case *jwtv3.JwtRequirement_ProviderName:
		return w.provider(m, t.ProviderName, nil)
	case *jwtv3.JwtRequirement_ProviderAndAudiences:
		return w.provider(m, t.ProviderAndAudiences.GetProviderName(), t.ProviderAndAudiences.GetAudiences())
	case *jwtv3.JwtRequirement_RequiresAny:
		return w.requireAny(m, t.RequiresAny.GetRequirements(), depth)
	case *jwtv3.JwtRequirement_RequiresAll:
		var out verdict
		for _, r := range t.RequiresAll.GetRequirements() {
			v := w.require(m, r, depth+1)
			if v.status != 0 {
				return v
			}
			out.clears = out.clears || v.clears
		}
		return out
	case *jwtv3.JwtRequirement_AllowMissingOrFailed, *jwtv3.JwtRequirement_AllowMissing, nil:
		// By themselves these verify tokens of all providers, and tolerate failures.
		v := verdict{}
		for _, name := range way.Sorted(m.GetProviders()) {
			one := w.provider(m, name, nil)
			if _, lax := t.(*jwtv3.JwtRequirement_AllowMissing); lax && one.status != 0 && !one.missing {
				v = one
			} else if one.status == 0 {
				return one
			}
		}
		return v
	}
	w.CannotSay("a requirement of the JWT filter is not interpreted")
	return verdict{}
}

// requireAny is met by any of several requirements, or if tokens are missing and that is allowed.
func (w *walk) requireAny(m *jwtv3.JwtAuthentication, list []*jwtv3.JwtRequirement, depth int) verdict {
	var worst verdict
	missing, failed := false, false
	for _, r := range list {
		switch r.GetRequiresType().(type) {
		case *jwtv3.JwtRequirement_AllowMissing:
			missing = true
			continue
		case *jwtv3.JwtRequirement_AllowMissingOrFailed:
			failed = true
			continue
		}
		v := w.require(m, r, depth+1)
		if v.status == 0 {
			return v
		}
		if worst.status == 0 || worst.missing {
			worst = v
		}
	}
	if failed || missing && (worst.missing || worst.status == 0) {
		return verdict{}
	}
	return worst
}

// provider looks for a token of a provider.
func (w *walk) provider(m *jwtv3.JwtAuthentication, name string, audiences []string) verdict {
	p := m.GetProviders()[name]
	if p == nil {
		w.CannotSay("the JWT filter has no provider %s", way.Quote(name))
	}
	if len(audiences) == 0 {
		audiences = p.GetAudiences()
	}
	worst := verdict{status: 401, details: noToken, missing: true}
	for _, t := range w.asked.Tokens {
		w.Spend(1)
		if !w.at(p, t) {
			continue
		}
		v := verify(p, t, audiences)
		if v.status == 0 {
			w.verified(p, t)
			v.clears = p.GetClearRouteCache()
			return v
		}
		if worst.missing {
			worst = v
		}
	}
	if worst.missing && w.unnamedToken(p) {
		w.CannotSay("the request carries a token for provider %s, and its claims are not given", way.Quote(name))
	}
	return worst
}

// at reports whether the provider looks where the token is.
func (w *walk) at(p *jwtv3.JwtProvider, t Token) bool {
	usual := len(p.GetFromHeaders())+len(p.GetFromParams())+len(p.GetFromCookies()) == 0
	switch {
	case t.Param != "":
		return usual && t.Param == "access_token" || slices.Contains(p.GetFromParams(), t.Param)
	case t.Cookie != "":
		return slices.Contains(p.GetFromCookies(), t.Cookie)
	}
	header := way.Lower(t.Header)
	if header == "" {
		header = "authorization"
	}
	return usual && header == "authorization" ||
		slices.ContainsFunc(p.GetFromHeaders(), func(h *jwtv3.JwtHeader) bool { return way.Lower(h.GetName()) == header })
}

// unnamedToken reports whether the request has something where the provider looks, and no token is given for it.
func (w *walk) unnamedToken(p *jwtv3.JwtProvider) bool {
	given := func(is func(Token) bool) bool { return slices.ContainsFunc(w.asked.Tokens, is) }
	usual := len(p.GetFromHeaders())+len(p.GetFromParams())+len(p.GetFromCookies()) == 0
	if usual {
		value, _, _ := w.headerValue("authorization")
		_, param := firstParameter(w.http.path, "access_token")
		return strings.HasPrefix(value, "Bearer ") && !given(func(t Token) bool { return w.at(p, t) }) ||
			param && !given(func(t Token) bool { return t.Param == "access_token" })
	}
	for _, h := range p.GetFromHeaders() {
		value, present := w.http.headers[way.Lower(h.GetName())]
		if present && strings.Contains(value[0], h.GetValuePrefix()) && !given(func(t Token) bool {
			return way.Lower(t.Header) == way.Lower(h.GetName()) || t.Header == "" && way.Lower(h.GetName()) == "authorization"
		}) {
			return true
		}
	}
	for _, name := range p.GetFromParams() {
		if _, present := firstParameter(w.http.path, name); present && !given(func(t Token) bool { return t.Param == name }) {
			return true
		}
	}
	for _, name := range p.GetFromCookies() {
		if _, present := w.cookieValue(name); present && !given(func(t Token) bool { return t.Cookie == name }) {
			return true
		}
	}
	return false
}

// verify checks the issuer and the audience of a token.
func verify(p *jwtv3.JwtProvider, t Token, audiences []string) verdict {
	issuer, _ := t.Claims["iss"].(string)
	switch {
	case p.GetIssuer() != "" && issuer != p.GetIssuer():
		return verdict{status: 401, details: "Jwt_issuer_is_not_configured"}
	case t.Invalid != "":
		return verdict{status: 401, details: "Jwt_is_invalid: " + t.Invalid}
	case len(audiences) > 0 && !slices.ContainsFunc(texts(t.Claims["aud"]), func(a string) bool {
		return slices.ContainsFunc(audiences, func(b string) bool { return audience(a) == audience(b) })
	}):
		return verdict{status: 403, details: "Audiences_in_Jwt_are_not_allowed"}
	}
	return verdict{}
}

// audience is an audience as Envoy compares it: without scheme and the last slash.
func audience(s string) string {
	for _, scheme := range []string{"http://", "https://"} {
		s = strings.TrimPrefix(s, scheme)
	}
	return strings.TrimSuffix(s, "/")
}

func texts(claim any) (out []string) {
	switch c := claim.(type) {
	case string:
		return []string{c}
	case []string:
		return c
	case []any:
		for _, one := range c {
			if s, ok := one.(string); ok {
				out = append(out, s)
			}
		}
	}
	return out
}

// verified does what the provider does with a good token.
func (w *walk) verified(p *jwtv3.JwtProvider, t Token) {
	claims := map[string]any{}
	for k, v := range t.Claims {
		claims[k] = v
		if text, ok := v.(string); ok && slices.Contains(p.GetNormalizePayloadInMetadata().GetSpaceDelimitedClaims(), k) {
			var list []any
			for _, word := range strings.Fields(text) {
				list = append(list, word)
			}
			claims[k] = list
		}
	}
	if key := p.GetPayloadInMetadata(); key != "" {
		w.setMetadata("envoy.filters.http.jwt_authn", map[string]any{key: claims})
	}
	if !p.GetForward() && t.Header == "" && t.Param == "" && t.Cookie == "" {
		delete(w.http.headers, "authorization")
	}
	for _, c := range p.GetClaimToHeaders() {
		w.Spend(1)
		if value, ok := claimText(t.Claims[c.GetClaimName()]); ok && len(c.GetClaimPath()) == 0 {
			w.http.headers[way.Lower(c.GetHeaderName())] = []string{value}
		} else if ok || strings.Contains(c.GetClaimName(), ".") || len(c.GetClaimPath()) > 0 || t.Claims[c.GetClaimName()] != nil {
			w.Doubt("header %s is made of a claim that is not plain", way.Quote(c.GetHeaderName()))
		}
	}
}

// claimText is a plain claim as a header.
func claimText(v any) (string, bool) {
	switch c := v.(type) {
	case string:
		return c, true
	case bool:
		return strconv.FormatBool(c), true
	case int:
		return strconv.Itoa(c), true
	}
	return "", false
}
