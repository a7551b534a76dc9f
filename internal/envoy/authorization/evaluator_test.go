package authorization_test

import (
	"net/netip"
	"regexp"
	"slices"
	"strings"

	securityv1beta1 "istio.io/api/security/v1beta1"

	"fairway/internal/envoy/authorization"
)

// request describes an HTTP request, or a connection that is not HTTP.
type request struct {
	http               bool
	caller             string // <trust domain>/ns/<namespace>/sa/<service account>; empty: the client showed no certificate
	source, remote     netip.Addr
	destination        netip.Addr
	port, sni          string
	host, method, path string // the path has no query
	headers            map[string]string
	claims             map[string]any            // of the verified token; nil: there is none
	filters            map[string]map[string]any // dynamic metadata of Envoy filters
}

// evaluator decides only by the text of Istio's API reference (security/v1beta1/authorization_policy.proto, and the page Authorization
// Policy Conditions). It knows nothing of Envoy.
type evaluator struct{ trust []string }

// allowed: "CUSTOM action is evaluated first, then the DENY action, and finally the ALLOW action".
func (e evaluator) allowed(policies []authorization.Policy, q request) bool {
	any, matched := false, false
	for _, p := range policies {
		if p.DryRun {
			continue
		}
		switch p.Spec.GetAction() {
		case securityv1beta1.AuthorizationPolicy_DENY:
			if e.matches(p, q) { // "If there are any DENY policies that match the request, deny the request."
				return false
			}
		case securityv1beta1.AuthorizationPolicy_ALLOW:
			any = true
			matched = matched || e.matches(p, q)
		}
	}
	// "If there are no ALLOW policies for the workload, allow the request. If any of the ALLOW policies match the request,
	// allow the request. Deny the request."
	return !any || matched
}

// matches: "A match occurs when at least one rule matches the request."
func (e evaluator) matches(p authorization.Policy, q request) bool {
	for _, r := range p.Spec.GetRules() {
		if e.rule(p, r, q) {
			return true
		}
	}
	return false
}

// fact is a field of a rule: its values, and whether the request has a given value. If http is set, a connection that is not HTTP has no
// such field.
type fact struct {
	values, not []string
	http        bool
	is          func(value string) bool
}

// rule: "A match occurs when at least one source, one operation and all conditions matches the request."
func (e evaluator) rule(p authorization.Policy, r *securityv1beta1.Rule, q request) bool {
	var sources, operations [][]fact
	var conditions []fact
	for _, f := range r.GetFrom() {
		sources = append(sources, e.source(p, f.GetSource(), q))
	}
	for _, t := range r.GetTo() {
		operations = append(operations, e.operation(t.GetOperation(), q))
	}
	for _, w := range r.GetWhen() {
		conditions = append(conditions, e.condition(p, w, q))
	}
	if !q.http && p.Spec.GetAction() == securityv1beta1.AuthorizationPolicy_ALLOW {
		// An ALLOW rule with a field that only requests have is ignored on TCP
		// (https://istio.io/latest/docs/tasks/security/authorization/authz-tcp/).
		for _, list := range slices.Concat(sources, operations, [][]fact{conditions}) {
			for _, f := range list {
				if f.http && len(f.values)+len(f.not) > 0 {
					return false
				}
			}
		}
	}
	all := func(list []fact) bool {
		return !slices.ContainsFunc(list, func(f fact) bool { return !f.holds(q) })
	}
	return (len(sources) == 0 || slices.ContainsFunc(sources, all)) &&
		(len(operations) == 0 || slices.ContainsFunc(operations, all)) && all(conditions)
}

// holds: "For a DENY rule, missing attributes are treated as matches."
func (f fact) holds(q request) bool {
	if f.http && !q.http {
		return true
	}
	return (len(f.values) == 0 || slices.ContainsFunc(f.values, f.is)) && !slices.ContainsFunc(f.not, f.is)
}

func (e evaluator) source(p authorization.Policy, s *securityv1beta1.Source, q request) []fact {
	return []fact{
		{values: s.GetPrincipals(), not: s.GetNotPrincipals(), is: e.principal(q)},
		{values: s.GetRequestPrincipals(), not: s.GetNotRequestPrincipals(), http: true, is: requester(q)},
		{values: s.GetNamespaces(), not: s.GetNotNamespaces(), is: like(q.part(2))},
		{values: s.GetServiceAccounts(), not: s.GetNotServiceAccounts(), is: account(p, q)},
		{values: s.GetTrustDomains(), not: s.GetNotTrustDomains(), is: like(q.part(0))},
		{values: s.GetIpBlocks(), not: s.GetNotIpBlocks(), is: in(q.source)},
		{values: s.GetRemoteIpBlocks(), not: s.GetNotRemoteIpBlocks(), is: in(q.remote)},
	}
}

func (e evaluator) operation(o *securityv1beta1.Operation, q request) []fact {
	return []fact{
		{values: o.GetHosts(), not: o.GetNotHosts(), http: true, is: func(v string) bool { // "The match is case-insensitive."
			return like(strings.ToLower(q.host))(strings.ToLower(v))
		}},
		{values: o.GetPorts(), not: o.GetNotPorts(), is: func(v string) bool { return v == q.port }},
		{values: o.GetMethods(), not: o.GetNotMethods(), http: true, is: like(q.method)},
		{values: o.GetPaths(), not: o.GetNotPaths(), http: true, is: func(v string) bool {
			if strings.Contains(v, "{") {
				return template(v, q.path)
			}
			return like(q.path)(v)
		}},
	}
}

