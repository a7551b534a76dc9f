package registry

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/compile/input"
	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
)

func (t *Tables) declareServices() {
	t.Services = table.Derive(t.in.Naming, "services", mesh.CompareServiceKey, (*mesh.Service).Equal,
		func(r *table.Reader, _ input.SourceKey, s input.Source, emit func(mesh.ServiceKey, *mesh.Service)) {
			switch {
			case s.Service != nil:
				emit(s.Service.Key, t.registered(r, s.Service))
			case isServiceEntry(s.Object):
				t.entryServices(r, s.Object, emit)
			case isPool(s.Object):
				emit(poolKey(s.Object), poolService(s.Object))
			}
		})
	t.Declared = table.Group(t.Services, "services/host", CompareHostKey, func(k mesh.ServiceKey, _ *mesh.Service) []HostKey {
		return []HostKey{{k.Host, k.Namespace}}
	})
	t.Merged = table.Derive(t.Declared, "merged", CompareHostKey, sameMerged,
		func(r *table.Reader, k HostKey, rows table.Rows[mesh.ServiceKey, *mesh.Service], emit func(HostKey, *Merged)) {
			m := t.merge(r, rows)
			m.Service = t.limited(r, m.Service)
			emit(k, m)
		})
	t.ServicesByHost = table.Group(t.Merged, "merged/host", cmp.Compare[mesh.Host], func(k HostKey, _ *Merged) []mesh.Host {
		return []mesh.Host{k.Host}
	})
	t.declareOverlaps()
}

func sameMerged(a, b *Merged) bool {
	return a.Service.Equal(b.Service) && slices.Equal(a.Parts, b.Parts)
}

// registered returns a registry's service with the mesh's default visibility, and without invalid ports: it has not been validated yet.
func (t *Tables) registered(r *table.Reader, s *mesh.Service) *mesh.Service {
	bad := slices.ContainsFunc(s.Ports, badPort)
	if len(s.ExportTo) > 0 && !bad {
		return s
	}
	copied := *s
	if len(s.ExportTo) == 0 {
		copied.ExportTo = t.in.ExportTo(r, "Service", nil)
	}
	if bad {
		copied.Ports = slices.DeleteFunc(slices.Clone(s.Ports), badPort)
		for _, p := range s.Ports {
			if badPort(p) {
				r.Note(mesh.Problem{
					Object:   originOf(s),
					Field:    "ports",
					Code:     code.BadPort,
					Severity: mesh.Error,
					Message: fmt.Sprintf("port %d of host %s, with target %d, is left out: ports are numbers from 1 to 65535",
						p.Number, s.Key.Host, p.Target),
				})
			}
		}
	}
	return &copied
}

// badPort reports whether a port or its target is out of range.
func badPort(p mesh.Port) bool { return p.Number == 0 || p.Number > 65535 || p.Target > 65535 }

// entryServices emits a service for each host of a ServiceEntry.
func (t *Tables) entryServices(r *table.Reader, o *config.Object, emit func(mesh.ServiceKey, *mesh.Service)) {
	spec := config.Spec[*networking.ServiceEntry](o)
	exportTo := t.visible(r, o, t.in.ExportTo(r, o.Kind, spec.GetExportTo()))
	ports, addresses := entryPorts(spec), t.addresses(r, o)
	from := config.Namespaces(o.Annotations[config.RulesFromAnnotation])
	for _, host := range entryHosts(spec) {
		emit(entryKey(o, host), &mesh.Service{
			Key:        entryKey(o, host),
			Ports:      ports,
			Addresses:  addresses,
			Resolution: resolution(spec.GetResolution()),
			External:   spec.GetLocation() == networking.ServiceEntry_MESH_EXTERNAL,
			ExportTo:   exportTo,
			Identities: spec.GetSubjectAltNames(),
			Created:    o.Created,
			Origin:     o.Ref,
			RulesFrom:  from,
		})
	}
}

// visible returns the part of an entry's visibility that the mesh grants its namespace (MeshConfig.serviceEntryVisibility). It only
// narrows.
func (t *Tables) visible(r *table.Reader, o *config.Object, exportTo []string) []string {
	granted := t.in.EntryVisibility(r, o.Namespace)
	if granted == meshconfig.ServiceEntryVisibility_PUBLIC || slices.Equal(exportTo, nowhere) {
		return exportTo
	}
	here := slices.ContainsFunc(exportTo, func(to string) bool { return to == "*" || to == "." || to == o.Namespace })
	if granted == meshconfig.ServiceEntryVisibility_NAMESPACE && here {
		if !slices.Equal(exportTo, []string{"."}) && !slices.Equal(exportTo, []string{o.Namespace}) {
			r.Note(o.Problem("spec.exportTo", code.NotExported, mesh.Info,
				"the mesh's serviceEntryVisibility keeps entries of this namespace to itself", "set exportTo to [\".\"]"))
		}
		return []string{"."}
	}
	r.Note(o.Problem("spec.exportTo", code.NotExported, mesh.Warning,
		"the mesh's serviceEntryVisibility allows none of the namespaces that this entry is exported to",
		"ask the administrator of the mesh to grant the namespace more"))
	return nowhere
}

// nowhere is the visibility of services that no namespace sees.
var nowhere = []string{"~"}

func entryKey(o *config.Object, host mesh.Host) mesh.ServiceKey {
	return mesh.ServiceKey{Host: host, Namespace: o.Namespace, Registry: ServiceEntryRegistry, Object: o.Name}
}

