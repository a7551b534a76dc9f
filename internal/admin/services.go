package admin

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"time"

	"fairway/internal/admin/page"
	"fairway/internal/compile/registry"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// servicez shows all hosts, or one, with each registry's version of them.
func (p *Pages) servicez(w http.ResponseWriter, r *http.Request) {
	only := mesh.Host(strings.ToLower(r.URL.Query().Get("host")))
	out := []page.HostInfo{}
	p.Graph.Store.Read(func(tx *table.Tx) {
		if only != "" {
			rows, _ := table.Lookup(tx, p.Graph.Registry.ServicesByHost, only)
			for k, m := range rows.All() {
				if viewerOf(r).sees(k.Namespace) {
					out = append(out, p.hostInfo(tx, k, m))
				}
			}
			return
		}
		for k, m := range table.Each(tx, p.Graph.Registry.Merged) {
			if viewerOf(r).sees(k.Namespace) {
				out = append(out, p.hostInfo(tx, k, m))
			}
		}
	})
	slices.SortFunc(out, func(a, b page.HostInfo) int {
		return cmp.Or(cmp.Compare(a.Hostname, b.Hostname), cmp.Compare(a.Namespace, b.Namespace))
	})
	writeJSON(w, out)
}

func (p *Pages) hostInfo(tx *table.Tx, k registry.HostKey, m *registry.Merged) page.HostInfo {
	out := page.HostInfo{Hostname: k.Host, Namespace: k.Namespace, Ports: portInfos(m.Service)}
	endpoints := map[mesh.ServiceKey][]page.EndpointInfo{}
	rows, _ := table.Lookup(tx, p.Graph.Registry.EndpointsByHost, k)
	for at, e := range rows.All() {
		endpoints[at.Service] = append(endpoints[at.Service], endpointInfo(at.ID, e))
	}
	declared, _ := table.Lookup(tx, p.Graph.Registry.Declared, k)
	var all []*mesh.Service
	for _, s := range declared.All() {
		all = append(all, s)
	}
	place := func(key mesh.ServiceKey) int {
		if i := slices.Index(m.Parts, key); i >= 0 {
			return i
		}
		return len(m.Parts)
	}
	slices.SortFunc(all, func(a, b *mesh.Service) int {
		return cmp.Or(cmp.Compare(place(a.Key), place(b.Key)), mesh.CompareServiceKey(a.Key, b.Key))
	})
	for _, s := range all {
		key := s.Key
		part := page.HostPart{
			Registry: key.Registry, Name: key.Object, Object: p.Graph.WithPlace(tx, s.Origin), Used: place(key) < len(m.Parts),
			Ports: portInfos(s), Endpoints: endpoints[key],
		}
		if p.Origin != nil {
			if from, ok := p.Origin(key); ok {
				part.State, part.Since, part.Detail, part.Changed = from.Phase, instant(from.Since), from.Detail, instant(from.Changed)
			}
		}
		out.Parts = append(out.Parts, part)
	}
	return out
}

// instant returns a time to show; nil: there is none.
func instant(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC().Truncate(time.Millisecond)
	return &t
}
