package xdstype

import "strings"

// The type URLs.
//
// A virtual host's resource name is its route configuration's name, a slash, and a name without one; and the name
// within the message has to be the very same, for Envoy removes virtual hosts by that.
const (
	ClusterURL     = prefix + "envoy.config.cluster.v3.Cluster"
	EndpointURL    = prefix + "envoy.config.endpoint.v3.ClusterLoadAssignment"
	SecretURL      = prefix + "envoy.extensions.transport_sockets.tls.v3.Secret"
	ListenerURL    = prefix + "envoy.config.listener.v3.Listener"
	RouteURL       = prefix + "envoy.config.route.v3.RouteConfiguration"
	VirtualHostURL = prefix + "envoy.config.route.v3.VirtualHost"
	ExtensionURL   = prefix + "envoy.config.core.v3.TypedExtensionConfig"
	NameTableURL   = prefix + "istio.networking.nds.v1.NameTable" // Istio's NDS
	PatchURL       = prefix + "google.protobuf.Struct"            // a patch of the bootstrap, for agents
	BundleURL      = prefix + "istio.mesh.v1alpha1.ProxyConfig"   // Istio's PCDS: the roots of workloads, for agents
	ModuleURL      = prefix + "fairway.v1.Module"                 // a filter that runs a Wasm module, which the agent fetches
)

const prefix = "type.googleapis.com/"

// Type is one of the types.
type Type uint8

// The types.
const (
	Clusters Type = iota
	Loads
	Secrets
	Listeners
	Routes
	VirtualHosts
	Extensions
	NameTables
	Patches
	Bundles
	Modules
	Types // how many there are
)

// Rank is the place of a type in the order of sending: clusters, their load assignments, secrets, other types, then the types that
// refer to clusters (xDS protocol, "Eventual consistency considerations").
type Rank int

// The ranks.
const (
	ClusterRank Rank = iota
	EndpointRank
	SecretRank
	OtherRank
	ListenerRank
	RouteRank
	VirtualHostRank
)

// row has the properties of a type.
type row struct {
	url string
	// label is the short name, as Istio's metrics, pages and istioctl have it.
	label string
	// status is the name of the type in /debug/syncz, in Istio's words; empty: the page does not have it.
	status string
	// counted is the label for counting refusals: a type that is sent in parts counts as the whole. Empty: its own.
	counted string
	rank    Rank
	// referred means that the type is only ever fetched by reference. A first request without names asks for nothing of such a
	// type, and for everything of any other.
	referred bool
	// full says that a state-of-the-world response must hold everything that the client is subscribed to (xDS protocol,
	// "Grouping Resources into Responses"). A table of names does not say which resource it is: only in a response that
	// holds all of them can a name be missed.
	full bool
	// blamed are the kinds that shape a resource of the type, the likeliest culprit first. If a proxy refuses a resource, the
	// objects of the first of these kinds that it was made from get the problem.
	blamed []string
}

var (
	clusterKinds  = []string{"DestinationRule", "ServiceEntry", "WorkloadEntry", "Sidecar"}
	listenerKinds = []string{"Gateway", "Sidecar", "VirtualService", "ServiceEntry"}
	routeKinds    = []string{"VirtualService", "Gateway", "ServiceEntry"}

	extensionKinds = []string{"EnvoyFilter", "TrafficExtension", "WasmPlugin"}
)

