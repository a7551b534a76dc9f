package config

import (
	"slices"
	"strconv"
	"strings"
	"sync"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"fairway/internal/config/extension"
	"fairway/internal/config/rule"
	"fairway/internal/config/schemas"
	"fairway/internal/config/secret"
	"fairway/internal/config/security"
	"fairway/internal/config/traffic"
	"fairway/internal/mesh/code"
	"fairway/internal/spelling"
)

// The kinds that a Decoder reads.
const (
	VirtualService        Kind = "VirtualService"
	DestinationRule       Kind = "DestinationRule"
	Gateway               Kind = "Gateway"
	ServiceEntry          Kind = "ServiceEntry"
	Sidecar               Kind = "Sidecar"
	WorkloadEntry         Kind = "WorkloadEntry"
	WorkloadGroup         Kind = "WorkloadGroup"
	EnvoyFilter           Kind = "EnvoyFilter"
	ProxyConfig           Kind = "ProxyConfig"
	PeerAuthentication    Kind = "PeerAuthentication"
	RequestAuthentication Kind = "RequestAuthentication"
	AuthorizationPolicy   Kind = "AuthorizationPolicy"
	Telemetry             Kind = "Telemetry"
	WasmPlugin            Kind = "WasmPlugin"
	TrafficExtension      Kind = "TrafficExtension"

	// Secret is Kubernetes' own kind for credentials of TLS. Its Object has no Text and no annotations, because both repeat the secret
	// values, and its Spec is a *structpb.Struct with the parts that a page may show. The rest is in Object.Credential.
	Secret Kind = "Secret"

	// ConfigMap is Kubernetes' own kind. Only authorities are read from it: their certificates and CRLs. Its Object is like a Secret's.
	ConfigMap Kind = "ConfigMap"

	// Kubernetes' own kinds that are turned into other objects. Their Spec is nil, and Object.Native has it as a Go type.
	Ingress      Kind = "Ingress"      // *networkingv1.IngressSpec
	IngressClass Kind = "IngressClass" // *networkingv1.IngressClassSpec

	// The kinds of the Gateway API. Their Spec is in Object.Native, too, as a *native.HTTPRouteSpec, ….
	GatewayClass      Kind = "GatewayClass"
	KubernetesGateway Kind = "Gateway." + groupOfGateways
	ListenerSet       Kind = "ListenerSet"
	HTTPRoute         Kind = "HTTPRoute"
	GRPCRoute         Kind = "GRPCRoute"
	TLSRoute          Kind = "TLSRoute"
	TCPRoute          Kind = "TCPRoute"
	UDPRoute          Kind = "UDPRoute"
	ReferenceGrant    Kind = "ReferenceGrant"
	BackendTLSPolicy  Kind = "BackendTLSPolicy"
	InferencePool     Kind = "InferencePool" // *native.InferencePoolSpec, of the API's inference extension

	MeshConfig   Kind = "MeshConfig"   // the one object of --meshConfig
	MeshNetworks Kind = "MeshNetworks" // the one object of --networksConfig
)

// Kinds lists Istio's API kinds, in the order of the table below.
func Kinds() []Kind {
	table := kindTable()
	out := make([]Kind, len(table))
	for i, k := range table {
		out[i] = k.name
	}
	return out
}

// WrittenKinds lists the kinds of all objects that users write to have traffic routed, guarded and seen: Istio's, those of the Gateway API,
// Ingress, and the mesh's own.
func WrittenKinds() []Kind {
	return slices.Concat(Kinds(), GatewayKinds(), []Kind{MeshConfig, MeshNetworks, Ingress})
}

// GatewayKinds lists the kinds of the Gateway API, and of its inference extension, that are read.
func GatewayKinds() []Kind {
	return []Kind{
		GatewayClass, KubernetesGateway, ListenerSet, HTTPRoute, GRPCRoute, TLSRoute, TCPRoute, UDPRoute, ReferenceGrant, BackendTLSPolicy,
		InferencePool,
	}
}

// KindOf returns the kind of documents that name an API group and a kind in it; false: it is not one that Decode reads.
func KindOf(group, word string) (Kind, bool) {
	k := unique(group, word)
	of, known := groupsByKind()[k]
	return k, known && of == group
}

// Group returns the API group of a kind that Decode reads; empty: Kubernetes' oldest, or none.
func (k Kind) Group() string { return groupsByKind()[k] }

// unique returns the name that no kind of another group has.
func unique(group, word string) Kind { return Kind(schemas.Unique(group, word)) }

// Groups returns the API group of every kind that Decode reads; it is empty for Kubernetes' oldest, Secret and ConfigMap.
func Groups() map[Kind]string {
	out := map[Kind]string{}
	for name, k := range kindsByName() {
		out[name] = k.group
	}
	return out
}

