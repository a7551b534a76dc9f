package security

import (
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"time"

	securityv1beta1 "istio.io/api/security/v1beta1"

	"fairway/internal/config/report"
	"fairway/internal/config/rule"
	"fairway/internal/mesh/code"
)

// PeerAuthentication holds the rules of
// https://istio.io/latest/docs/reference/config/security/peer_authentication/ that the schema cannot say.
func PeerAuthentication(c *rule.Check, p *securityv1beta1.PeerAuthentication) {
	at := report.Spec()
	selector := at.Key("selector")
	c.Selector(&selector, "matchLabels", p.Selector.GetMatchLabels())
	ports := at.Key("portLevelMtls")
	if len(p.PortLevelMtls) > 0 && len(p.Selector.GetMatchLabels()) == 0 {
		c.Fail(ports, code.Conflict, "settings by port need a selector", "add selector.matchLabels to select the workloads with these "+
			"ports")
	}
	for _, n := range slices.Sorted(maps.Keys(p.PortLevelMtls)) {
		c.Port(ports.Key(strconv.FormatUint(uint64(n), 10)), n)
	}
}

// RequestAuthentication holds the rules of
// https://istio.io/latest/docs/reference/config/security/request_authentication/ that the schema cannot say.
func RequestAuthentication(c *rule.Check, r *securityv1beta1.RequestAuthentication) {
	at := report.Spec()
	selector := at.Key("selector")
	c.Selector(&selector, "matchLabels", r.Selector.GetMatchLabels())
	c.Targets(at, r.TargetRef, r.TargetRefs) //nolint:staticcheck // deprecated by Istio, still taken
	for i, j := range r.JwtRules {
		here := at.Of("jwtRules", i)
		checkJWTRule(c, &here, j)
	}
}

func checkJWTRule(c *rule.Check, at *report.Path, j *securityv1beta1.JWTRule) {
	if j.Issuer == "" && j.JwksUri == "" && j.Jwks == "" {
		c.Fail(at.Key("issuer"), code.Missing, "the rule has neither an issuer nor keys",
			"write the iss that its tokens carry, or jwksUri for tokens of any issuer with these keys")
	}
	if j.JwksUri != "" {
		if u, err := url.Parse(j.JwksUri); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			c.Fail(at.Key("jwksUri"), code.BadURL, strconv.Quote(j.JwksUri)+" is not an http or https URL", "")
		}
		if j.Jwks != "" {
			c.Fail(at.Key("jwks"), code.Conflict, "jwks and jwksUri exclude each other", "keep one of the two")
		}
	}
	if j.Jwks != "" && !isKeySet(j.Jwks) {
		c.Fail(at.Key("jwks"), code.BadKeys, "the text is not a JSON Web Key Set", `write {"keys": [...]}`)
	}
	notEmpty(c, at, "audiences", j.Audiences)
	notEmpty(c, at, "fromParams", j.FromParams)
	notEmpty(c, at, "fromCookies", j.FromCookies)
	c.Duration(at.Key("timeout"), j.Timeout, time.Millisecond)
	for i, h := range j.FromHeaders {
		here := at.Of("fromHeaders", i)
		c.HeaderName(here.Key("name"), h.Name)
	}
	for i, h := range j.OutputClaimToHeaders {
		here := at.Of("outputClaimToHeaders", i)
		c.HeaderName(here.Key("header"), h.Header)
		if h.Claim == "" {
			c.Fail(here.Key("claim"), code.Missing, "there is no claim to put into the header", "")
		}
	}
}

// notEmpty refuses empty words of a list.
func notEmpty(c *rule.Check, at *report.Path, name string, list []string) {
	for i, word := range list {
		if word == "" {
			c.Fail(at.Of(name, i), code.Missing, "the value is empty", "write one, or take it out of the list")
		}
	}
}

// isKeySet reports whether a text is a set of keys by RFC 7517, section 5.
func isKeySet(s string) bool {
	var set struct{ Keys []json.RawMessage }
	return json.Unmarshal([]byte(s), &set) == nil && len(set.Keys) > 0
}
