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

// This file has services that are other names for hosts (Services of type ExternalName), as registries know them. What a
// layer means by such a name is compile/scope's.

// MostAliases is how many names may stand one for the next, before the last is the service itself.
const MostAliases = 8

// Link is a host that something is asked about for the sake of an alias: the alias itself, or one of those that it stands for.
type Link struct {
	Alias HostKey
	Host  mesh.Host
}

// CompareLink orders by alias, then host.
func CompareLink(a, b Link) int {
	return cmp.Or(CompareHostKey(a.Alias, b.Alias), cmp.Compare(a.Host, b.Host))
}

// declareAliases finds which hosts stand for which. All of it begins at what may be an alias, so that other services cost nothing.
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
				if to := t.in.Elsewhere(r, m.Service.Key); to != "" && to != k.Host {
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

// mayBeAlias says whether a service may be of type ExternalName, so that what is none is asked for nothing more.
func mayBeAlias(s *mesh.Service) bool {
	return s.External && s.Resolution == mesh.DNS && s.Key.Cluster() != ""
}

// Alias is the host that a service is another name for; empty: it is none.
func (t *Tables) Alias(r *table.Reader, s *mesh.Service) mesh.Host {
	if s == nil || !mayBeAlias(s) {
		return ""
	}
	to, _ := table.Get(r, t.aliases, KeyOf(s))
	return to
}

// behind lists the hosts that an alias stands for, by whoever declares the names between: to, and those that it stands for.
func (t *Tables) behind(r *table.Reader, alias, to mesh.Host) []mesh.Host {
	out := []mesh.Host{to}
	for next := out; len(next) > 0 && len(out) < MostAliases; {
		at := next
		next = nil
		for _, h := range at {
			for to := range t.standsFor(r, h) {
				if to != alias && !slices.Contains(out, to) {
					out, next = append(out, to), append(next, to)
				}
			}
		}
	}
	return out
}

// noteCircle says of a name that what it stands for leads back to a name before, or on for too long.
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
				p.Message = fmt.Sprintf("it is another name for what stands behind more than %d others: that is not followed", MostAliases)
				p.Fix = "write the name of the service itself"
			}
			r.Note(p)
			return
		}
		next := at
		for h := range t.standsFor(r, at) {
			next = h
			break
		}
		if next == at { // nobody declares it as another name
			return
		}
		at = next
	}
}

// standsFor yields the hosts that a host is another name for, by whoever declares it, in order of their keys.
func (t *Tables) standsFor(r *table.Reader, host mesh.Host) iter.Seq[mesh.Host] {
	return func(yield func(mesh.Host) bool) {
		rows, _ := table.Get(r, t.ServicesByHost, host)
		for k := range rows.All() {
			if to, ok := table.Get(r, t.aliases, k); ok && !yield(to) {
				return
			}
		}
	}
}