func (e evaluator) condition(p authorization.Policy, w *securityv1beta1.Condition, q request) fact {
	f := fact{values: w.GetValues(), not: w.GetNotValues()}
	switch key := w.GetKey(); {
	case key == "source.ip":
		f.is = in(q.source)
	case key == "remote.ip":
		f.is = in(q.remote)
	case key == "source.namespace":
		f.is = like(q.part(2))
	case key == "source.principal":
		f.is = e.principal(q)
	case key == "source.serviceAccount":
		f.is = account(p, q)
	case key == "source.trustDomain":
		f.is = like(q.part(0))
	case key == "destination.ip":
		f.is = in(q.destination)
	case key == "destination.port":
		f.is = func(v string) bool { return v == q.port }
	case key == "connection.sni":
		f.is = like(q.sni)
	case key == "request.auth.principal":
		f.http, f.is = true, requester(q)
	case key == "request.auth.audiences":
		f.http, f.is = true, among(q.claims["aud"])
	case key == "request.auth.presenter":
		f.http, f.is = true, among(q.claims["azp"])
	case strings.HasPrefix(key, "request.auth.claims"):
		var at any = q.claims
		for _, name := range brackets(key) {
			m, _ := at.(map[string]any)
			at = m[name]
		}
		f.http, f.is = true, among(at)
	case strings.HasPrefix(key, "request.headers"):
		name := strings.ToLower(brackets(key)[0])
		value, there := q.headers[name]
		if name == "host" {
			value, there = q.host, true
		}
		f.http, f.is = true, func(v string) bool { return there && like(value)(v) }
	case strings.HasPrefix(key, "experimental."):
		filter, _, _ := strings.Cut(strings.TrimPrefix(key, "experimental."), "[")
		value := q.filters[filter][brackets(key)[0]]
		f.is = func(v string) bool {
			if item, ok := strings.CutPrefix(v, "["); ok {
				list, _ := value.([]any)
				return slices.ContainsFunc(list, func(one any) bool { return among(one)(strings.TrimSuffix(item, "]")) })
			}
			text, _ := value.(string)
			return like(text)(v)
		}
	}
	return f
}

func brackets(key string) []string {
	_, rest, _ := strings.Cut(key, "[")
	return strings.Split(strings.TrimSuffix(rest, "]"), "][")
}

// like: "Exact match: `abc` will match on value `abc`. Prefix match: `abc*` will match on value `abc` and `abcd`. Suffix match:
// `*abc` will match on value `abc` and `xabc`. Presence match: `*` will match when value is not empty."
func like(text string) func(string) bool {
	return func(v string) bool {
		switch {
		case v == "*":
			return text != ""
		case strings.HasPrefix(v, "*"):
			return text != "" && strings.HasSuffix(text, v[1:])
		case strings.HasSuffix(v, "*"):
			return text != "" && strings.HasPrefix(text, v[:len(v)-1])
		}
		return text == v
	}
}

// among: a claim is a text, or a list of texts.
func among(claim any) func(string) bool {
	return func(v string) bool {
		switch c := claim.(type) {
		case string:
			return like(c)(v)
		case []any:
			return slices.ContainsFunc(c, func(one any) bool {
				text, ok := one.(string)
				return ok && like(text)(v)
			})
		}
		return false
	}
}

func in(a netip.Addr) func(string) bool {
	return func(v string) bool {
		if p, err := netip.ParsePrefix(v); err == nil {
			return p.Contains(a)
		}
		return netip.MustParseAddr(v) == a
	}
}

// part is a part of "<TRUST_DOMAIN>/ns/<NAMESPACE>/sa/<SERVICE_ACCOUNT>", from 0.
func (q request) part(n int) string {
	if q.caller == "" {
		return ""
	}
	return strings.Split(q.caller, "/")[n]
}

// principal: an identity of the mesh is called by its trust domain, by each of its aliases (MeshConfig.trustDomainAliases), and
// by cluster.local.
func (e evaluator) principal(q request) func(string) bool {
	names := []string{q.caller}
	if domain, rest, _ := strings.Cut(q.caller, "/"); slices.Contains(e.trust, domain) {
		names = nil
		for _, d := range append([]string{"cluster.local"}, e.trust...) {
			names = append(names, d+"/"+rest)
		}
	}
	return func(v string) bool {
		return slices.ContainsFunc(names, func(n string) bool { return like(n)(v) })
	}
}

// account: "This takes the format <namespace>/<serviceaccount>. <serviceaccount> may also be used to use the same namespace as
// the AuthorizationPolicy."
func account(p authorization.Policy, q request) func(string) bool {
	return func(v string) bool {
		if !strings.Contains(v, "/") {
			v = p.Namespace + "/" + v
		}
		return v == q.part(2)+"/"+q.part(len([]string{"td", "ns", "namespace", "sa"}))
	}
}

// requester: "The request identity is in the format of <ISS>/<SUB>".
func requester(q request) func(string) bool {
	iss, _ := q.claims["iss"].(string)
	sub, _ := q.claims["sub"].(string)
	if iss == "" || sub == "" {
		return like("")
	}
	return like(iss + "/" + sub)
}

// template: "{*} matches a single glob that cannot extend beyond a path segment. {**} matches zero or more globs."
func template(v, path string) bool {
	text := regexp.QuoteMeta(v)
	text = strings.ReplaceAll(text, `\{\*\*\}`, `.*`)
	text = strings.ReplaceAll(text, `\{\*\}`, `[^/]+`)
	return expression(`^` + text + `$`).MatchString(path)
}
