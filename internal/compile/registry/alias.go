package registry

import (
	"cmp"
	"fmt"
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

// declareAliases finds which hosts stand for which.
func (t *Tables) declareAliases() {
	t.aliases = table.Derive(t.Merged, "aliases", CompareHostKey, table.Same[mesh.Host],
		func(r *table.Reader, k HostKey, m *Merged, emit func(HostKey, mesh.Host)) {
			if !mayBeAlias(m.Service) {
				return
			}
			if to := t.in.Elsewhere(r, m.Service.Key); to != "" && to != k.Host {
				emit(k, to)
			}
		})
	t.aliasesTo = table.Group(t.aliases, "aliases/to", cmp.Compare[mesh.Host], func(_ HostKey, to mesh.Host) []mesh.Host {
		return []mesh.Host{to}
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

// Aliases lists the hosts that stand for a host, directly or by others, sorted.
func (t *Tables) Aliases(r *table.Reader, host mesh.Host) (out []mesh.Host) {
	next := []mesh.Host{host}
	for range MostAliases {
		var found []mesh.Host
		for _, h := range next {
			rows, _ := table.Get(r, t.aliasesTo, h)
			for k := range rows.All() {
				if k.Host != host && !slices.Contains(out, k.Host) {
					out, found = append(out, k.Host), append(found, k.Host)
				}
			}
		}
		if next = found; len(next) == 0 {
			break
		}
	}
	slices.Sort(out)
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
		next, found := t.step(r, at)
		if !found {
			return
		}
		at = next
	}
}

// step is what a host stands for; false: nobody declares it as another name.
func (t *Tables) step(r *table.Reader, host mesh.Host) (mesh.Host, bool) {
	rows, _ := table.Get(r, t.ServicesByHost, host)
	for k := range rows.All() {
		if to, ok := table.Get(r, t.aliases, k); ok {
			return to, true
		}
	}
	return "", false
}
