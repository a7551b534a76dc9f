package exported

import (
	"fmt"
	"hash/fnv"
	"net/netip"
	"strconv"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
	"k8s.io/apimachinery/pkg/util/validation"

	"fairway/internal/compile/registry"
	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// Synthetic is the prefix of the names of ServiceEntries that no user wrote.
const Synthetic = "synthetic-"

// entry builds the ServiceEntry with the facts that registries know of a host.
func (t *Tables) entry(r *table.Reader, k registry.HostKey, m *registry.Merged) *config.Object {
	s := m.Service
	spec := &networking.ServiceEntry{
		Hosts:           []string{string(s.Key.Host)},
		Resolution:      resolutions[s.Resolution],
		Location:        networking.ServiceEntry_MESH_INTERNAL,
		ExportTo:        s.ExportTo,
		SubjectAltNames: s.Identities,
	}
	if s.External {
		spec.Location = networking.ServiceEntry_MESH_EXTERNAL
	}
	for _, a := range s.Addresses {
		if isAddress(a) {
			spec.Addresses = append(spec.Addresses, a)
		}
	}
	names := map[string]bool{}
	for _, p := range s.Ports {
		out := &networking.ServicePort{Number: p.Number, Name: portName(p, names), TargetPort: p.Target}
		if p.Protocol != mesh.Unknown {
			out.Protocol = p.Protocol.String()
		}
		spec.Ports = append(spec.Ports, out)
	}
	if to := t.in.AliasHost(r, s.Key); to != "" {
		spec.Resolution = networking.ServiceEntry_DNS
		spec.Endpoints = []*networking.WorkloadEntry{{Address: string(to)}}
	} else if s.Resolution == mesh.ClientSide || s.Resolution == mesh.DNS || s.Resolution == mesh.DNSRoundRobin {
		t.endpoints(r, k, s, spec)
	}
	key := config.Key{Kind: config.ServiceEntry, Namespace: k.Namespace, Name: entryName(k.Host)}
	return &config.Object{
		Key: key, Created: s.Created, Spec: spec,
		Ref: mesh.ObjectRef{Kind: s.Key.Registry, Namespace: k.Namespace, Name: string(k.Host)},
	}
}

// endpoints adds the endpoints of the host, except those of ServiceEntries with its name, which are exported themselves.
func (t *Tables) endpoints(r *table.Reader, k registry.HostKey, s *mesh.Service, spec *networking.ServiceEntry) {
	rows, _ := table.Get(r, t.reg.EndpointsByHost, k)
	for of, e := range rows.All() {
		if of.Service.Registry == registry.ServiceEntryRegistry || e.Health != mesh.Healthy {
			continue
		}
		spec.Endpoints = append(spec.Endpoints, endpoint(s, spec, e))
	}
	if s.Resolution == mesh.DNSRoundRobin && len(spec.Endpoints) > 1 { // it takes only one
		spec.Resolution = networking.ServiceEntry_DNS
	}
}

func endpoint(s *mesh.Service, spec *networking.ServiceEntry, e mesh.Endpoint) *networking.WorkloadEntry {
	out := &networking.WorkloadEntry{
		Address: e.Address, Labels: e.Labels.Map(), Network: e.Network, Locality: e.Locality.String(), Weight: e.Weight,
		ServiceAccount: e.Identity,
	}
	for i, p := range s.Ports {
		on, has := e.Ports.Get(p.Name)
		n, err := strconv.ParseUint(on, 10, 16)
		if !has || err != nil || n == 0 {
			continue
		}
		if out.Ports == nil {
			out.Ports = map[string]uint32{}
		}
		out.Ports[spec.Ports[i].Name] = uint32(n)
	}
	if mode, said := out.Labels[mesh.TLSModeLabel]; e.MTLS != mesh.TakesMutual(mode, said, e.Identity) {
		if out.Labels == nil {
			out.Labels = map[string]string{}
		}
		if out.Labels[mesh.TLSModeLabel] = "disabled"; e.MTLS {
			out.Labels[mesh.TLSModeLabel] = "istio"
		}
	}
	return out
}

var resolutions = map[mesh.Resolution]networking.ServiceEntry_Resolution{
	mesh.ClientSide:    networking.ServiceEntry_STATIC,
	mesh.Passthrough:   networking.ServiceEntry_NONE,
	mesh.DNS:           networking.ServiceEntry_DNS,
	mesh.DNSRoundRobin: networking.ServiceEntry_DNS_ROUND_ROBIN,
	mesh.DynamicDNS:    networking.ServiceEntry_DYNAMIC_DNS,
}

// isAddress reports whether a ServiceEntry takes an address: an IP or a CIDR.
func isAddress(a string) bool {
	if _, err := netip.ParseAddr(a); err == nil {
		return true
	}
	_, err := netip.ParsePrefix(a)
	return err == nil
}

// portName returns the port's name. If it is empty or taken, the name is made of the port's protocol and number.
func portName(p mesh.Port, taken map[string]bool) string {
	name := p.Name
	if name == "" || taken[name] {
		name = strings.ToLower(p.Protocol.String()) + "-" + strconv.FormatUint(uint64(p.Number), 10)
	}
	taken[name] = true
	return name
}

// entryName returns the name of the ServiceEntry of a host. If the host cannot be part of a name, its hash is used instead.
func entryName(h mesh.Host) string {
	name := Synthetic + string(h)
	if len(validation.IsDNS1123Subdomain(name)) == 0 {
		return name
	}
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(h))
	return fmt.Sprintf("%s%016x", Synthetic, sum.Sum64())
}
