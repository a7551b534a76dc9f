package lacking

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
	securityv1beta1 "istio.io/api/security/v1beta1"

	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/spelling"
)

// Account is a service account of a namespace. An empty name is none: its namespace is known.
type Account struct{ Namespace, Name string }

// Accounts are the service accounts of all known workloads, by namespace.
type Accounts interface {
	Has(Account) bool
	// Of returns the account names of a namespace. known reports whether the namespace exists. whole reports whether the account of every
	// workload in it is known.
	Of(namespace string) (names iter.Seq[string], known, whole bool)
	Namespaces() iter.Seq[string]
}

// Callers judges the callers that AuthorizationPolicies name.
type Callers struct {
	Accounts
	Domains []string // trust domains of the mesh
	// AllNamespaces is set if all namespaces are known, AllAccounts if all accounts of a known namespace are. Otherwise only names are
	// reported that resemble a known one.
	AllNamespaces, AllAccounts bool
}

// mostCallers is how many unknown callers of one policy are reported.
const mostCallers = 20

// Problems returns the problems of one AuthorizationPolicy: a namespace or an account that no workload has matches nothing.
func (c Callers) Problems(o *config.Object) (out []mesh.Problem) {
	for p := range each(o) {
		if len(out) == mostCallers {
			break
		}
		var message, fix string
		switch p.kind {
		case ofPrincipals:
			message, fix = c.principal(p.value)
		case ofNamespaces:
			message, fix = c.namespace(p.value)
		default:
			message, fix = c.account(o.Namespace, p.value)
		}
		if message != "" {
			out = append(out, o.Problem(p.at(), code.NoCaller, mesh.Warning, message, fix))
		}
	}
	return out
}

// kind is what a value of a policy names.
type kind uint8

const (
	ofPrincipals kind = iota
	ofNamespaces
	ofAccounts
)

// byKey are the kinds of values of conditions.
var byKey = map[string]kind{"source.principal": ofPrincipals, "source.namespace": ofNamespaces, "source.serviceAccount": ofAccounts}

// place is a caller that a policy names.
type place struct {
	kind  kind
	value string
	at    func() string // the field
}

// each yields the callers that an AuthorizationPolicy names in full: no wildcards.
func each(o *config.Object) iter.Seq[place] {
	return func(yield func(place) bool) {
		list := func(k kind, values []string, at func() string) bool {
			for i, v := range values {
				if !strings.Contains(v, "*") && !yield(place{k, v, func() string { return fmt.Sprintf("%s[%d]", at(), i) }}) {
					return false
				}
			}
			return true
		}
		for i, rule := range config.Spec[*securityv1beta1.AuthorizationPolicy](o).GetRules() {
			for j, from := range rule.GetFrom() {
				at := func(name string) func() string {
					return func() string { return fmt.Sprintf("spec.rules[%d].from[%d].source.%s", i, j, name) }
				}
				s := from.GetSource()
				if !list(ofPrincipals, s.GetPrincipals(), at("principals")) || !list(ofNamespaces, s.GetNamespaces(), at("namespaces")) ||
					!list(ofAccounts, s.GetServiceAccounts(), at("serviceAccounts")) {
					return
				}
			}
			for j, when := range rule.GetWhen() {
				at := func() string { return fmt.Sprintf("spec.rules[%d].when[%d].values", i, j) }
				if k, is := byKey[when.GetKey()]; is && !list(k, when.GetValues(), at) {
					return
				}
			}
		}
	}
}

// names reports whether a policy names any caller.
func names(o *config.Object) bool {
	for range each(o) {
		return true
	}
	return false
}

// AccountOf splits <trust domain>/ns/<namespace>/sa/<account>.
func AccountOf(principal string) (Account, bool) {
	parts := strings.Split(principal, "/")
	if len(parts) != 5 || parts[1] != "ns" || parts[3] != "sa" {
		return Account{}, false
	}
	return Account{parts[2], parts[4]}, true
}

func (c Callers) principal(v string) (message, fix string) {
	domain, _, _ := strings.Cut(v, "/")
	a, ok := AccountOf(v)
	if !ok || !slices.Contains(c.Domains, domain) {
		return "", ""
	}
	return c.of(a, func(a Account) string { return domain + "/ns/" + a.Namespace + "/sa/" + a.Name })
}

func (c Callers) account(home, v string) (message, fix string) {
	ns, name, split := strings.Cut(v, "/")
	if !split {
		return c.of(Account{home, v}, func(a Account) string { return a.Name })
	}
	return c.of(Account{ns, name}, func(a Account) string { return a.Namespace + "/" + a.Name })
}

// namespace checks that a namespace is known.
func (c Callers) namespace(v string) (message, fix string) {
	if _, known, _ := c.Of(v); known {
		return "", ""
	}
	fix = spelling.DidYouMean(v, c.Namespaces(), 2)
	if fix == "" && !c.AllNamespaces {
		return "", ""
	}
	if fix == "" {
		fix = "name a namespace that there is"
	}
	return fmt.Sprintf("no workload of a namespace %q is known: no request comes from there", v), fix
}

// of checks that some workload may run as an account. write returns an account in the form that the policy has.
func (c Callers) of(a Account, write func(Account) string) (message, fix string) {
	if c.Has(a) {
		return "", ""
	}
	all, known, whole := c.Of(a.Namespace)
	if !known {
		if message, fix = c.namespace(a.Namespace); strings.HasPrefix(fix, "did you mean ") {
			meant := strings.TrimSuffix(strings.TrimPrefix(fix, "did you mean "), "?")
			fix = "did you mean " + write(Account{meant, a.Name}) + "?"
		}
		return message, fix
	}
	some := false
	fix = spelling.DidYouMean(write(a), func(yield func(string) bool) {
		for name := range all {
			some = true
			if (c.AllAccounts || misspelt(a.Name, name)) && !yield(write(Account{a.Namespace, name})) {
				return
			}
		}
	}, 2)
	if !whole || !some || fix == "" && !c.AllAccounts {
		return "", ""
	}
	message = fmt.Sprintf("no workload of namespace %s that is known runs as service account %q", a.Namespace, a.Name)
	if c.AllAccounts {
		message += ", and there is no such ServiceAccount"
	}
	if fix == "" {
		fix = "name an account that workloads have, or that there is a ServiceAccount of"
	}
	return message + ": no request comes from it", fix
}

// misspelt reports whether a name was probably meant to be a known one. Names that differ only in digits are those of versions.
func misspelt(name, known string) bool {
	letters := func(s string) string {
		return strings.Map(func(r rune) rune {
			if r >= '0' && r <= '9' {
				return -1
			}
			return r
		}, s)
	}
	return spelling.Distance(name, known, 2) <= min(2, len(known)/2) && letters(name) != letters(known)
}

// Entries returns the workloads that an object declares.
func Entries(o *config.Object) []*networking.WorkloadEntry {
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
