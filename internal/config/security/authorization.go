package security

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	securityv1beta1 "istio.io/api/security/v1beta1"

	"fairway/internal/config/report"
	"fairway/internal/config/rule"
	"fairway/internal/mesh/code"
)

// DryRun is the annotation of an AuthorizationPolicy that is not enforced: its effect is only logged and counted.
const DryRun = "istio.io/dry-run"

// AuthorizationPolicy holds the rules of
// https://istio.io/latest/docs/reference/config/security/authorization-policy/ that the schema cannot say.
func AuthorizationPolicy(c *rule.Check, p *securityv1beta1.AuthorizationPolicy) {
	at := report.Spec()
	selector := at.Key("selector")
	c.Selector(&selector, "matchLabels", p.Selector.GetMatchLabels())
	c.Targets(at, p.TargetRef, p.TargetRefs) //nolint:staticcheck // deprecated by Istio, still taken
	custom := p.Action == securityv1beta1.AuthorizationPolicy_CUSTOM
	switch {
	case custom && p.GetProvider().GetName() == "":
		c.Fail(at.Key("provider"), code.Missing, "action CUSTOM needs a provider", "name an extensionProvider of the mesh configuration")
	case custom && len(p.Rules) == 0:
		c.Fail(at.Key("rules"), code.NoRules, "action CUSTOM without rules asks about no request", "write `rules: [{}]` to ask about all")
	case !custom && p.GetProvider() != nil:
		c.Fail(at.Key("provider"), code.Conflict, "a provider goes with action CUSTOM, not "+p.Action.String(), "")
	case p.Action == securityv1beta1.AuthorizationPolicy_DENY && len(p.Rules) == 0:
		c.Fail(at.Key("rules"), code.NoRules, "action DENY without rules denies nothing", "write `rules: [{}]` to deny everything")
	}
	checkDryRun(c, p)
	for i, r := range p.Rules {
		here := at.Of("rules", i)
		checkAuthRule(c, &here, r)
		if custom {
			checkCustom(c, &here, r)
		}
	}
}

// checkDryRun: the annotation is true or false, and goes with the actions that proxies can try out.
func checkDryRun(c *rule.Check, p *securityv1beta1.AuthorizationPolicy) {
	value, said := c.Of.Annotations[DryRun]
	if !said {
		return
	}
	metadata := report.Metadata()
	annotations := metadata.Key("annotations")
	if _, err := strconv.ParseBool(value); err != nil {
		c.Fail(annotations.Key(DryRun), code.BadValue, strconv.Quote(value)+" is neither true nor false", `write "true", in quotes`)
	}
	if p.Action != securityv1beta1.AuthorizationPolicy_ALLOW && p.Action != securityv1beta1.AuthorizationPolicy_DENY {
		c.Fail(annotations.Key(DryRun), code.NotSupported, "action "+p.Action.String()+" cannot be tried out", "leave the annotation out")
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
		checkCondition(c, &here, w)
	}
}

func checkCondition(c *rule.Check, at *report.Path, w *securityv1beta1.Condition) {
	if w.Key == "" {
		c.Fail(at.Key("key"), code.Missing, "the condition has no key", "")
	} else if !isConditionKey(w.Key) {
		c.Fail(at.Key("key"), code.UnknownValue, strconv.Quote(w.Key)+" is not an attribute of a request",
			"write one of https://istio.io/latest/docs/reference/config/security/conditions/")
	}
	if len(w.Values)+len(w.NotValues) == 0 {
		what := "the condition"
		if w.Key != "" {
			what = "condition " + w.Key
		}
		c.Fail(*at, code.Missing, what+" has no values", "add values or notValues")
	}
	checkExcluded(c, at, words{"values", w.Values}, words{"notValues", w.NotValues})
	for _, list := range []words{{"values", w.Values}, {"notValues", w.NotValues}} {
		switch w.Key {
		case "source.ip", "remote.ip", "destination.ip":
			checkBlocks(c, at, list)
		case "destination.port":
			checkPorts(c, at, list)
		default:
			notEmpty(c, at, list.name, list.list)
		}
	}
}

// words is a field that is a list of words.
type words struct {
	name string
	list []string
}

