package registry

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
)

// This file decides what a ServiceEntry, or a Service without an address, cannot take from other namespaces: names of their Services, their
// addresses, and whole ports. These count only for clients of the object's own namespace. Objects of the root namespace count for all
// clients.

// anyNamespace is the owner of a name that belongs to no single namespace.
const anyNamespace = "*"

// ownerOf returns the namespace that owns the name of a Service: "checkout.shop" if there is such a Service, "checkout.shop.svc", and names
// and wildcards below these. It returns anyNamespace for a name without a namespace, and "" for a name that is not a Service's.
func (t *Tables) ownerOf(r *table.Reader, host mesh.Host) string {
	name := strings.TrimSuffix(string(host), ".")
	if name == "*" {
		return ""
	}
	name = strings.TrimPrefix(name, "*.")
	for _, suffix := range [...]string{"svc." + t.in.DomainSuffix(), "svc.cluster.local", "svc.clusterset.local", "svc"} {
		local, ok := strings.CutSuffix(name, suffix)
		if !ok || local != "" && !strings.HasSuffix(local, ".") {
			continue
		}
		if local = strings.TrimSuffix(local, "."); local == "" {
			return anyNamespace
		}
		return local[strings.LastIndexByte(local, '.')+1:]
	}
	labels := strings.Split(name, ".")
	if len(labels) == 1 {
		if host.IsWildcard() {
			return "" // a wildcard of all names of a top-level domain: exact names go first
		}
		return anyNamespace
	}
	short := labels[len(labels)-2:]
	full := mesh.Host(short[0] + "." + short[1] + ".svc." + t.in.DomainSuffix())
	if table.Has(r, t.Declared, HostKey{full, short[1]}) {
		return short[1]
	}
	return ""
}

// Foreign reports whether a host, as an object of a namespace writes it, is a name of another namespace. Objects of the root namespace may
// write all names.
func (t *Tables) Foreign(r *table.Reader, host mesh.Host, namespace string) bool {
	owner := t.ownerOf(r, host)
	return owner != "" && owner != namespace && namespace != t.in.RootNamespace(r)
}

// limited returns a ServiceEntry's service, limited to its own namespace if its host is another namespace's name, and notes that.
func (t *Tables) limited(r *table.Reader, s *mesh.Service) *mesh.Service {
	if s.Key.Registry != ServiceEntryRegistry || !visibleElsewhere(s) || !t.Foreign(r, s.Key.Host, s.Key.Namespace) {
		return s
	}
	r.Note(mesh.Problem{
		Object: originOf(s), Field: "spec.hosts", Code: code.OwnNamespaceOnly, Severity: mesh.Warning,
		Message: fmt.Sprintf("%s is not a name of namespace %s: it counts only for clients of namespace %s",
			s.Key.Host, s.Key.Namespace, s.Key.Namespace),
		Fix: "write a host of a domain of your own, or write the ServiceEntry in the namespace of the Service or in the root namespace",
	})
	copied := *s
	copied.ExportTo = OnlyOwn(s.ExportTo, s.Key.Namespace)
	return &copied
}

// OnlyOwn returns the exportTo list that remains if only the object's own namespace counts.
func OnlyOwn(exportTo []string, namespace string) []string {
	if mesh.Exported(exportTo, namespace, namespace) {
		return []string{"."}
	}
	return nowhere
}

// visibleElsewhere reports whether clients of other namespaces see a service.
func visibleElsewhere(s *mesh.Service) bool {
	return s.VisibleIn("") || slices.ContainsFunc(s.ExportTo, func(to string) bool {
		return to != "." && to != "~" && to != s.Key.Namespace
	})
}

// IsHeadless reports whether a service is a headless Service of Kubernetes: clients dial its endpoints' addresses.
func IsHeadless(s *mesh.Service) bool {
	return s.Resolution == mesh.Passthrough && len(s.Addresses) == 0 && IsCluster(s)
}

// TakesPort reports whether connections of a layer's clients to a port, whatever their address, go to a service without an address of its
// own: only clients of its own namespace, or if the root namespace declares it. Services of platforms that are not clusters count for all
// clients, because administrators configure these, unless the mesh is strict. If it is, they count only if administrators assign them to
// the root namespace.
func (t *Tables) TakesPort(r *table.Reader, s *mesh.Service, client string) bool {
	return client == s.Key.Namespace || s.Key.Namespace == t.in.RootNamespace(r) || ofPlatform(s) && !t.in.Strict(r)
}

// NotePort notes that connections of other namespaces to a port lead, or do not lead, to a service without an address.
func (t *Tables) NotePort(r *table.Reader, s *mesh.Service, port uint32, client string) {
	switch {
	case client == s.Key.Namespace || s.Key.Namespace == t.in.RootNamespace(r):
	case ofPlatform(s) && !t.in.Strict(r):
		r.Note(portOfAll(s, port))
	case ofPlatform(s) || s.Key.Registry == ServiceEntryRegistry:
		r.Note(portOnlyOwn(s, port))
	}
	// A cluster's Service takes no port of all addresses. Without interception, clients reach it by its name.
}

