package registry

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"

	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
)

// This file has services that are other names for hosts (Services of type ExternalName), as registries know them. compile/scope resolves
// such a name for a layer.

// MostAliases is the length of the longest chain of aliases that is followed to a service.
const MostAliases = 8

// Link is a host that matters to an alias: the alias itself, or a host that it leads to.
type Link struct {
	Alias HostKey
	Host  mesh.Host
}

// CompareLink orders by alias, then host.
func CompareLink(a, b Link) int {
	return cmp.Or(CompareHostKey(a.Alias, b.Alias), cmp.Compare(a.Host, b.Host))
}

// declareAliases finds the hosts that aliases lead to. It starts at services that may be aliases, so that other services cost nothing.
func (t *Tables) declareAliases() {
	candidates := table.Group(t.Merged, "aliases/candidates", CompareHostKey, func(k HostKey, m *Merged) []HostKey {
		if !mayBeAlias(m.Service) {
			return nil
		}
		return []HostKey{k}
	})
	t.aliases = table.Derive(candidates, "aliases", CompareHostKey, table.Same[mesh.Host],
		func(r *table.Reader, k HostKey, rows table.Rows[HostKey, *Merged], emit func(HostKey, mesh.Host)) {
			for _, m := range rows.All() {
				if to := t.in.AliasHost(r, m.Service.Key); to != "" && to != k.Host {
					emit(k, to)
				}
			}
		})
	t.Links = table.Derive(t.aliases, "aliases/links", CompareLink, table.Same[struct{}],
		func(r *table.Reader, k HostKey, to mesh.Host, emit func(Link, struct{})) {
			emit(Link{k, k.Host}, struct{}{})
			for _, h := range t.behind(r, k.Host, to) {
				emit(Link{k, h}, struct{}{})
			}
		})
	table.Derive(t.aliases, "aliases in circles", CompareHostKey, table.Same[struct{}],
		func(r *table.Reader, k HostKey, to mesh.Host, _ func(HostKey, struct{})) {
			t.noteCircle(r, k, to)
		})
}

// mayBeAlias reports whether a service may be of type ExternalName. Other services need no further look-up.
func mayBeAlias(s *mesh.Service) bool {
	return s.External && s.Resolution == mesh.DNS && s.Key.Cluster() != ""
}

// Alias returns the host that a service is another name for; empty: it is not an alias.
func (t *Tables) Alias(r *table.Reader, s *mesh.Service) mesh.Host {
	if s == nil || !mayBeAlias(s) {
		return ""
	}
	to, _ := table.Get(r, t.aliases, KeyOf(s))
	return to
}

// behind lists the hosts that an alias leads to: to, and those that it leads to, whichever namespaces declare the names between.
func (t *Tables) behind(r *table.Reader, alias, to mesh.Host) []mesh.Host {
	out := []mesh.Host{to}
	for next := out; len(next) > 0 && len(out) < MostAliases; {
		at := next
		next = nil
		for _, h := range at {
			for to := range t.aliasTargets(r, h) {
				if to != alias && !slices.Contains(out, to) {
					out, next = append(out, to), append(next, to)
				}
			}
		}
	}
	return out
}

// noteCircle notes an alias that leads back to an earlier name, or has too long a chain behind it.
func (t *Tables) noteCircle(r *table.Reader, k HostKey, to mesh.Host) {
	passed := []string{string(k.Host)}
	for at := to; ; {
		passed = append(passed, string(at))
		circle := slices.Contains(passed[:len(passed)-1], string(at))
		if circle || len(passed) > MostAliases+1 {
			m, _ := table.Get(r, t.Merged, k)
			p := mesh.Problem{
				Object: originOf(m.Service), Field: "spec.externalName", Code: code.BadValue, Severity: mesh.Warning,
				Message: "it is another name for none of them: the names go round in a circle: " + strings.Join(passed, ", "),
				Fix:     "have one of them lead to a service, or to a host outside",
			}
			if !circle {
				p.Message = fmt.Sprintf("it is another name at the end of more than %d others: so long a chain is not "+
					"followed", MostAliases)
				p.Fix = "write the name of the service itself"
			}
			r.Note(p)
			return
		}
		next := at
		for h := range t.aliasTargets(r, at) {
			next = h
			break
		}
		if next == at { // no service declares it as another name
			return
		}
		at = next
	}
}

// aliasTargets yields the hosts that a host is declared as another name for, in any namespace, in order of the declaring services' keys.
func (t *Tables) aliasTargets(r *table.Reader, host mesh.Host) iter.Seq[mesh.Host] {
	return func(yield func(mesh.Host) bool) {
		rows, _ := table.Get(r, t.ServicesByHost, host)
		for k := range rows.All() {
			if to, ok := table.Get(r, t.aliases, k); ok && !yield(to) {
				return
			}
		}
	}
}