// checkExcluded warns if every value that may match (one) is also excluded (none), so that the rule matches nothing.
func checkExcluded(c *rule.Check, at *report.Path, one, none words) {
	if len(one.list) == 0 || len(none.list) == 0 {
		return
	}
	not := make(map[string]bool, len(none.list)) // both lists are as long as an object may be
	for _, v := range none.list {
		not[v] = true
	}
	if not["*"] || !slices.ContainsFunc(one.list, func(v string) bool { return !not[v] }) {
		c.Warn(at.Key(one.name), code.NeverHolds, "every value of "+one.name+" is in "+none.name+
			" too: no request can match",
			"remove the values to match from "+none.name)
	}
}

func checkAuthSource(c *rule.Check, at *report.Path, s *securityv1beta1.Source) {
	if s == nil {
		c.Fail(*at, code.Missing, "there is no source", "")
		return
	}
	count := 0
	for _, l := range []words{
		{"ipBlocks", s.IpBlocks}, {"notIpBlocks", s.NotIpBlocks},
		{"remoteIpBlocks", s.RemoteIpBlocks}, {"notRemoteIpBlocks", s.NotRemoteIpBlocks},
	} {
		checkBlocks(c, at, l)
		count += len(l.list)
	}
	for _, l := range []words{
		{"principals", s.Principals}, {"notPrincipals", s.NotPrincipals},
		{"requestPrincipals", s.RequestPrincipals}, {"notRequestPrincipals", s.NotRequestPrincipals},
		{"namespaces", s.Namespaces}, {"notNamespaces", s.NotNamespaces},
		{"serviceAccounts", s.ServiceAccounts}, {"notServiceAccounts", s.NotServiceAccounts},
	} {
		notEmpty(c, at, l.name, l.list)
		count += len(l.list)
	}
	for _, l := range [][2]words{
		{{"ipBlocks", s.IpBlocks}, {"notIpBlocks", s.NotIpBlocks}},
		{{"remoteIpBlocks", s.RemoteIpBlocks}, {"notRemoteIpBlocks", s.NotRemoteIpBlocks}},
		{{"principals", s.Principals}, {"notPrincipals", s.NotPrincipals}},
		{{"requestPrincipals", s.RequestPrincipals}, {"notRequestPrincipals", s.NotRequestPrincipals}},
		{{"namespaces", s.Namespaces}, {"notNamespaces", s.NotNamespaces}},
		{{"serviceAccounts", s.ServiceAccounts}, {"notServiceAccounts", s.NotServiceAccounts}},
		{{"trustDomains", s.TrustDomains}, {"notTrustDomains", s.NotTrustDomains}},
	} {
		checkExcluded(c, at, l[0], l[1])
	}
	if count == 0 {
		c.Fail(*at, code.Missing, "the source is empty", "name principals, namespaces or others, or leave `from` out")
	}
}

func checkAuthOperation(c *rule.Check, at *report.Path, o *securityv1beta1.Operation) {
	if o == nil {
		c.Fail(*at, code.Missing, "there is no operation", "")
		return
	}
	count := 0
	for _, l := range []words{{"ports", o.Ports}, {"notPorts", o.NotPorts}} {
		checkPorts(c, at, l)
		count += len(l.list)
	}
	for _, l := range []words{{"paths", o.Paths}, {"notPaths", o.NotPaths}} {
		checkPaths(c, at, l)
		count += len(l.list)
	}
	for _, l := range []words{
		{"hosts", o.Hosts}, {"notHosts", o.NotHosts}, {"methods", o.Methods}, {"notMethods", o.NotMethods},
	} {
		notEmpty(c, at, l.name, l.list)
		count += len(l.list)
	}
	for _, l := range []words{{"methods", o.Methods}, {"notMethods", o.NotMethods}} {
		checkCapitals(c, at, l)
	}
	for _, l := range [][2]words{
		{{"ports", o.Ports}, {"notPorts", o.NotPorts}}, {{"paths", o.Paths}, {"notPaths", o.NotPaths}},
		{{"hosts", o.Hosts}, {"notHosts", o.NotHosts}}, {{"methods", o.Methods}, {"notMethods", o.NotMethods}},
	} {
		checkExcluded(c, at, l[0], l[1])
	}
	if count == 0 {
		c.Fail(*at, code.Missing, "the operation is empty", "name hosts, ports, methods or paths, or leave `to` out")
	}
}

