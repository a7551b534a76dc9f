package mesh

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"fairway/internal/xdstype"
)

// Layer names a set of rows that several proxies see alike. A proxy sees a short list of layers, and a later one overrides those before it:
// a plain sidecar of namespace n sees Public and then Namespace n; a sidecar that a Sidecar object selects sees only that Sidecar's layer;
// a gateway sees only its own. The zero Layer is Public.
type Layer struct {
	Kind LayerKind
	// Namespace is the client's namespace: client-side rules are taken from it first. Empty for Public.
	Namespace string
	// Name is the Sidecar object's name, or a gateway's labels in canonical form; empty otherwise.
	Name string
	// Clients are the labels by which DestinationRules of the namespace select proxies of a namespace's or a Sidecar's layer
	// (DestinationRule.workloadSelector). Empty: no DestinationRule does.
	Clients Labels
}

// LayerKind distinguishes layers.
type LayerKind uint8

// The kinds of layer.
const (
	PublicLayer    LayerKind = iota // what every namespace sees alike
	NamespaceLayer                  // what one namespace sees differently: laid over Public
	SidecarLayer                    // all that one Sidecar object's egress hosts select
	GatewayLayer                    // all that gateways of one namespace and set of labels serve
)

// Public is the layer that all plain sidecars share.
var Public = Layer{}

func (l Layer) String() string {
	clients := ""
	if l.Clients != "" {
		clients = "{" + string(l.Clients) + "}"
	}
	switch l.Kind {
	case NamespaceLayer:
		return "ns/" + l.Namespace + clients
	case SidecarLayer:
		return "sidecar/" + l.Namespace + "/" + l.Name + clients
	case GatewayLayer:
		return "gateway/" + l.Namespace + "/" + l.Name
	}
	return "public"
}

// CompareLayer orders by kind, namespace, name, clients.
func CompareLayer(a, b Layer) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name),
		cmp.Compare(a.Clients, b.Clients))
}

// ClusterKey names an Envoy cluster before its name is formatted, so that no table parses a name back.
type ClusterKey struct {
	Inbound bool
	Port    uint32
	Subset  string
	Host    Host
	Special string // PassthroughCluster, BlackHoleCluster, InboundPassthroughCluster: the whole name
	// BySNI says that an east-west gateway forwards connections unchanged to this cluster, for a client in another network that named the
	// cluster as the server of its TLS: outbound_.80_.v1_.reviews.default.svc.cluster.local.
	BySNI bool
}

// String is the name Envoy sees: outbound|80|v1|reviews.default.svc.cluster.local, as Istio formats it; users' dashboards parse it.
func (c ClusterKey) String() string {
	if c.Special != "" {
		return c.Special
	}
	if c.BySNI {
		return SNI(c)
	}
	dir := "outbound"
	if c.Inbound {
		dir = "inbound"
	}
	return dir + "|" + strconv.FormatUint(uint64(c.Port), 10) + "|" + c.Subset + "|" + string(c.Host)
}

// ClusterParts takes apart a name in the form of ClusterKey.String, for tools that read names in logs and resources; false: it has another
// form.
func ClusterParts(name string) (direction, port, subset, host string, ok bool) {
	parts := strings.Split(name, "|")
	if len(parts) != 4 {
		return "", "", "", "", false
	}
	return parts[0], parts[1], parts[2], parts[3], true
}

// SNI returns the server name that clients of the mesh send for a cluster, whatever its network. It has '_' instead of '|', because a
// server name has no bar in it.
func SNI(c ClusterKey) string {
	return SNIPrefix + strconv.FormatUint(uint64(c.Port), 10) + "_." + c.Subset + "_." + string(c.Host)
}

// SNIPrefix is the prefix of every SNI.
const SNIPrefix = "outbound_."

// CompareClusterKey orders by direction, host, port, subset, special name, those by server name last.
func CompareClusterKey(a, b ClusterKey) int {
	return cmp.Or(compareBool(a.Inbound, b.Inbound), cmp.Compare(a.Host, b.Host), cmp.Compare(a.Port, b.Port),
		cmp.Compare(a.Subset, b.Subset), cmp.Compare(a.Special, b.Special), compareBool(a.BySNI, b.BySNI))
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// Shelf names one published set of resources of one type: a layer's, or a part of a layer that only some of its proxies see (listeners
// bound to ports, the inbound side of equal workloads). A proxy sees a short list of shelves for each type.
type Shelf struct {
	Layer
	Part string
}

func (s Shelf) String() string {
	if s.Part == "" {
		return s.Layer.String()
	}
	return s.Layer.String() + "#" + s.Part
}

// CompareShelf orders by layer, then part.
func CompareShelf(a, b Shelf) int {
	return cmp.Or(CompareLayer(a.Layer, b.Layer), cmp.Compare(a.Part, b.Part))
}

// ResourceKey names one published resource by its shelf and its xDS name. Its type is the table's.
type ResourceKey struct {
	Shelf Shelf
	Name  string
}

// CompareResourceKey orders by shelf, then name.
func CompareResourceKey(a, b ResourceKey) int {
	return cmp.Or(CompareShelf(a.Shelf, b.Shelf), cmp.Compare(a.Name, b.Name))
}

// Attachment lists the shelves that one proxy sees, for each type of resource. A later shelf overrides those before it.
type Attachment [xdstype.Types][]Shelf

// Equal reports whether two attachments have the same shelves.
func (a Attachment) Equal(b Attachment) bool {
	for t := range a {
		if !slices.Equal(a[t], b[t]) {
			return false
		}
	}
	return true
}
