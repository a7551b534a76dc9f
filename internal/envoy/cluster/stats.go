package cluster

import (
	"strconv"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"fairway/internal/envoy/dynamic"
	"fairway/internal/envoy/tls"
	"fairway/internal/mesh"
)

// statDelimiter ends the name of a cluster in its statistics: hosts hold dots, and what follows the name begins with one.
const statDelimiter = ";"

// statName returns the name in statistics: the mesh's pattern with its values, or the cluster's own name
// (MeshConfig.outbound_cluster_stat_name).
func (o Outbound) statName(name string) string {
	if o.Defaults.StatName == "" {
		return name + statDelimiter
	}
	return fill(o.Defaults.StatName, o.Service, o.Port, o.Key.Subset) + statDelimiter
}

func fill(pattern string, s *mesh.Service, p mesh.Port, subset string) string {
	short, _, _ := strings.Cut(string(s.Key.Host), ".")
	port := p.Name
	if port == "" {
		port = strconv.FormatUint(uint64(p.Number), 10)
	}
	return strings.NewReplacer(
		"%SERVICE%", shortName(s),
		"%SERVICE_NAME%", short,
		"%SERVICE_FQDN%", string(s.Key.Host),
		"%SERVICE_PORT%", strconv.FormatUint(uint64(p.Number), 10),
		"%SERVICE_PORT_NAME%", port,
		"%TARGET_PORT%", strconv.FormatUint(uint64(p.Target), 10),
		"%SUBSET_NAME%", subset,
	).Replace(pattern)
}

// shortName returns "reviews.default" for a service of a Kubernetes-like domain, else its host.
func shortName(s *mesh.Service) string {
	if i := strings.Index(string(s.Key.Host), ".svc."); i > 0 {
		return string(s.Key.Host[:i])
	}
	return string(s.Key.Host)
}

// metadata returns the cluster's rule, subset and service in Istio's format, for tools and telemetry.
func (o Outbound) metadata() *corev3.Metadata {
	fields := map[string]*structpb.Value{"services": services(o.Service)}
	if o.Rule.Name != "" {
		fields["config"] = structpb.NewStringValue(
			"/apis/networking.istio.io/v1/namespaces/" + o.Rule.Namespace + "/destination-rule/" + o.Rule.Name)
	}
	if o.Key.Subset != "" {
		fields["subset"] = structpb.NewStringValue(o.Key.Subset)
	}
	out := istio(fields)
	if alpn := o.announcement(); alpn != "" {
		out.FilterMetadata[tls.Metadata] = &structpb.Struct{
			Fields: map[string]*structpb.Value{tls.Announcement: structpb.NewStringValue(alpn)},
		}
	}
	if o.Discovery == Named {
		out.FilterMetadata[dynamic.Metadata] = dynamic.Port(o.dials())
	}
	return out
}

func istio(fields map[string]*structpb.Value) *corev3.Metadata {
	return &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{"istio": {Fields: fields}}}
}

func services(list ...*mesh.Service) *structpb.Value {
	values := make([]*structpb.Value, len(list))
	for i, s := range list {
		values[i] = structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{
			"host":      structpb.NewStringValue(string(s.Key.Host)),
			"name":      structpb.NewStringValue(name(s)),
			"namespace": structpb.NewStringValue(s.Key.Namespace),
		}})
	}
	return structpb.NewListValue(&structpb.ListValue{Values: values})
}

// noService returns metadata for a cluster without a service: the cluster's name takes the place of the service's name in telemetry.
func noService(name string) *corev3.Metadata {
	entry := &structpb.Struct{Fields: map[string]*structpb.Value{"name": structpb.NewStringValue(name)}}
	return istio(
		map[string]*structpb.Value{
			"services": structpb.NewListValue(&structpb.ListValue{Values: []*structpb.Value{structpb.NewStructValue(entry)}}),
		},
	)
}

// name returns the first label of a host inside a cluster's domain, and the whole host otherwise.
func name(s *mesh.Service) string {
	host := string(s.Key.Host)
	if short, rest, ok := strings.Cut(host, "."); ok && strings.HasPrefix(rest, s.Key.Namespace+".svc.") {
		return short
	}
	return host
}