// PortPassedOn returns the problem of a port of an ExternalName Service: proxies cannot recognize connections to it, which carry no name.
func PortPassedOn(s *mesh.Service, port uint32, allowed bool) mesh.Problem {
	p := mesh.Problem{
		Object: originOf(s), Field: "spec.ports", Code: code.NoAddress, Severity: mesh.Info,
		Message: fmt.Sprintf("connections to port %d carry no name, and %s has no address to tell them by: they go to the address that "+
			"the client dialed, and rules for the Service do not apply to them", port, s.Key.Host),
		Fix: "write a ServiceEntry for the host of spec.externalName, if rules are to apply; name the port after its protocol " +
			"(https, tls-..., http-...), if it carries one of these",
	}
	if !allowed {
		p.Severity = mesh.Warning
		p.Message = fmt.Sprintf("connections to port %d carry no name, and %s has no address to tell them by: outboundTrafficPolicy "+
			"(REGISTRY_ONLY) closes them", port, s.Key.Host)
		p.Fix = strings.Replace(p.Fix, "rules are to apply", "clients are to reach it", 1)
	}
	return p
}

// ofPlatform reports whether a service is of a registry that is not a cluster, as Consul.
func ofPlatform(s *mesh.Service) bool { return s.Key.Registry != ServiceEntryRegistry && !IsCluster(s) }

// portOfAll is the problem of a platform's service that takes a port for every namespace.
func portOfAll(s *mesh.Service, port uint32) mesh.Problem {
	return mesh.Problem{
		Object: originOf(s), Field: "spec.ports", Code: code.OwnNamespaceOnly, Severity: mesh.Info,
		Message: fmt.Sprintf("connections to port %d cannot be recognized by an address of %s, which has none: clients of every "+
			"namespace are "+
			"led to it by the port; with %s: strict in MeshConfig only clients of namespace %s are", port, s.Key.Host, config.OwnershipKey,
			s.Key.Namespace),
		Fix: "nothing, if that is meant: give the registry the root namespace, so that it stays so; else set " +
			config.OwnershipKey + ": strict",
	}
}

// TakesAddress reports whether connections of a namespace's clients to an address go to a service that declares it. An
// address that a cluster's Service or its endpoint has is not a ServiceEntry's of another namespace.
func (t *Tables) TakesAddress(r *table.Reader, s *mesh.Service, address, client string) bool {
	if s.Key.Registry != ServiceEntryRegistry || client == s.Key.Namespace {
		return true
	}
	return t.holder(r, s, address) == "" || s.Key.Namespace == t.in.RootNamespace(r)
}

// holder names the Service of another namespace that has an address, or has an endpoint with it; empty: there is none.
func (t *Tables) holder(r *table.Reader, s *mesh.Service, address string) mesh.Host {
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return ""
	}
	if shared, several := table.Get(r, t.Shared, ip.String()); several {
		if host := shared.holder(s.Key.Namespace); host != "" {
			return host
		}
	} else {
		rows, _ := table.Get(r, t.ByAddress, ip.String())
		for k, m := range rows.All() {
			if k.Namespace != s.Key.Namespace && rank(m.Service.Key.Registry) < 2 {
				return k.Host
			}
		}
	}
	endpoints, _ := table.Get(r, t.EndpointsByAddress, Serving{IP: ip.String()})
	for k := range endpoints.All() {
		if k.Service.Namespace != s.Key.Namespace {
			return k.Service.Host
		}
	}
	return ""
}

// Wide reports whether a range of addresses is so large that it counts as every address.
func Wide(p netip.Prefix) bool {
	if p.Addr().Is4() {
		return p.Bits() < 8
	}
	return p.Bits() < 16
}

// declareForeignAddresses notes the addresses of ServiceEntries that are another namespace's.
func (t *Tables) declareForeignAddresses() {
	reaches := func(_ HostKey, m *Merged) bool {
		return m.Service.Key.Registry == ServiceEntryRegistry && len(m.Service.Addresses) > 0 && visibleElsewhere(m.Service)
	}
	table.DeriveWhere(t.Merged, reaches, "services/own namespace only", CompareHostKey, table.Same[struct{}],
		func(r *table.Reader, _ HostKey, m *Merged, _ func(HostKey, struct{})) { t.noteAddresses(r, m.Service) })
}

// portOnlyOwn returns the problem of a service that gets connections to a port only from clients of its own namespace.
func portOnlyOwn(s *mesh.Service, port uint32) mesh.Problem {
	return mesh.Problem{
		Object: originOf(s), Field: "spec.ports", Code: code.OwnNamespaceOnly, Severity: mesh.Warning,
		Message: fmt.Sprintf("connections to port %d cannot be recognized by an address of %s, which has none: only clients of "+
			"namespace %s "+
			"are led to it by the port, others connect to where they want", port, s.Key.Host, s.Key.Namespace),
		Fix: "give the service an address (spec.addresses), or have proxies resolve names (ISTIO_META_DNS_CAPTURE)",
	}
}

// noteAddresses notes the addresses of a ServiceEntry that a Service of another namespace has.
func (t *Tables) noteAddresses(r *table.Reader, s *mesh.Service) {
	for _, a := range s.Addresses {
		if t.TakesAddress(r, s, a, "") {
			continue
		}
		r.Note(mesh.Problem{
			Object: originOf(s), Field: "spec.addresses", Code: code.OwnNamespaceOnly, Severity: mesh.Warning,
			Message: fmt.Sprintf("%s is the address of %s: connections to it go to %s only for clients of namespace %s",
				a, t.holder(r, s, a), s.Key.Host, s.Key.Namespace),
			Fix: "give the host an address that nothing else has",
		})
	}
}

// IsCluster reports whether a service is a Kubernetes cluster's, whether or not the cluster has a name.
func IsCluster(s *mesh.Service) bool { return strings.HasPrefix(s.Key.Registry, mesh.RegistryOf("")) }
