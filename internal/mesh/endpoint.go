package mesh

import (
	"cmp"
	"iter"
	"net/netip"
	"strconv"
	"strings"
)

// Health says whether an endpoint gets traffic.
type Health uint8

// The states of an endpoint. A Draining one keeps its connections and gets no new ones; it is sent as such, as an
// Unhealthy one is. An Unready one is left out of load assignments: by its own agent's checks the application there
// does not answer, or has not done so yet.
const (
	Healthy Health = iota
	Unhealthy
	Draining
	Unready
)

func (h Health) String() string {
	return [...]string{"HEALTHY", "UNHEALTHY", "DRAINING", "UNREADY"}[h]
}

// HealthReport is the last report of a proxy's agent about its application. It is comparable.
type HealthReport struct {
	Proxy   Proxy      // who speaks
	From    netip.Addr // address that sent the report; the zero Addr for the control plane's own process
	Healthy bool
	Detail  string // why not, in the agent's words
}

// HealthVerdict is the combined result of the agents' reports about the application of a WorkloadEntry. It is comparable.
type HealthVerdict struct {
	Healthy bool
	Detail  string // why not, in an agent's words
}

// Locality is a place: "region/zone/subzone" taken apart.
type Locality struct{ Region, Zone, SubZone string }

// ParseLocality reads "region/zone/subzone". Parts at the end may be missing.
func ParseLocality(s string) Locality {
	region, rest, _ := strings.Cut(s, "/")
	zone, sub, _ := strings.Cut(rest, "/")
	return Locality{Region: region, Zone: zone, SubZone: sub}
}

func (l Locality) String() string {
	switch {
	case l.SubZone != "":
		return l.Region + "/" + l.Zone + "/" + l.SubZone
	case l.Zone != "":
		return l.Region + "/" + l.Zone
	}
	return l.Region
}

// CompareLocality orders by region, zone, subzone.
func CompareLocality(a, b Locality) int {
	return cmp.Or(cmp.Compare(a.Region, b.Region), cmp.Compare(a.Zone, b.Zone), cmp.Compare(a.SubZone, b.SubZone))
}

// EndpointKey names one endpoint of one service: unique within the mesh, stable while the endpoint is.
type EndpointKey struct {
	Service ServiceKey
	ID      string // distinguishes endpoints of a service: the index or address, and the object that it came from
}

// CompareEndpointKey orders by service, then id.
func CompareEndpointKey(a, b EndpointKey) int {
	return cmp.Or(CompareServiceKey(a.Service, b.Service), cmp.Compare(a.ID, b.ID))
}

// Endpoint is one address behind a service. It is comparable: equal values are the same endpoint.
type Endpoint struct {
	Address  string // an IP, a DNS name (resolution DNS), or "unix:///path"
	Also     Others // further IPs of the same endpoint, of another family; none of them means the client's own machine
	Ports    PortMap
	Labels   Labels
	Locality Locality
	Network  string
	Identity string     // service account or SPIFFE id; empty: unknown
	Hostname string     // of a headless service's endpoint: its name below the service's; empty: it has none
	Machine  MachineRef // where it runs; zero: unknown
	Weight   uint32     // 0: unset, counts as 1
	Health   Health
	ListsAll bool // Ports lists all ports that it serves; else the ports that are left out are the service's target ports
	MTLS     bool // the endpoint has a proxy that accepts mutual TLS, unless a PeerAuthentication disables that
}

// TLSModeLabel is the label of a workload that says whether it has a proxy that accepts mutual TLS: "istio" or "disabled".
const TLSModeLabel = "security.istio.io/tlsMode"

// TakesMutual reports whether a workload has a proxy that accepts mutual TLS. mode is the value of its TLSModeLabel. If it has no such
// label (said is false), a workload with an identity is assumed to have such a proxy.
func TakesMutual(mode string, said bool, identity string) bool {
	if said {
		return mode == "istio"
	}
	return identity != ""
}

// Addresses yields all addresses of the endpoint, the first one first.
func (e Endpoint) Addresses() iter.Seq[string] {
	return func(yield func(string) bool) {
		if !yield(e.Address) {
			return
		}
		for _, a := range e.Also.List() {
			if !yield(a) {
				return
			}
		}
	}
}

// PortMap says which port an endpoint serves a service port on, in one comparable string: "http=8080,grpc=9090" by port
// name. Empty: the service's target ports.
type PortMap = Labels

// PortOnly is the map of an endpoint that serves a service port on a port.
func PortOnly(p Port, on uint32) PortMap {
	return MakeLabels(map[string]string{p.Name: strconv.FormatUint(uint64(on), 10)})
}

// Serves reports whether the endpoint serves a service port at all.
func (e Endpoint) Serves(p Port) bool {
	if !e.ListsAll {
		return true
	}
	_, listed := e.Ports.Get(p.Name)
	return listed
}

// On returns the port where the endpoint serves a service port: its own value under the port's name, else the port's target, else its
// number.
func (e Endpoint) On(p Port) uint32 {
	if s, ok := e.Ports.Get(p.Name); ok {
		if n, err := strconv.ParseUint(s, 10, 16); err == nil && n > 0 {
			return uint32(n)
		}
	}
	if p.Target != 0 {
		return p.Target
	}
	return p.Number
}

// As returns the endpoint for another service's port of the same number. own is the port in the endpoint's own service.
func (e Endpoint) As(own, other Port) Endpoint {
	if own.Name == other.Name && own.Target == other.Target {
		return e
	}
	ports := e.Ports.Map()
	delete(ports, other.Name)
	if e.Serves(own) {
		ports[other.Name] = strconv.FormatUint(uint64(e.On(own)), 10)
	} else {
		e.ListsAll = true
	}
	e.Ports = MakeLabels(ports)
	return e
}