func checkBlocks(c *rule.Check, at *report.Path, l words) {
	for i, b := range l.list {
		if !rule.IsCIDR(b) {
			c.Fail(at.Of(l.name, i), code.BadAddress, strconv.Quote(b)+" is not an address or CIDR", "write 10.1.2.0/24")
		}
	}
}

func checkPorts(c *rule.Check, at *report.Path, l words) {
	for i, s := range l.list {
		if n, err := strconv.ParseUint(s, 10, 16); err != nil || n == 0 {
			c.Fail(at.Of(l.name, i), code.BadPort, strconv.Quote(s)+" is not a port", "write a number from 1 to 65535")
		}
	}
}

// checkCapitals warns of methods that no request has: methods are compared as they are written (RFC 9110, 9.1).
func checkCapitals(c *rule.Check, at *report.Path, l words) {
	for i, method := range l.list {
		if capitals := strings.ToUpper(method); capitals != method {
			c.Warn(at.Of(l.name, i), code.Unused, strconv.Quote(method)+" is the method of no request", "write "+capitals)
		}
	}
}

// segment matches the text between two slashes of a path template: text without stars and braces, {*}, or {**} as the last
// (security/v1beta1/authorization_policy.proto, Operation.paths).
var segment = regexp.MustCompile(`^([^*{}]*|\{\*\*?\})$`)

// checkPaths: a path is text, with a star at its beginning or its end; or a template, by {*} and {**}.
func checkPaths(c *rule.Check, at *report.Path, l words) {
	notEmpty(c, at, l.name, l.list)
	for i, path := range l.list {
		if path != "" && !strings.HasPrefix(path, "/") && !strings.HasPrefix(path, "*") && !strings.HasPrefix(path, "{") {
			c.Warn(at.Of(l.name, i), code.Unused, strconv.Quote(path)+" is the path of no request: paths begin with /", "write /"+path)
		}
		if !strings.Contains(path, "{*}") && !strings.Contains(path, "{**}") {
			continue
		}
		rest, last := "", false
		if _, rest, last = strings.Cut(path, "{**}"); last && strings.ContainsAny(rest, "{}") {
			c.Fail(at.Of(l.name, i), code.BadMatch, "{**} is not the last operator of the template", "put it last")
			continue
		}
		for part := range strings.SplitSeq(path, "/") {
			if segment.MatchString(part) {
				continue
			}
			c.Fail(at.Of(l.name, i), code.BadMatch, strconv.Quote(part)+" cannot be part of a path template",
				"write {*} for one part, {**} for any number of them, and no other stars or braces")
			break
		}
	}
}

// checkCustom: the conditions of an external authorizer must not depend on identities, because these are known later
// (https://istio.io/latest/docs/tasks/security/authorization/authz-custom/).
func checkCustom(c *rule.Check, at *report.Path, r *securityv1beta1.Rule) {
	refuse := func(at report.Path, what string) {
		c.Fail(
			at, code.NotSupported, what+" is not allowed in a rule of action CUSTOM",
			"match by what the request itself has: hosts, paths, headers",
		)
	}
	for i, f := range r.From {
		from := at.Of("from", i)
		here := from.Key("source")
		for _, l := range []words{
			{"principals", f.Source.GetPrincipals()}, {"notPrincipals", f.Source.GetNotPrincipals()},
			{"requestPrincipals", f.Source.GetRequestPrincipals()}, {"notRequestPrincipals", f.Source.GetNotRequestPrincipals()},
			{"namespaces", f.Source.GetNamespaces()}, {"notNamespaces", f.Source.GetNotNamespaces()},
			{"serviceAccounts", f.Source.GetServiceAccounts()}, {"notServiceAccounts", f.Source.GetNotServiceAccounts()},
		} {
			if len(l.list) > 0 {
				refuse(here.Key(l.name), l.name)
			}
		}
	}
	for i, w := range r.When {
		here := at.Of("when", i)
		if rule.OneOf(w.Key, "source.namespace", "source.principal", "source.serviceAccount") || strings.HasPrefix(w.Key, "request.auth.") {
			refuse(here.Key("key"), w.Key)
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
	return rule.OneOf(k, "source.ip", "remote.ip", "source.namespace", "source.principal", "source.serviceAccount",
		"source.trustDomain", "request.auth.principal", "request.auth.audiences", "request.auth.presenter", "request.auth.claims",
		"destination.ip", "destination.port", "connection.sni")
}
