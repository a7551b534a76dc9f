package absent

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
	securityv1beta1 "istio.io/api/security/v1beta1"

	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/spelling"
)

// accounts are the service accounts that are known, by namespace.
type accounts struct {
	by map[string]map[string]bool
	// partly holds namespaces with workloads of unknown accounts: nothing is said of these.
	partly map[string]bool
}

func (a accounts) add(namespace, name string) {
	if a.by[namespace] == nil {
		a.by[namespace] = map[string]bool{}
	}
	if name != "" {
		a.by[namespace][name] = true
	}
}

// accounts returns the accounts of workloads, ServiceAccounts and services.
func (l *look) accounts() accounts {
	out := accounts{map[string]map[string]bool{}, map[string]bool{}}
	for _, ns := range l.Namespaces {
		out.add(ns, "")
	}
	for _, a := range l.Accounts {
		out.add(a.Namespace, a.Name)
	}
	for _, p := range l.Pods {
		out.add(p.Namespace, orDefault(p.Spec.ServiceAccountName))
	}
	for _, s := range l.Services {
		out.add(s.Namespace, "")
		if selects(s) && len(l.selected(s)) == 0 {
			out.partly[s.Namespace] = true // its pods may have any
		}
	}
	for _, o := range l.Objects {
		for _, e := range entries(o) {
			if out.add(o.Namespace, e.GetServiceAccount()); e.GetServiceAccount() == "" {
				out.partly[o.Namespace] = true
			}
		}
	}
	return out
}

// entries returns the workloads that an object declares.
func entries(o *config.Object) []*networking.WorkloadEntry {
	switch o.Kind {
	case config.WorkloadEntry:
		return []*networking.WorkloadEntry{config.Spec[*networking.WorkloadEntry](o)}
	case config.WorkloadGroup:
		return []*networking.WorkloadEntry{config.Membership(o)}
	case config.ServiceEntry:
		return config.Spec[*networking.ServiceEntry](o).GetEndpoints()
	}
	return nil
}

func orDefault(account string) string {
	if account == "" {
		return "default"
	}
	return account
}

// AccountOf splits <trust domain>/ns/<namespace>/sa/<account>.
func AccountOf(principal string) (namespace, name string, ok bool) {
	parts := strings.Split(principal, "/")
	if len(parts) != 5 || parts[1] != "ns" || parts[3] != "sa" {
		return "", "", false
	}
	return parts[2], parts[4], true
}

// callers notes namespaces and accounts in AuthorizationPolicies that no workload has: such a rule matches nothing.
func (l *look) callers() {
	var known accounts
	for _, o := range l.Objects {
		if o.Kind != config.AuthorizationPolicy {
			continue
		}
		if known.by == nil {
			known = l.accounts()
		}
		c := callers{l, known, o}
		for i, rule := range config.Spec[*securityv1beta1.AuthorizationPolicy](o).GetRules() {
			for j, from := range rule.GetFrom() {
				at, s := fmt.Sprintf("spec.rules[%d].from[%d].source.", i, j), from.GetSource()
				c.each(at+"principals", s.GetPrincipals(), c.principal)
				c.each(at+"namespaces", s.GetNamespaces(), c.namespace)
				c.each(at+"serviceAccounts", s.GetServiceAccounts(), c.account)
			}
			for j, when := range rule.GetWhen() {
				at := fmt.Sprintf("spec.rules[%d].when[%d].values", i, j)
				switch when.GetKey() {
				case "source.principal":
					c.each(at, when.GetValues(), c.principal)
				case "source.namespace":
					c.each(at, when.GetValues(), c.namespace)
				case "source.serviceAccount":
					c.each(at, when.GetValues(), c.account)
				}
			}
		}
	}
}

// callers judges the callers that one AuthorizationPolicy names.
type callers struct {
	*look
	known  accounts
	object *config.Object
}

func (c callers) each(at string, values []string, judge func(string) (message, fix string)) {
	for i, v := range values {
		if strings.Contains(v, "*") {
			continue
		}
		if message, fix := judge(v); message != "" {
			c.note(c.object.Problem(fmt.Sprintf("%s[%d]", at, i), code.NoCaller, mesh.Warning, message, fix))
		}
	}
}

func (c callers) principal(v string) (message, fix string) {
	domain, _, _ := strings.Cut(v, "/")
	ns, name, ok := AccountOf(v)
	if !ok || !slices.Contains(c.Domains, domain) {
		return "", ""
	}
	return c.of(ns, name, func(ns, name string) string { return domain + "/ns/" + ns + "/sa/" + name })
}

func (c callers) account(v string) (message, fix string) {
	ns, name, split := strings.Cut(v, "/")
	if !split {
		return c.of(c.object.Namespace, v, func(_, name string) string { return name })
	}
	return c.of(ns, name, func(ns, name string) string { return ns + "/" + name })
}

// namespace checks that a namespace exists. If only files were read, it reports only a name that resembles one in the files.
func (c callers) namespace(v string) (message, fix string) {
	if _, is := c.known.by[v]; is {
		return "", ""
	}
	fix = spelling.DidYouMean(v, maps.Keys(c.known.by), 2)
	if fix == "" && !c.Whole {
		return "", ""
	}
	if fix == "" {
		fix = "name a namespace that there is"
	}
	return fmt.Sprintf("no workload of a namespace %q is known: no request comes from there", v), fix
}

func (c callers) of(ns, name string, write func(ns, name string) string) (message, fix string) {
	names, is := c.known.by[ns]
	if !is {
		if message, fix = c.namespace(ns); strings.HasPrefix(fix, "did you mean ") {
			meant := strings.TrimSuffix(strings.TrimPrefix(fix, "did you mean "), "?")
			fix = "did you mean " + write(meant, name) + "?"
		}
		return message, fix
	}
	if names[name] || c.known.partly[ns] || c.AccountsHidden || len(names) == 0 {
		return "", ""
	}
	var meant []string
	for known := range names {
		meant = append(meant, write(ns, known))
	}
	fix = spelling.DidYouMean(write(ns, name), slices.Values(meant), 2)
	if fix == "" {
		fix = "name an account that workloads have, or that there is a ServiceAccount of"
	}
	return fmt.Sprintf("no workload of namespace %s that is known runs as service account %q, and there is no such ServiceAccount: "+
		"no request comes from it", ns, name), fix
}
