package security

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

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
	c.Selector(&selector, p.Selector.GetMatchLabels())
	ports := at.Key("portLevelMtls")
	if len(p.PortLevelMtls) > 0 && len(p.Selector.GetMatchLabels()) == 0 {
		c.Fail(ports, code.Conflict, "settings by port need a selector", "say whose ports: add selector.matchLabels")
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
	c.Selector(&selector, r.Selector.GetMatchLabels())
	for i, j := range r.JwtRules {
		here := at.Of("jwtRules", i)
		checkJWTRule(c, &here, j)
	}
}

func checkJWTRule(c *rule.Check, at *report.Path, j *securityv1beta1.JWTRule) {
	if j.Issuer == "" && j.JwksUri == "" && j.Jwks == "" {
		c.Fail(
			at.Key("issuer"),
			code.Missing,
			"the rule has neither an issuer nor keys",
			"write the iss that its tokens carry, or jwksUri for tokens of any issuer with these keys",
		)
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

// isKeySet says whether a text is a set of keys by RFC 7517, section 5.
func isKeySet(s string) bool {
	var set struct{ Keys []json.RawMessage }
	return json.Unmarshal([]byte(s), &set) == nil && len(set.Keys) > 0
}

// AuthorizationPolicy holds the rules of
// https://istio.io/latest/docs/reference/config/security/authorization-policy/ that the schema cannot say.
func AuthorizationPolicy(c *rule.Check, p *securityv1beta1.AuthorizationPolicy) {
	at := report.Spec()
	selector := at.Key("selector")
	c.Selector(&selector, p.Selector.GetMatchLabels())
	switch {
	case p.Action == securityv1beta1.AuthorizationPolicy_CUSTOM && p.GetProvider().GetName() == "":
		c.Fail(at.Key("provider"), code.Missing, "action CUSTOM needs a provider", "name an extensionProvider of the mesh configuration")
	case p.Action != securityv1beta1.AuthorizationPolicy_CUSTOM && p.GetProvider() != nil:
		c.Fail(at.Key("provider"), code.Conflict, "a provider goes with action CUSTOM, not "+p.Action.String(), "")
	case p.Action == securityv1beta1.AuthorizationPolicy_DENY && len(p.Rules) == 0:
		c.Warn(*at, code.NoRules, "action DENY without rules denies nothing", "write `rules: [{}]` to deny everything")
	}
	for i, r := range p.Rules {
		here := at.Of("rules", i)
		checkAuthRule(c, &here, r)
	}
}

func checkAuthRule(c *rule.Check, at *report.Path, r *securityv1beta1.Rule) {
	for i, f := range r.From {
		from := at.Of("from", i)
		here := from.Key("source")
		checkAuthSource(c, &here, f.Source)
	}
	for i, t := range r.To {
		to := at.Of("to", i)
		here := to.Key("operation")
		checkAuthOperation(c, &here, t.Operation)
	}
	for i, w := range r.When {
		here := at.Of("when", i)
		if w.Key == "" {
			c.Fail(here.Key("key"), code.Missing, "the condition has no key", "")
		} else if !isConditionKey(w.Key) {
			c.Fail(
				here.Key("key"),
				code.UnknownValue,
				strconv.Quote(w.Key)+" is not an attribute of a request",
				"write one of https://istio.io/latest/docs/reference/config/security/conditions/",
			)
		}
		if len(w.Values)+len(w.NotValues) == 0 {
			c.Fail(here, code.Missing, fmt.Sprintf("condition %s has no values", w.Key), "add values or notValues")
		}
	}
}

func checkAuthSource(c *rule.Check, at *report.Path, s *securityv1beta1.Source) {
	if s == nil {
		c.Fail(*at, code.Missing, "there is no source", "")
		return
	}
	for _, l := range []struct {
		name string
		list []string
	}{
		{"ipBlocks", s.IpBlocks},
		{"notIpBlocks", s.NotIpBlocks},
		{"remoteIpBlocks", s.RemoteIpBlocks},
		{"notRemoteIpBlocks", s.NotRemoteIpBlocks},
	} {
		for j, b := range l.list {
			if !rule.IsCIDR(b) {
				c.Fail(at.Of(l.name, j), code.BadAddress, strconv.Quote(b)+" is not an address or CIDR", "write 10.1.2.0/24")
			}
		}
	}
}

func checkAuthOperation(c *rule.Check, at *report.Path, o *securityv1beta1.Operation) {
	if o == nil {
		c.Fail(*at, code.Missing, "there is no operation", "")
		return
	}
	for _, l := range []struct {
		name string
		list []string
	}{{"ports", o.Ports}, {"notPorts", o.NotPorts}} {
		for j, s := range l.list {
			if n, err := strconv.ParseUint(s, 10, 16); err != nil || n == 0 {
				c.Fail(at.Of(l.name, j), code.BadPort, strconv.Quote(s)+" is not a port", "write a number from 1 to 65535")
			}
		}
	}
}

// isConditionKey knows the keys of https://istio.io/latest/docs/reference/config/security/conditions/.
func isConditionKey(k string) bool {
	for _, prefix := range []string{"request.headers[", "request.auth.claims[", "experimental.envoy.filters."} {
		if strings.HasPrefix(k, prefix) && (strings.HasSuffix(k, "]") || strings.HasPrefix(k, "experimental.")) {
			return true
		}
	}
	return rule.OneOf(
		k,
		"source.ip",
		"remote.ip",
		"source.namespace",
		"source.principal",
		"source.serviceAccount",
		"source.trustDomain",
		"request.auth.principal",
		"request.auth.audiences",
		"request.auth.presenter",
		"request.auth.claims",
		"destination.ip",
		"destination.port",
		"connection.sni",
	)
}
