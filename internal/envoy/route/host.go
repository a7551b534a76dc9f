package route

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"fairway/internal/envoy"
	"fairway/internal/envoy/caller"
	"fairway/internal/envoy/dynamic"
	"fairway/internal/mesh"
)

// HostName returns the name of the virtual host for a host and a port.
func HostName(host mesh.Host, port uint32) string {
	return string(host) + ":" + strconv.FormatUint(uint64(port), 10)
}

// Host builds a virtual host.
func Host(name string, domains []string, routes []*routev3.Route) *routev3.VirtualHost {
	return &routev3.VirtualHost{Name: name, Domains: domains, Routes: routes, IncludeRequestAttemptCount: true}
}

// Default returns the route of a service without a rule: all requests go to its cluster.
func Default(t Target, retry *routev3.RetryPolicy) *routev3.Route {
	match := anyPath()
	guard(match, t)
	return &routev3.Route{
		Name:  "default",
		Match: match,
		Action: &routev3.Route_Route{Route: &routev3.RouteAction{
			ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: t.Cluster.String()},
			Timeout:          &durationpb.Duration{},
			MaxGrpcTimeout:   &durationpb.Duration{}, //nolint:staticcheck // what replaces it makes Envoy pass over timeouts
			RetryPolicy:      retry,
			HashPolicy:       t.Hash,
		}},
		Decorator: &routev3.Decorator{Operation: authority(t.Cluster) + "/*"},
	}
}

// Aliases lists other names that clients of a namespace may use for a host: its absolute name, which ends with a dot (RFC 1034, section
// 3.1), and the short forms of a host under the mesh's domain. For name.ns.svc.suffix these are name.ns.svc and name.ns, and name for
// clients of ns. A client without a single namespace only gets the forms that all clients may use.
func Aliases(host mesh.Host, client, suffix string) []string {
	if _, err := netip.ParseAddr(string(host)); err == nil || host == "" || strings.HasSuffix(string(host), ".") {
		return nil
	}
	out := []string{string(host) + "."}
	name, namespace, ok := host.Local(suffix)
	if !ok {
		return out
	}
	local := name + "." + namespace
	out = append(out, local+".svc", local)
	if namespace == client {
		out = append(out, name)
	}
	return out
}

// AddressDomains returns addresses as requests name them, each once: no ranges, IPv6 in brackets.
func AddressDomains(addresses []string) (out []string) {
	for _, a := range addresses {
		if d, ok := addressDomain(a); ok && !slices.Contains(out, d) {
			out = append(out, d)
		}
	}
	return out
}

// addressDomain returns an address as a Host header has it: IPv6 in brackets. It returns false for a range of addresses.
func addressDomain(a string) (string, bool) {
	if p, err := netip.ParsePrefix(a); err == nil {
		if !p.IsSingleIP() {
			return "", false
		}
		a = p.Addr().String()
	}
	ip, err := netip.ParseAddr(a)
	if err != nil || ip.IsUnspecified() {
		return "", false
	}
	if ip.Is6() && !ip.Is4In6() {
		return "[" + ip.WithZone("").String() + "]", true
	}
	return ip.Unmap().String(), true
}

// CatchAllHost returns the virtual host for names that no other virtual host has. It sends requests to a cluster: Passthrough, ByName or
// an egress proxy's. With the zero key it refuses them.
func CatchAllHost(to mesh.ClusterKey) *routev3.VirtualHost {
	if to == (mesh.ClusterKey{}) {
		return answering("block_all", 502)
	}
	r := &routev3.Route{
		Name:  "allow_any",
		Match: anyPath(),
		Action: &routev3.Route_Route{Route: &routev3.RouteAction{
			ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: to.String()},
			Timeout:          &durationpb.Duration{},
			MaxGrpcTimeout:   &durationpb.Duration{}, //nolint:staticcheck // what replaces it makes Envoy pass over timeouts
		}},
	}
	if to == ByName() {
		r.Name = UnknownByName
		for _, filter := range dynamic.Naming() { // these are for services: here the request itself has the name and port
			perRoute(r, filter, &routev3.FilterConfig{Disabled: true})
		}
	}
	return Host(r.Name, []string{"*"}, []*routev3.Route{r})
}

