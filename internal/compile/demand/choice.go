package demand

import (
	"cmp"
	"fmt"
	"slices"

	"fairway/internal/compile/vouch"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
)

// This file limits the number of variants that the proxies of one owner choose by their own claims: by labels that no object gives to them,
// and by metadata and a version that patches match. mesh.Traits and the register of proxies limit variants that do not depend on rules.

// choice is one variant that an owner's proxies choose. text describes all of it: the values that follow the proxy's claims, and what only
// the proxy claims, because each combination of these is a variant.
type choice struct{ owner, text string }

func compareChoice(a, b choice) int {
	return cmp.Or(cmp.Compare(a.owner, b.owner), cmp.Compare(a.text, b.text))
}

// chooser is a proxy that makes a choice. The proxies that came first are first in order.
type chooser struct {
	since uint64
	id    mesh.ProxyID
}

func compareChooser(a, b chooser) int {
	return cmp.Or(cmp.Compare(a.since, b.since), cmp.Compare(a.id, b.id))
}

// choices are the tables that bound choices.
type choices struct {
	most    int                             // choices of one owner
	reduced *table.Table[chooser, struct{}] // proxies with choices beyond the most that their owner may have
}

// declareChoices declares the tables. Most proxies choose nothing, and have no row in any.
func (t *Tables) declareChoices() {
	made := table.Derive(t.who.Proxies, "choices", compareChooser, table.Same[choice],
		func(r *table.Reader, id mesh.ProxyID, p vouch.Proxy, emit func(chooser, choice)) {
			if p.Owner == "" {
				return
			}
			if of := t.chosenBy(r, p); of != "" {
				emit(chooser{p.Since, id}, choice{p.Owner, fmt.Sprintf("%s%#v", of, t.who.Claims(r, p.Proxy))})
			}
		})
	by := table.Index(made, "choices/proxies", compareChoice, func(_ chooser, c choice) []choice { return []choice{c} })
	first := table.Derive(by, "choices/first", compareChoice, table.Same[chooser],
		func(_ *table.Reader, c choice, by table.Rows[chooser, struct{}], emit func(choice, chooser)) {
			first, _, _ := by.First()
			emit(c, first)
		})
	owners := table.Group(first, "choices/owners", cmp.Compare[string], func(c choice, _ chooser) []string { return []string{c.owner} })
	excess := table.Derive(owners, "choices/excess", compareChoice, table.Same[struct{}],
		func(_ *table.Reader, _ string, of table.Rows[choice, chooser], emit func(choice, struct{})) {
			if of.Len() <= t.most {
				return // as for every honest owner
			}
			var all []choice
			since := map[choice]chooser{}
			for c, first := range of.All() {
				all, since[c] = append(all, c), first
			}
			slices.SortFunc(all, func(a, b choice) int { return compareChooser(since[a], since[b]) })
			for _, c := range all[t.most:] {
				emit(c, struct{}{})
			}
		})
	t.choices.reduced = table.Derive(made, "choices/reduced", compareChooser, table.Same[struct{}],
		func(r *table.Reader, by chooser, c choice, emit func(chooser, struct{})) {
			if table.Has(r, excess, c) {
				emit(by, struct{}{})
			}
		})
}

// chosenBy returns what a proxy chooses by its own claims; empty: nothing. Labels of a proxy that proved its identity are not such claims.
func (t *Tables) chosenBy(r *table.Reader, p vouch.Proxy) (out string) {
	labelled := p.Standing != mesh.Proven && p.Labels != ""
	for _, s := range t.sources {
		out += s.choice(r, p, labelled)
	}
	if !labelled {
		return out
	}
	if l := t.layerOf(r, p); l.Clients != "" || l.Name != "" {
		out += fmt.Sprintf("layer=%q %q ", l.Name, l.Clients)
	}
	return out
}

// excessive reports whether a proxy's choice does not count, because its owner has made too many before.
func (t *Tables) excessive(r *table.Reader, id mesh.ProxyID, p vouch.Proxy) bool {
	return p.Owner != "" && table.Has(r, t.choices.reduced, chooser{p.Since, id})
}

// mute returns the proxy without its own claims.
func mute(p vouch.Proxy) vouch.Proxy {
	p.Metadata, p.Version = "", ""
	if p.Standing != mesh.Proven {
		p.Labels, p.AllLabels = "", ""
	}
	return p
}

// Reduced returns the number of connected proxies with choices that do not count.
func (t *Tables) Reduced(tx *table.Tx) int { return table.Len(tx, t.choices.reduced) }

// tooMany returns the problem of proxies with claims that do not count: one problem for each service account, or for each namespace of
// proxies in plaintext.
func (t *Tables) tooMany(p vouch.Proxy) mesh.Problem {
	return mesh.Problem{
		Object: AccountOf(p), Code: code.TooManyVariants, Severity: mesh.Warning,
		Message: "its proxies say too many different things of themselves (localities, networks, clusters, settings of requests and " +
			"spans, metadata and versions that EnvoyFilters match, labels in plaintext): those that connected last get the mesh's " +
			"defaults, with what registries know of their workloads",
		Fix: fmt.Sprintf("at most %d different combinations of one service account, or of one address in plaintext, count: give groups of "+
			"proxies a service account of their own, or the same ProxyConfig, or set --maxVariantsPerIdentity", t.most),
	}
}