// entryHosts lists the hosts of a ServiceEntry in lower case, each once.
func entryHosts(spec *networking.ServiceEntry) []mesh.Host {
	var hosts []mesh.Host
	for _, h := range spec.GetHosts() {
		host := mesh.Host(strings.ToLower(h))
		if !slices.Contains(hosts, host) {
			hosts = append(hosts, host)
		}
	}
	return hosts
}

func entryPorts(spec *networking.ServiceEntry) []mesh.Port {
	ports := make([]mesh.Port, 0, len(spec.GetPorts()))
	for _, p := range spec.GetPorts() {
		protocol, _ := mesh.ParseProtocol(p.GetProtocol())
		ports = append(ports, mesh.Port{Name: p.GetName(), Number: p.GetNumber(), Target: p.GetTargetPort(), Protocol: protocol})
	}
	slices.SortStableFunc(ports, func(a, b mesh.Port) int { return cmp.Compare(a.Number, b.Number) })
	return slices.CompactFunc(ports, func(a, b mesh.Port) bool { return a.Number == b.Number })
}

func resolution(r networking.ServiceEntry_Resolution) mesh.Resolution {
	switch r {
	case networking.ServiceEntry_STATIC:
		return mesh.ClientSide
	case networking.ServiceEntry_DNS:
		return mesh.DNS
	case networking.ServiceEntry_DNS_ROUND_ROBIN:
		return mesh.DNSRoundRobin
	case networking.ServiceEntry_DYNAMIC_DNS:
		return mesh.DynamicDNS
	}
	return mesh.Passthrough
}

// merge makes one service of all that declare a host in a namespace. A loser that is resolved in the same way adds the ports that the
// winner lacks.
func (t *Tables) merge(r *table.Reader, rows table.Rows[mesh.ServiceKey, *mesh.Service]) *Merged {
	all := make([]*mesh.Service, 0, rows.Len())
	for _, s := range rows.All() {
		all = append(all, s)
	}
	slices.SortFunc(all, t.comparePrecedence)
	m, parts := &Merged{Service: all[0], Parts: []mesh.ServiceKey{all[0].Key}}, all[:1:1]
	for _, s := range all[1:] {
		added := 0
		if s.Resolution == m.Service.Resolution {
			added = m.add(s)
			parts = append(parts, s)
		}
		if !oneAcrossClusters(s, all[0]) {
			r.Note(sameHost(s, all[0], added))
		} else {
			noteDiffering(r, s, all[0])
		}
	}
	t.acrossClusters(r, m, parts)
	return m
}

// add adds a loser: its endpoints serve the ports that it declares, and ports that only it has are added. It returns how many.
func (m *Merged) add(s *mesh.Service) int {
	m.Parts = append(m.Parts, s.Key)
	merged := *m.Service
	merged.Ports = slices.Clone(merged.Ports)
	for _, p := range s.Ports {
		if _, taken := merged.Port(p.Number); !taken {
			merged.Ports = append(merged.Ports, p)
		}
	}
	added := len(merged.Ports) - len(m.Service.Ports)
	if added > 0 {
		slices.SortStableFunc(merged.Ports, func(a, b mesh.Port) int { return cmp.Compare(a.Number, b.Number) })
		m.Service = &merged
	}
	return added
}

func sameHost(loser, winner *mesh.Service, added int) mesh.Problem {
	p := mesh.Problem{
		Object:   originOf(loser),
		Other:    originOf(winner),
		Field:    "spec.hosts",
		Code:     code.SameHost,
		Severity: mesh.Info,
		Message: fmt.Sprintf("host %s is declared by %s too, which has precedence; of this one the endpoints and %d more ports are taken",
			loser.Key.Host, originOf(winner), added),
	}
	if loser.Resolution != winner.Resolution {
		p.Severity = mesh.Warning
		p.Message = fmt.Sprintf("host %s is declared by %s too, with another resolution: that one has precedence, and this one is not used",
			loser.Key.Host, originOf(winner))
		p.Fix = "declare the host once in a namespace"
	}
	return p
}

// originOf names a service's object; a registry's service that has none is named by its key.
func originOf(s *mesh.Service) mesh.ObjectRef {
	if s.Origin != (mesh.ObjectRef{}) {
		return s.Origin
	}
	return mesh.ObjectRef{Kind: s.Key.Registry, Namespace: s.Key.Namespace, Name: string(s.Key.Host)}
}

// declareOverlaps notes public services that lose their host to another namespace's service, for clients of all other namespaces.
func (t *Tables) declareOverlaps() {
	several := func(_ mesh.Host, rows table.Rows[HostKey, *Merged]) bool { return rows.Len() > 1 }
	table.DeriveWhere(t.ServicesByHost, several, "overlaps", cmp.Compare[mesh.Host], table.Same[struct{}],
		func(r *table.Reader, _ mesh.Host, rows table.Rows[HostKey, *Merged], _ func(mesh.Host, struct{})) {
			var public []*mesh.Service
			for _, m := range rows.All() {
				if m.Service.VisibleIn("") {
					public = append(public, m.Service)
				}
			}
			slices.SortFunc(public, Before)
			for i := 1; i < len(public); i++ {
				r.Note(
					mesh.Problem{
						Object:   originOf(public[i]),
						Other:    originOf(public[0]),
						Field:    "spec.hosts",
						Code:     code.HostOfOtherNamespace,
						Severity: mesh.Info,
						Message: fmt.Sprintf(
							"host %s is declared by %s too, which clients of other namespaces use; this one serves namespace %s alone",
							public[i].Key.Host, originOf(public[0]), public[i].Key.Namespace),
					},
				)
			}
		})
}
