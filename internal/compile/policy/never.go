package policy

import (
	"fmt"
	"slices"
	"strings"

	securityv1beta1 "istio.io/api/security/v1beta1"

	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
)

// This file finds rules of AuthorizationPolicies that nothing can match for a workload, because its callers cannot prove what the rules ask
// for.

// proof is something that callers prove and that a rule may ask for.
type proof struct {
	of   func(*securityv1beta1.Source) (field string, values []string)
	keys []string // of conditions; a star at the end matches any rest
}

// tokens are proved if a RequestAuthentication holds.
func tokens() proof {
	return proof{
		of: func(s *securityv1beta1.Source) (string, []string) {
			return "requestPrincipals", s.GetRequestPrincipals()
		},
		keys: []string{"request.auth.*"},
	}
}

// identities are proved by mutual TLS.
func identities() proof {
	return proof{
		of: func(s *securityv1beta1.Source) (string, []string) {
			for _, f := range []struct {
				name   string
				values []string
			}{
				{"principals", s.GetPrincipals()}, {"namespaces", s.GetNamespaces()},
				{"serviceAccounts", s.GetServiceAccounts()}, {"trustDomains", s.GetTrustDomains()},
			} {
				if len(f.values) > 0 {
					return f.name, f.values
				}
			}
			return "", nil
		},
		keys: []string{"source.principal", "source.namespace", "source.serviceAccount", "source.trustDomain"},
	}
}

// asks reports whether a rule, at a place, matches only callers that have the proof, and returns the field that asks for it.
func (p proof) asks(at string, rule *securityv1beta1.Rule) (field string, ok bool) {
	for i, w := range rule.GetWhen() {
		if len(w.GetValues()) == 0 {
			continue
		}
		for _, key := range p.keys {
			begin, any := strings.CutSuffix(key, "*")
			if w.GetKey() == key || any && strings.HasPrefix(w.GetKey(), begin) {
				return fmt.Sprintf("%s.when[%d]", at, i), true
			}
		}
	}
	for i, from := range rule.GetFrom() {
		name, values := p.of(from.GetSource())
		if len(values) == 0 {
			return "", false
		}
		if i == 0 {
			field = fmt.Sprintf("%s.from[0].source.%s", at, name)
		}
	}
	return field, field != ""
}

// unproved are the fields of an AuthorizationPolicy, one for each rule, that let the rule match only callers with a proof.
type unproved struct{ tokens, identities []string }

func (u unproved) equal(o unproved) bool {
	return slices.Equal(u.tokens, o.tokens) && slices.Equal(u.identities, o.identities)
}

// declareUnproved reads the rules of each policy once: most have no row.
func (t *Tables) declareUnproved() {
	t.unproved = table.Derive(t.in.AuthorizationPolicies, "authorization policies/unproved", config.CompareKey, unproved.equal,
		func(_ *table.Reader, k config.Key, o *config.Object, emit func(config.Key, unproved)) {
			var out unproved
			for i, rule := range config.Spec[*securityv1beta1.AuthorizationPolicy](o).GetRules() {
				at := fmt.Sprintf("spec.rules[%d]", i)
				if field, ok := tokens().asks(at, rule); ok {
					out.tokens = append(out.tokens, field)
				}
				if field, ok := identities().asks(at, rule); ok {
					out.identities = append(out.identities, field)
				}
			}
			if len(out.tokens)+len(out.identities) > 0 {
				emit(k, out)
			}
		})
}

// noteNever notes the rules of a set's AuthorizationPolicies that match nothing, because no caller can prove what they ask for.
func (t *Tables) noteNever(r *table.Reader, s Set, of func(unproved) []string, why, fix string) {
	for _, k := range s.Of(config.AuthorizationPolicy) {
		rules, some := table.Get(r, t.unproved, k)
		if !some || len(of(rules)) == 0 {
			continue
		}
		if o, ok := table.Get(r, t.in.AuthorizationPolicies, k); ok {
			for _, field := range of(rules) {
				r.Note(o.Problem(field, code.NeverHolds, mesh.Warning, why+": there the rule matches nothing", fix))
			}
		}
	}
}

// NoteUnproved notes the rules of a set's policies that ask for the caller's identity, for a workload that takes only plaintext on all its
// ports.
func (t *Tables) NoteUnproved(r *table.Reader, s Set) {
	t.noteNever(r, s, func(u unproved) []string { return u.identities },
		"all ports of a workload that it applies to accept only plaintext, so callers cannot prove an identity",
		"have a PeerAuthentication take mutual TLS, and give the proxy an identity; or ask for nothing of the caller")
}

// noteTokens notes rules that ask for tokens if no RequestAuthentication holds.
func (t *Tables) noteTokens(r *table.Reader, s Set) {
	if len(s.Of(config.RequestAuthentication)) == 0 {
		t.noteNever(r, s, func(u unproved) []string { return u.tokens },
			"no RequestAuthentication verifies tokens of requests to a workload that it applies to",
			"write a RequestAuthentication for the workload, or ask for nothing of tokens")
	}
}
