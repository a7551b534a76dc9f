package policy

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"time"

	"google.golang.org/protobuf/proto"
	securityv1beta1 "istio.io/api/security/v1beta1"

	"fairway/internal/compile/input"
	"fairway/internal/compile/selects"
	"fairway/internal/compile/vouch"
	"fairway/internal/config"
	"fairway/internal/envoy/authentication"
	"fairway/internal/envoy/listener"
	"fairway/internal/jwks"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
)

// The timeouts of one attempt to fetch keys: the default, and the longest that a rule may set.
const (
	usualTry   = 5 * time.Second // JWTRule.timeout
	longestTry = time.Minute
)

// verification is a RequestAuthentication in the form for proxies.
type verification struct {
	rules []authentication.Rule
	needs []mesh.ClusterKey // Envoy fetches keys through these
}

func (v *verification) equal(o *verification) bool {
	return slices.Equal(v.needs, o.needs) &&
		slices.EqualFunc(v.rules, o.rules, func(a, b authentication.Rule) bool { return a.Keys == b.Keys && proto.Equal(a.Spec, b.Spec) })
}

// declareAuthentications reads each RequestAuthentication once, however many workloads it holds for, and finds the keys of its issuers. A
// version that lacks keys would refuse valid tokens, so the last version stays in force until the control plane has asked for the keys.
func (t *Tables) declareAuthentications(who *vouch.Tables) {
	in := t.in.RequestAuthentications
	unread := func(r *table.Reader, o *config.Object) bool {
		unasked := func(s jwks.Source) bool { return !table.Has(r, t.in.KeySets.Table, s) }
		return t.in.FetchesKeys() && slices.ContainsFunc(t.sources(r, o), unasked)
	}
	t.Enforced = table.Derive(in, "request authentications/enforced", config.CompareKey, config.Same,
		func(r *table.Reader, k config.Key, o *config.Object, emit func(config.Key, *config.Object)) {
			ok := true
			if unread(r, o) {
				o, ok = table.Get(r, t.in.Enforced.Table, k)
			}
			if ok {
				emit(k, o)
			}
		})
	t.verifications = table.Derive(
		t.Enforced, "request authentications/keyed", config.CompareKey, (*verification).equal,
		func(r *table.Reader, k config.Key, o *config.Object, emit func(config.Key, *verification)) {
			spec := config.Spec[*securityv1beta1.RequestAuthentication](o)
			v := &verification{}
			for i, rule := range spec.GetJwtRules() {
				v.rules = append(v.rules, authentication.Rule{Spec: rule, Keys: t.keys(r, o, i, rule, v)})
			}
			selects.NoteTargets(r, o, t.in.RootNamespace(r), "policies", spec.GetTargetRefs())
			emit(k, v)
		})
	t.declareKeySources()
	t.holds(t.Enforced, authenticationSelector)
	t.Unread = table.Derive(in, "request authentications/unread", config.CompareKey, config.Same,
		func(r *table.Reader, k config.Key, o *config.Object, emit func(config.Key, *config.Object)) {
			if unread(r, o) {
				r.Note(o.Problem("spec.jwtRules", code.Waiting, mesh.Info,
					"this version waits for the keys of its issuers, which are being asked; the version before it stays in force",
					"nothing needs to be done: it is applied once they have answered, or cannot be reached"))
				emit(k, o)
			}
		})
	t.declareWaiting(who)
}

func authenticationSelector(o *config.Object) selects.Selector {
	spec := config.Spec[*securityv1beta1.RequestAuthentication](o)
	return selectorOf(o, spec.GetSelector(), spec.GetTargetRef(), spec.GetTargetRefs()) //nolint:staticcheck // deprecated, still taken
}

// declareKeySources lists the sources that the control plane has to ask: those of each policy, and of its version that is in force.
func (t *Tables) declareKeySources() {
	type sources []jwks.Source
	of := table.Derive(
		t.in.RequestAuthentications, "request authentications/sources", config.CompareKey, slices.Equal[sources],
		func(r *table.Reader, k config.Key, o *config.Object, emit func(config.Key, sources)) {
			list := t.sources(r, o)
			if before, ok := table.Get(r, t.in.Enforced.Table, k); ok && before != o {
				list = append(list, t.sources(r, before)...)
			}
			slices.SortFunc(list, jwks.Compare)
			emit(k, slices.Compact(list))
		})
	by := table.Group(of, "request authentications/by source", jwks.Compare, func(_ config.Key, list sources) []jwks.Source { return list })
	t.KeySources = table.Derive(by, "request authentications/asked", jwks.Compare, table.Same[string],
		func(_ *table.Reader, s jwks.Source, asking table.Rows[config.Key, sources], emit func(jwks.Source, string)) {
			for k := range asking.All() {
				emit(s, k.Namespace)
				return
			}
		})
}

// declareWaiting finds the proxies that a policy is to hold for while its keys have not been asked for. A proxy that has just connected has
// no earlier listeners to keep, so it is not sent anything yet.
func (t *Tables) declareWaiting(who *vouch.Tables) {
	index := selects.Keys(t.Unread, "request authentications/unread for",
		func(o *config.Object) (selects.Selector, bool) { return authenticationSelector(o), true })
	t.Waiting = table.Derive(who.Proxies, "waiting/keys", cmp.Compare[mesh.ProxyID], table.Same[struct{}],
		func(r *table.Reader, id mesh.ProxyID, p vouch.Proxy, emit func(mesh.ProxyID, struct{})) {
			h := index.For(r, t.in.RootNamespace(r), p.Workload())
			if len(h.Own())+len(h.Namespace())+len(h.RootOwn())+len(h.Root()) > 0 {
				emit(id, struct{}{})
			}
		})
}

