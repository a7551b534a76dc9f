package absent

import (
	"cmp"
	"iter"
	"maps"

	"fairway/internal/compile/lacking"
	"fairway/internal/config"
)

// accounts are the service accounts that are known, by namespace.
type accounts struct {
	by map[string]map[string]bool
	// partly holds namespaces with workloads of unknown accounts.
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

// Has implements lacking.Accounts.
func (a accounts) Has(of lacking.Account) bool { return a.by[of.Namespace][of.Name] }

// Of returns the service accounts of a namespace. It implements lacking.Accounts.
func (a accounts) Of(namespace string) (names iter.Seq[string], known, whole bool) {
	all, known := a.by[namespace]
	return maps.Keys(all), known, !a.partly[namespace]
}

// Namespaces implements lacking.Accounts.
func (a accounts) Namespaces() iter.Seq[string] { return maps.Keys(a.by) }

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
		out.add(p.Namespace, cmp.Or(p.Spec.ServiceAccountName, "default"))
	}
	for _, s := range l.Services {
		out.add(s.Namespace, "")
		if selects(s) && len(l.selected(s)) == 0 {
			out.partly[s.Namespace] = true // its pods may have any
		}
	}
	for _, o := range l.Objects {
		for _, e := range lacking.Entries(o) {
			if out.add(o.Namespace, e.GetServiceAccount()); e.GetServiceAccount() == "" {
				out.partly[o.Namespace] = true
			}
		}
	}
	return out
}

// callers notes namespaces and accounts in AuthorizationPolicies that no workload has: such a rule matches nothing.
func (l *look) callers() {
	var judge *lacking.Callers
	for _, o := range l.Objects {
		if o.Kind != config.AuthorizationPolicy {
			continue
		}
		if judge == nil {
			judge = &lacking.Callers{Accounts: l.accounts(), Domains: l.Domains, AllNamespaces: l.Whole, AllAccounts: !l.AccountsHidden}
		}
		l.problems = append(l.problems, judge.Problems(o)...)
	}
}
