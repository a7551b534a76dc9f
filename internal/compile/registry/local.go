package registry

import (
	"fmt"
	"slices"
	"strconv"

	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/printable"
	"fairway/internal/table"
)

// declareLocals indexes the endpoints with addresses that lead to the connecting client's own machine or link: hardly any service has some.
func (t *Tables) declareLocals() {
	t.locals = table.Keys(t.Endpoints, "endpoints/local", CompareHostKey, func(k mesh.EndpointKey, e mesh.Endpoint) []HostKey {
		if mesh.ReachOf(e.Address) == mesh.Anywhere {
			return nil
		}
		return []HostKey{{k.Service.Host, k.Service.Namespace}}
	}).SkipInOrigins()
}

// HasLocal reports whether a host has endpoints that lead to the connecting client's own machine or link.
func (t *Tables) HasLocal(r *table.Reader, k HostKey) bool {
	return table.Has(r, t.locals, k)
}

// KeepsLocal reports whether a layer's proxies are sent such endpoints of a service: sidecars of the service's own namespace are, and all
// proxies if the mesh's administrator allows it (config.LocalEndpointsKey). It is false for a service without such endpoints, so that views
// of it stay alike.
func (t *Tables) KeepsLocal(r *table.Reader, l mesh.Layer, s *mesh.Service) bool {
	if !t.HasLocal(r, KeyOf(s)) {
		return false
	}
	own := l.Kind != mesh.GatewayLayer && l.Kind != mesh.PublicLayer && l.Namespace == s.Key.Namespace
	return own || t.in.AllowsLocalEndpoints(r, s.Key.Namespace)
}

// Guarded reports whether an address and port belong to a proxy itself: no rule may lead there.
func (t *Tables) Guarded(r *table.Reader, address string, port uint32) bool {
	if mesh.ReachOf(address) < mesh.OnMachine {
		return false
	}
	ports, folder := t.in.ProxyPlaces(r)
	return mesh.Guarded(address, port, ports, folder)
}

// noteLocal notes the proxies that do not get an endpoint which an object names. field is the field of the address.
func (t *Tables) noteLocal(r *table.Reader, o *config.Object, field string, e mesh.Endpoint, services []mesh.ServiceKey) {
	reach := mesh.ReachOf(e.Address)
	if reach == mesh.Anywhere {
		return
	}
	for _, k := range services {
		s, _ := table.Get(r, t.Services, k)
		if s == nil {
			continue
		}
		for _, p := range s.Ports {
			if t.Guarded(r, e.Address, e.On(p)) {
				r.Note(guarded(o, field, e.Address, e.On(p)))
				return
			}
		}
	}
	if len(services) > 0 && !t.in.AllowsLocalEndpoints(r, o.Namespace) {
		r.Note(o.Problem(
			field,
			code.LocalAddress,
			mesh.Warning,
			fmt.Sprintf(
				"%s is %s: it would mean something else for each proxy, so gateways and proxies of other namespaces are not sent it",
				show(e.Address), reach),
			"give an address that means the same everywhere; or let the mesh's "+
				"administrator add "+o.Namespace+" to defaultConfig.proxyMetadata."+config.LocalEndpointsKey,
		))
	}
}

func guarded(o *config.Object, field, address string, port uint32) mesh.Problem {
	what := show(address)
	if mesh.ReachOf(address) != mesh.Socket {
		what = fmt.Sprintf("port %d of %s", port, what)
	}
	return o.Problem(field, code.ProxysOwn, mesh.Error, what+" is a proxy's own, of Envoy or its agent: no proxy is sent it",
		"give the address of an application")
}

// noteInline looks at the endpoints that a ServiceEntry lists.
func (t *Tables) noteInline(r *table.Reader, o *config.Object) {
	spec := config.Spec[*networking.ServiceEntry](o)
	if isDynamic(spec) {
		return
	}
	for i, e := range spec.GetEndpoints() {
		if mesh.ReachOf(e.GetAddress()) != mesh.Anywhere {
			t.noteLocal(r, o, fmt.Sprintf("spec.endpoints[%d].address", i), endpoint(e), entryKeys(o))
		}
	}
	if len(spec.GetEndpoints()) > 0 || !isDNS(spec) {
		return
	}
	for i, host := range spec.GetHosts() {
		t.noteLocal(r, o, fmt.Sprintf("spec.hosts[%d]", i), mesh.Endpoint{Address: host}, entryKeys(o)[:1])
	}
}

func entryKeys(o *config.Object) []mesh.ServiceKey {
	var keys []mesh.ServiceKey
	for _, host := range entryHosts(config.Spec[*networking.ServiceEntry](o)) {
		keys = append(keys, entryKey(o, host))
	}
	return keys
}

// addresses lists the addresses that clients may use for a ServiceEntry. Addresses of the client's own machine are left out: proxies
// without interception would listen there in place of the client's own programs.
func (t *Tables) addresses(r *table.Reader, o *config.Object) []string {
	own := config.Spec[*networking.ServiceEntry](o).GetAddresses()
	local := func(a string) bool { return mesh.ReachOf(a) == mesh.OnMachine && a != "0.0.0.0/0" && a != "::/0" }
	if !slices.ContainsFunc(own, local) || t.in.AllowsLocalEndpoints(r, o.Namespace) {
		return own
	}
	for i, a := range own {
		if local(a) {
			r.Note(
				o.Problem(
					fmt.Sprintf("spec.addresses[%d]", i),
					code.LocalAddress,
					mesh.Warning,
					show(a)+" is every client's own machine: the service is not addressed by it",
					"give an address that no machine has for itself; or let the mesh's "+
						"administrator add "+o.Namespace+" to defaultConfig.proxyMetadata."+config.LocalEndpointsKey,
				),
			)
		}
	}
	return slices.DeleteFunc(slices.Clone(own), local)
}

func show(address string) string { return strconv.Quote(printable.Text(address, printable.Short)) }