// MisdirectedHost returns the virtual host that answers 421 for names that a connection is not for.
func MisdirectedHost() *routev3.VirtualHost { return answering("misdirected", 421) }

// answering returns the virtual host for names that no other has; it answers every request with a status.
func answering(name string, status uint32) *routev3.VirtualHost {
	return Host(name, []string{"*"}, []*routev3.Route{{
		Name:   name,
		Match:  anyPath(),
		Action: &routev3.Route_DirectResponse{DirectResponse: &routev3.DirectResponseAction{Status: status}},
	}})
}

// Passthrough is the cluster that connects to the original destination.
func Passthrough() mesh.ClusterKey { return mesh.ClusterKey{Special: "PassthroughCluster"} }

// UnknownByName is the name of routes to ByName.
const UnknownByName = "allow_any_dynamic_dns"

// ByName is the cluster that sends a request to the name and port in its Host header.
func ByName() mesh.ClusterKey { return mesh.ClusterKey{Special: "AllowAnyDynamicDNSCluster"} }

// Outbound builds the part of a route configuration for requests to others that does not depend on its virtual hosts. The proxy's own
// claim (package caller) replaces the client's header. The header is removed first, so that the client's value cannot stay if the proxy
// has no claim.
func Outbound(name string, inline ...*routev3.VirtualHost) *routev3.RouteConfiguration {
	out := configuration(name, inline)
	out.RequestHeadersToRemove = []string{caller.Header}
	out.RequestHeadersToAdd = []*corev3.HeaderValueOption{{
		Header:       &corev3.HeaderValue{Key: caller.Header, Value: "%ENVIRONMENT(" + caller.Variable + ")%"},
		AppendAction: corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
	}}
	return out
}

// Inbound is Outbound for requests to the workload itself, which must not see the header that proxies send each other.
func Inbound(name string, inline ...*routev3.VirtualHost) *routev3.RouteConfiguration {
	out := configuration(name, inline)
	out.RequestHeadersToRemove = []string{caller.Header}
	return out
}

// configuration returns the part that is the same for all. Names in virtual hosts' domains are matched without a request's port.
func configuration(name string, inline []*routev3.VirtualHost) *routev3.RouteConfiguration {
	return &routev3.RouteConfiguration{
		Name:                           name,
		VirtualHosts:                   inline,
		ValidateClusters:               wrapperspb.Bool(false),
		MaxDirectResponseBodySizeBytes: wrapperspb.UInt32(MaxDirectBody),
		IgnorePortInHostMatching:       true,
	}
}

// NoHost is a host that no request is for (RFC 6761, section 6.4). A route configuration that could be without virtual hosts has one of
// this name: Envoy holds listeners back until the first virtual host comes. A configuration that has vhds only while there are some would
// be wrong: it ends the subscription before the last virtual host is removed, and Envoy serves that again when vhds comes back.
const NoHost mesh.Host = "nothing.invalid"

// Encode encodes a route configuration whose virtual hosts are separate resources, named by the configuration's name, a slash and their own
// name. For clients that cannot fetch them one by one, they are put into the configuration.
func Encode(c *routev3.RouteConfiguration) *envoy.Encoded {
	bare := envoy.Encode(c)
	c.Vhds = &routev3.Vhds{ConfigSource: &corev3.ConfigSource{
		ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}},
		ResourceApiVersion:    corev3.ApiVersion_V3,
	}}
	out := envoy.Encode(c)
	if out.Err == nil && bare.Err == nil {
		out.WithoutVHDS = &envoy.WithoutVHDS{Body: bare.Body, Prefix: c.Name + "/"}
	}
	return out
}
