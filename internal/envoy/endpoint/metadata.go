package endpoint

import (
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"fairway/internal/mesh"
)

// metadata tells telemetry which workload a request went to (an access log's %UPSTREAM_METADATA(istio:workload)%), in the one string that
// Istio writes: "workload;namespace;canonical name;canonical revision;cluster", with unknown parts empty. Endpoints without such labels
// have none.
func metadata(e mesh.Endpoint) *corev3.Metadata {
	fields := map[string]*structpb.Value{}
	pairs := e.Labels.Pairs()
	workload, name, revision := first(pairs, mesh.WorkloadLabels[:]), first(pairs, mesh.NameLabels[:]), first(pairs, mesh.RevisionLabels[:])
	if workload+name+revision != "" {
		fields["workload"] = structpb.NewStringValue(workload + ";;" + name + ";" + revision + ";")
	}
	if e.Network != "" {
		fields["network"] = structpb.NewStringValue(e.Network)
	}
	all := map[string]*structpb.Struct{}
	if len(fields) > 0 {
		all["istio"] = &structpb.Struct{Fields: fields}
	}
	if e.MTLS {
		all[socketMatch] = Mutual()
	}
	if len(all) == 0 {
		return nil
	}
	return &corev3.Metadata{FilterMetadata: all}
}

// MutualTLS is the tlsMode of an endpoint that is reached over mutual TLS.
const MutualTLS = "istio"

func tlsMode(e mesh.Endpoint) string {
	if e.MTLS {
		return MutualTLS
	}
	return ""
}

// socketMatch is the metadata key that Envoy reads to choose an endpoint's transport socket
// (config.cluster.v3.Cluster.transport_socket_matches).
const socketMatch = "envoy.transport_socket_match"

// Mutual returns the metadata that chooses the transport socket of mutual TLS.
func Mutual() *structpb.Struct {
	return &structpb.Struct{Fields: map[string]*structpb.Value{"tlsMode": structpb.NewStringValue(MutualTLS)}}
}

// first is the value of the first of the keys that the pairs hold.
func first(pairs, keys []string) string {
	value, best := "", len(keys)
	for _, p := range pairs {
		key, v, _ := strings.Cut(p, "=")
		if i := slices.Index(keys[:best], key); i >= 0 {
			value, best = v, i
		}
	}
	return value
}
