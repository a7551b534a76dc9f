package config

import (
	"google.golang.org/protobuf/proto"
)

// API is how a kind of Istio's API is named outside, and the message that its spec is.
type API struct {
	Kind     Kind
	Group    string               // "networking.istio.io"
	Versions []string             // that are served, the preferred one first: "v1", "v1beta1", "v1alpha3"
	Spec     func() proto.Message // makes an empty one
}

// Types are the words by which xDS knows the kind, one a version, the preferred one first: "networking.istio.io/v1/Sidecar".
func (a API) Types() []string {
	out := make([]string, len(a.Versions))
	for i, v := range a.Versions {
		out[i] = a.Group + "/" + v + "/" + string(a.Kind)
	}
	return out
}

// usualVersions are those of most kinds of networking.istio.io.
var usualVersions = []string{"v1", "v1beta1", "v1alpha3"}

// versions are the API versions of kinds, in the order in which they are preferred. The schemas have the same (TestVersions).
var versions = map[Kind][]string{
	VirtualService:        usualVersions,
	DestinationRule:       usualVersions,
	Gateway:               usualVersions,
	ServiceEntry:          usualVersions,
	Sidecar:               usualVersions,
	WorkloadEntry:         usualVersions,
	WorkloadGroup:         usualVersions,
	EnvoyFilter:           {"v1alpha3"},
	ProxyConfig:           {"v1beta1"},
	PeerAuthentication:    {"v1", "v1beta1"},
	RequestAuthentication: {"v1", "v1beta1"},
	AuthorizationPolicy:   {"v1", "v1beta1"},
	Telemetry:             {"v1", "v1alpha1"},
	WasmPlugin:            {"v1alpha1"},
	TrafficExtension:      {"v1alpha1"},
}

// APIs lists all kinds of Istio's API, in the order of Kinds.
func APIs() []API {
	var out []API
	for _, k := range kindTable() {
		out = append(out, API{Kind: k.name, Group: k.group, Versions: versions[k.name], Spec: k.empty})
	}
	return out
}