// sources lists the sources that the control plane has to ask for a policy's keys.
func (t *Tables) sources(r *table.Reader, o *config.Object) (out []jwks.Source) {
	for _, rule := range config.Spec[*securityv1beta1.RequestAuthentication](o).GetJwtRules() {
		if rule.GetJwks() != "" {
			continue
		}
		from := sourceOf(rule)
		if _, _, ok := t.byEnvoy(r, from); !ok {
			out = append(out, from)
		}
	}
	return out
}

// sourceOf returns where the keys of a rule come from, if the rule does not contain them.
func sourceOf(rule *securityv1beta1.JWTRule) jwks.Source {
	from := jwks.Source{URI: rule.GetJwksUri(), Timeout: usualTry}
	if d := rule.GetTimeout().AsDuration(); d > 0 {
		from.Timeout = min(d, longestTry)
	}
	if from.URI == "" {
		from.Issuer = rule.GetIssuer()
	}
	return from
}

// keys returns the keys of a rule, and adds to v what proxies need to get them.
func (t *Tables) keys(r *table.Reader, o *config.Object, i int, rule *securityv1beta1.JWTRule, v *verification) authentication.Keys {
	if rule.GetJwks() != "" {
		return t.ownKeys(r, o, i, rule.GetJwks())
	}
	from, field := sourceOf(rule), fmt.Sprintf("spec.jwtRules[%d].jwksUri", i)
	if from.URI == "" {
		field = fmt.Sprintf("spec.jwtRules[%d].issuer", i)
	} else if keys, need, ok := t.byEnvoy(r, from); ok {
		if need == (mesh.ClusterKey{}) {
			r.Note(o.Problem(field, code.NoKeys, mesh.Error,
				"the mesh knows no service of this address, and proxies are to fetch keys themselves (PILOT_JWT_ENABLE_REMOTE_JWKS): "+
					"every token that is shown by this rule is refused",
				"write a ServiceEntry for the host, or have the control plane fetch keys where no service is known (hybrid)"))
			return authentication.Keys{Local: jwks.UnmatchableKeySet()}
		}
		v.needs = append(v.needs, need)
		return keys
	}
	answer, _ := table.Get(r, t.in.KeySets.Table, from)
	switch {
	case answer.Keys == "":
		r.Note(o.Problem(field, code.NoKeys, mesh.Error,
			"the keys of "+strconv.Quote(from.String())+" cannot be fetched, so every token for this rule is refused: "+
				cmp.Or(answer.Failing, "keys are not fetched here"),
			"make the address answer the control plane with a JSON Web Key Set, or write the keys into jwks"))
	case answer.Failing != "":
		r.Note(o.Problem(field, code.StaleKeys, mesh.Warning,
			fmt.Sprintf("the keys of %q cannot be fetched again, so those of %s stay in force: %s",
				from, answer.Good.UTC().Format(time.RFC3339), answer.Failing),
			"make the address answer the control plane with a JSON Web Key Set"))
	}
	return authentication.Keys{Local: cmp.Or(answer.Keys, jwks.UnmatchableKeySet())}
}

// ownKeys returns the keys that a rule contains.
func (t *Tables) ownKeys(r *table.Reader, o *config.Object, i int, set string) authentication.Keys {
	keys, err := jwks.ParseOwn([]byte(set))
	if err == nil {
		set, err = jwks.Text(keys)
	}
	if err != nil {
		r.Note(o.Problem(fmt.Sprintf("spec.jwtRules[%d].jwks", i), code.NoKeys, mesh.Error,
			"the set cannot be used, so every token that is shown by this rule is refused: "+err.Error(),
			"write a JSON Web Key Set with RSA keys of 1024 bits or more, EC keys (P-256, P-384, P-521) or Ed25519 keys"))
		set = jwks.UnmatchableKeySet()
	}
	return authentication.Keys{Local: set}
}

// byEnvoy returns how proxies fetch keys themselves, through the cluster of the service that the address names; false: they do not. If it
// returns true without a cluster, there is no such service, and the control plane may not fetch the keys instead.
func (t *Tables) byEnvoy(r *table.Reader, from jwks.Source) (keys authentication.Keys, need mesh.ClusterKey, ok bool) {
	mode := t.in.KeysBy()
	if mode == input.ControlPlane || from.URI == "" {
		return keys, need, false
	}
	at, err := url.Parse(from.URI)
	if err != nil {
		return keys, need, false // the fetch says so
	}
	port := uint64(443)
	if at.Scheme == "http" {
		port = 80
	}
	if at.Port() != "" {
		if port, err = strconv.ParseUint(at.Port(), 10, 16); err != nil {
			return keys, need, false
		}
	}
	key := mesh.ClusterKey{Host: mesh.Host(at.Hostname()), Port: uint32(port)}
	if !t.serves(r, "", key.Host, key.Port) {
		return keys, need, mode == input.Proxies
	}
	return authentication.Keys{URI: from.URI, Cluster: key.String(), Timeout: from.Timeout, Refresh: t.in.KeysRefresh()}, key, true
}

// authenticate adds the filter of a set's RequestAuthentications.
func (t *Tables) authenticate(r *table.Reader, s Set, to *Filters) {
	var rules []authentication.Rule
	for _, k := range s.Of(config.RequestAuthentication) {
		v, ok := table.Get(r, t.verifications, k)
		if !ok {
			continue
		}
		rules, to.Needs = append(rules, v.rules...), append(to.Needs, v.needs...)
	}
	if f := authentication.Filter(rules); f != nil {
		to.Requests = to.Requests.WithHTTP(listener.Authentication, f)
	}
}
