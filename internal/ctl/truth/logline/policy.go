package logline

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"fairway/internal/accesslog"
	"fairway/internal/mesh"
)

// policyOf returns the policy that the details name; "none" if no ALLOW policy matched, "" if they name none.
func policyOf(e accesslog.Entry) (name string, r ref) {
	for _, text := range []string{e.Details, e.Ended} {
		kind, inner := accesslog.Brackets(text)
		if kind != "rbac_access_denied_matched_policy" {
			continue
		}
		if namespace, policy, rule, ok := mesh.ParseRuleName(inner); ok {
			return inner, ref{Kind: "AuthorizationPolicy", Namespace: namespace, Name: policy, field: "spec.rules[" + rule + "]"}
		}
		return inner, ref{}
	}
	return "", ref{}
}

// denied looks for the policy that denied the request.
func (x *explainer) denied(accesslog.Cause) {
	name, r := policyOf(x.e)
	if r.Name != "" {
		o := x.object(r)
		if o == nil {
			x.add(Finding{
				Kind: r.Kind, Namespace: r.Namespace, Name: r.Name, Field: r.field, Means: "it decided, and is not in force any more",
				Right: "nothing, if that is so on purpose",
			})
			return
		}
		action := cmp.Or(text(o.Spec, "action"), "ALLOW")
		x.blame(r, fmt.Sprintf("this rule of a policy with action %s matches the request: %s", action, brief(valueOf(o.Spec, r.field))),
			"narrow the rule so that it does not match this request, or remove it")
		return
	}
	allow := 0
	for _, p := range x.madeOf("listener", "AuthorizationPolicy") {
		o := x.object(p)
		if o == nil {
			continue
		}
		rules := list(o.Spec, "rules")
		switch action := cmp.Or(text(o.Spec, "action"), "ALLOW"); {
		case action == "ALLOW" && (name == "none" || name == ""):
			allow++
			if p.field = "spec.rules"; len(rules) == 0 {
				p.field = "spec"
			}
			means := fmt.Sprintf("no rule of this ALLOW policy matches the request%s: %s", x.caller(), brief(get(o.Spec, "rules")))
			if len(rules) == 0 {
				means = "an ALLOW policy without rules: it allows nothing"
			}
			x.blame(p, means, "add a rule that matches this request")
		case action == "DENY" && name == "" && x.fits:
			p.field = "spec.rules"
			x.blame(p, "a DENY policy applies to the workload", "narrow its rules")
		}
	}
	if allow == 0 && name == "none" && len(x.out.Findings) == 0 {
		x.note("the ALLOW policies of the workload are not known: name its proxy with --proxy")
	}
}

// caller says who called, as far as it is known.
func (x *explainer) caller() string {
	from, _ := splitPort(x.e.DownstreamRemote)
	out := ""
	if from != "" {
		out = " for a caller at " + from
	}
	if x.peer != "" {
		return out + " with identity " + strconv.Quote(x.peer)
	}
	return out
}

// token looks for the RequestAuthentications with rules for the token.
func (x *explainer) token(c accesslog.Cause) {
	_, reason := accesslog.Brackets(x.e.Details)
	reason = strings.ReplaceAll(reason, "_", " ")
	for _, r := range x.madeOf("listener", "RequestAuthentication") {
		o := x.object(r)
		if o == nil {
			continue
		}
		for i, rule := range list(o.Spec, "jwtRules") {
			r.field = fmt.Sprintf("spec.jwtRules[%d]", i)
			means := fmt.Sprintf("tokens of issuer %q have to meet it", text(rule, "issuer"))
			if reason != "" {
				means += ": " + reason
			}
			x.blame(r, means, tokenRemedy(reason, c.Right))
		}
	}
}

// remedies are what would be right for the reasons of the token filter, by a part of the reason.
var remedies = [][2]string{
	{"Jwt is expired", "send a token that has not expired"},
	{"Jwt is missing", "send a token"},
	{"Jwt not yet valid", "send a token that is valid already; compare the clocks"},
	{"Jwt issuer is not configured", "send a token of this issuer, or add a rule for the token's issuer"},
	{"Audiences in Jwt", "send a token for one of audiences, or add the token's audience"},
	{"Jwt verification fails", "send a token signed by a key of this issuer; look whether its keys (jwksUri, jwks) are current"},
	{"Jwks doesn't have key", "send a token signed by a key of this issuer; look whether its keys (jwksUri, jwks) are current"},
	{"Jwks remote fetch is failed", "let jwksUri answer"},
	{"Jwt is not in the form", "send a token as three parts with dots"},
	{"Jwt header", "send a token with a valid header"},
	{"Jwt payload", "send a token with a valid payload"},
	{"Jwt signature", "send a token with a valid signature"},
	{"Jwks doesn't have any valid", "put a valid key into jwks"},
}

// tokenRemedy returns what would be right for a reason of the token filter.
func tokenRemedy(reason, otherwise string) string {
	for _, r := range remedies {
		if strings.Contains(reason, r[0]) {
			return r[1]
		}
	}
	return otherwise
}

// authorizer looks for the CUSTOM policies and their provider.
func (x *explainer) authorizer(c accesslog.Cause) {
	for _, r := range x.madeOf("listener", "AuthorizationPolicy") {
		o := x.object(r)
		if o == nil || text(o.Spec, "action") != "CUSTOM" {
			continue
		}
		r.field = "spec.provider"
		x.blame(r, "it has the request judged by provider "+strconv.Quote(text(o.Spec, "provider", "name")), c.Right)
	}
}