// kindTable has one line a kind: its API group, and the rules that its schema cannot say, of the message that its spec is.
func kindTable() []*kind {
	const (
		ofNetworking = "networking.istio.io"
		ofSecurity   = "security.istio.io"
		ofTelemetry  = "telemetry.istio.io"
		ofExtensions = "extensions.istio.io"
	)
	return []*kind{
		kindOf(ofNetworking, VirtualService, traffic.VirtualService),
		kindOf(ofNetworking, DestinationRule, traffic.DestinationRule),
		kindOf(ofNetworking, Gateway, traffic.Gateway),
		kindOf(ofNetworking, ServiceEntry, traffic.ServiceEntry),
		kindOf(ofNetworking, Sidecar, traffic.Sidecar),
		kindOf(ofNetworking, WorkloadEntry, traffic.WorkloadEntry),
		kindOf(ofNetworking, WorkloadGroup, traffic.WorkloadGroup),
		kindOf(ofNetworking, EnvoyFilter, extension.EnvoyFilter),
		kindOf(ofNetworking, ProxyConfig, extension.ProxyConfig),
		kindOf(ofSecurity, PeerAuthentication, security.PeerAuthentication),
		kindOf(ofSecurity, RequestAuthentication, security.RequestAuthentication),
		kindOf(ofSecurity, AuthorizationPolicy, security.AuthorizationPolicy),
		kindOf(ofTelemetry, Telemetry, extension.Telemetry),
		kindOf(ofExtensions, WasmPlugin, extension.WasmPlugin),
		kindOf(ofExtensions, TrafficExtension, extension.TrafficExtension),
	}
}

// kindsByName returns the data of all kinds. Decoders prepare their own, so that tests can count what each costs.
func kindsByName() map[Kind]*kind {
	out := map[Kind]*kind{
		Secret:    {name: Secret, read: reading(secret.Read)},
		ConfigMap: {name: ConfigMap, read: reading(secret.ReadMap)},
	}
	for _, k := range append(kindTable(), nativeKinds()...) {
		out[k.name] = k
	}
	return out
}

// kindOf returns the entry of a kind that has a *T as its spec. The rules run on a spec that decoded without an error.
func kindOf[T any, M interface {
	*T
	proto.Message
}](group string, name Kind, rules func(*rule.Check, M)) *kind {
	return &kind{
		group: group,
		name:  name,
		empty: func() proto.Message { return M(new(T)) },
		rules: func(c *rule.Check, m proto.Message) { rules(c, m.(M)) },
	}
}

// reading returns a function that turns the tree of a Secret or ConfigMap into its Credential. That function returns nil if the object is
// refused.
func reading(by func(secret.Input) (*Credential, *structpb.Struct)) func(*draft) proto.Message {
	return func(w *draft) proto.Message {
		if _, version := w.apiVersion(); version != "v1" {
			w.Fail("apiVersion", code.UnknownVersion, string(w.key.Kind)+" has no version "+strconv.Quote(version), "write v1")
		}
		credential, public := by(secret.Input{Tree: w.tree, Annotations: w.annotations, Now: w.now, Report: &w.Report})
		if credential == nil {
			return nil
		}
		w.credential = credential
		return public
	}
}

// shortKinds are the short names of Istio's CRDs, and of the Gateway API's.
var shortKinds = map[string]Kind{
	"vs": VirtualService, "dr": DestinationRule, "gw": Gateway, "se": ServiceEntry,
	"we": WorkloadEntry, "wg": WorkloadGroup, "pa": PeerAuthentication, "ra": RequestAuthentication,
	"ap": AuthorizationPolicy, "authz": AuthorizationPolicy,
	"gtw": KubernetesGateway, "gc": GatewayClass, "refgrant": ReferenceGrant, "btlspolicy": BackendTLSPolicy, "lset": ListenerSet,
	"infpool": InferencePool,
}

// KindCalled returns the one of some kinds that a word names: in singular or plural, in any case, by the short name of its CRD, or
// with its group behind a dot, as kubectl takes them; false: none.
func KindCalled(word string, kinds []Kind) (Kind, bool) {
	word = strings.ToLower(word)
	word, group, qualified := strings.Cut(word, ".")
	for _, k := range kinds {
		one := strings.ToLower(k.Word())
		if qualified && group != groupsByKind()[k] || !qualified && one != strings.ToLower(string(k)) && shortKinds[word] != k {
			continue // a word alone means the kind of the unique name
		}
		if word == one || word == spelling.Plural(one) || shortKinds[word] == k {
			return k, true
		}
	}
	return "", false
}

var groupsByKind = sync.OnceValue(Groups)