var rows = [Types]row{
	Clusters:  {url: ClusterURL, label: "cds", status: "cluster", rank: ClusterRank, full: true, blamed: clusterKinds},
	Loads:     {url: EndpointURL, label: "eds", status: "endpoint", rank: EndpointRank, referred: true, blamed: clusterKinds},
	Secrets:   {url: SecretURL, label: "sds", rank: SecretRank, referred: true, blamed: []string{"Secret"}},
	Listeners: {url: ListenerURL, label: "lds", status: "listener", rank: ListenerRank, full: true, blamed: listenerKinds},
	Routes:    {url: RouteURL, label: "rds", status: "route", rank: RouteRank, referred: true, blamed: routeKinds},
	VirtualHosts: {
		url: VirtualHostURL, label: "vhds", status: "virtual_host", counted: "rds", rank: VirtualHostRank, blamed: routeKinds,
	},
	Extensions: {url: ExtensionURL, label: "ecds", rank: OtherRank, referred: true, blamed: extensionKinds},
	NameTables: {url: NameTableURL, label: "nds", rank: OtherRank, full: true, blamed: routeKinds},
	Patches:    {url: PatchURL, label: "google.protobuf.Struct", rank: OtherRank, blamed: routeKinds},
	Bundles:    {url: BundleURL, label: "pcds", rank: OtherRank, blamed: routeKinds},
	Modules:    {url: ModuleURL, label: "fairway.v1.Module", rank: OtherRank, blamed: extensionKinds},
}

var byURL = func() map[string]Type {
	out := make(map[string]Type, Types)
	for t, r := range rows {
		out[r.url] = Type(t)
	}
	return out
}()

// Of returns the type with a URL; false: there is none. The URL may be anything that a client sent.
func Of(url string) (Type, bool) {
	t, ok := byURL[url]
	return t, ok
}

// URL is the type's URL.
func (t Type) URL() string { return rows[t].url }

// String is the name of the message, as problems and debug pages have it.
func (t Type) String() string { return Short(rows[t].url) }

// Label is the short name, as Istio's metrics, pages and istioctl have it: "cds".
func (t Type) Label() string { return rows[t].label }

// Status returns the name of the type in /debug/syncz: "cluster"; empty: the page does not have it.
func (t Type) Status() string { return rows[t].status }

// Blamed returns the kinds of Istio's API that shape a resource of the type, the likeliest culprit first. If a proxy refuses a
// resource, the objects of the first of these kinds that it was made from get the problem. The result must not be modified.
func (t Type) Blamed() []string { return rows[t].blamed }

// Other is the label of types that do not exist, because clients may send any number of these, and of other unbounded values.
const Other = "other"

// Label is the short name of the type with a URL; Other: there is no such type.
func Label(url string) string {
	if t, ok := byURL[url]; ok {
		return rows[t].label
	}
	if IsObject(url) {
		return objectLabel
	}
	return Other
}

// ObjectURL is the type of the message that an object of the configuration is sent as, whatever its kind.
const ObjectURL = prefix + "istio.mcp.v1alpha1.Resource"

// objectLabel is the short name of all types of objects together.
const objectLabel = "mcp"

// IsObject reports whether a type is one of objects of the configuration, which other control planes read: it is group, version and
// kind, as in "networking.istio.io/v1/ServiceEntry", or a collection of MCP's, as in "istio/networking/v1alpha3/serviceentries". The
// text may be anything that a client sent.
func IsObject(url string) bool {
	return strings.HasPrefix(url, "istio/") ||
		strings.Count(url, "/") == 2 && strings.IndexByte(url, '.') > 0 && !strings.HasPrefix(url, prefix)
}

// Counted is the short name under which refusals of a type are counted: a type that is delivered in parts counts as the whole.
func Counted(url string) string {
	if t, ok := byURL[url]; ok && rows[t].counted != "" {
		return rows[t].counted
	}
	return Label(url)
}

// RankOf is the place of the type with a URL in the order of sending.
func RankOf(url string) Rank {
	if t, ok := byURL[url]; ok {
		return rows[t].rank
	}
	return OtherRank
}

// Referred reports whether resources of the type are only ever fetched by reference: a first request without names
// subscribes to none of them.
func Referred(url string) bool {
	t, ok := byURL[url]
	return ok && rows[t].referred
}

// Full reports whether a state-of-the-world response of the type must hold everything that the client is subscribed to.
func Full(url string) bool {
	t, ok := byURL[url]
	return ok && rows[t].full || IsObject(url)
}

// Short is the name of the message alone, of the URL of any type, for texts that people read.
func Short(url string) string { return url[strings.LastIndexAny(url, "./")+1:] }
