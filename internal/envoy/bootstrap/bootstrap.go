package bootstrap

import (
	"fmt"
	"maps"
	"time"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"

	"fairway/internal/envoy/extension"
	"fairway/internal/envoy/tls"
	"fairway/internal/mesh"
)

// SecretsCluster is the static cluster of Params.SecretsSocket.
const SecretsCluster = tls.SecretsCluster

// TokenHeader is the header that carries Params.Token.
const TokenHeader = "x-fairway-token"

// XDSCluster is the static cluster that every ADS stream goes through. Istio's dashboards know it by this name.
const XDSCluster = "xds-grpc"

// Build returns the bootstrap for p. It fails if metadata is not a JSON value, a socket's path is too long, or a message is refused by its
// own validation.
func Build(p Params) (*bootstrapv3.Bootstrap, error) {
	node, err := NodeMessage(p)
	if err != nil {
		return nil, err
	}
	runtime, err := layeredRuntime(p.Runtime)
	if err != nil {
		return nil, err
	}
	b := &bootstrapv3.Bootstrap{
		Node:             node,
		DynamicResources: dynamicResources(p),
		ClusterManager:   clusterManager(p),
		StaticResources: &bootstrapv3.Bootstrap_StaticResources{
			Clusters: staticClusters(p), Listeners: staticListeners(p),
		},
		Admin: &bootstrapv3.Admin{
			Address: adminAddress(p),
			// The way in must stay open when all connections are taken.
			IgnoreGlobalConnLimit: true,
		},
		StatsConfig: statsConfig(p.Stats),
		// A small mesh sees few of its clusters used: their statistics cost memory only from their first request on.
		DeferredStatOptions: &bootstrapv3.Bootstrap_DeferredStatOptions{EnableDeferredCreationStats: true},
		LayeredRuntime:      runtime,
		OverloadManager:     overload(p.DrainFile, p.Connections),
	}
	if err := checkSockets(p); err != nil {
		return nil, err
	}
	if err := b.ValidateAll(); err != nil {
		return nil, fmt.Errorf("build bootstrap: %w", err)
	}
	return b, nil
}

// identified returns the node with metadata about its identity: a proxy that gets no certificates must not be sent anything that needs
// them (mesh.Proxy.Mutual). The metadata also says whether the agent fetches modules (mesh.Proxy.Modules).
func (p Params) identified() Node {
	n := p.Node
	n.Metadata = maps.Clone(n.Metadata)
	if n.Metadata == nil {
		n.Metadata = map[string]any{}
	}
	if p.SecretsSocket == "" {
		n.Metadata["FAIRWAY_IDENTITY"] = "none"
	}
	if delete(n.Metadata, "FAIRWAY_EXTENSIONS"); p.ExtensionsSocket != "" {
		n.Metadata["FAIRWAY_EXTENSIONS"] = "agent"
	}
	return n
}

func staticClusters(p Params) []*clusterv3.Cluster {
	out := []*clusterv3.Cluster{xdsCluster(p)}
	if p.SecretsSocket != "" {
		out = append(out, secretsCluster(p))
	}
	if p.ExtensionsSocket != "" {
		out = append(out, agentsCluster(extension.AgentCluster, p.ExtensionsSocket, p.Token))
	}
	if p.Prometheus.Port != 0 {
		out = append(out, adminCluster(p))
	}
	if p.Ready.Port != 0 {
		out = append(out, localCluster(agentCluster, p.Status))
	}
	if p.discovers() {
		out = append(out, peersCluster())
	}
	return out
}

// discovers reports whether Envoy needs the endpoints of the workload's own peers. The node's metadata says so, to the control plane too.
func (p Params) discovers() bool {
	said, _ := p.Node.Metadata[mesh.SelfDiscovery].(string)
	return said == "1" || said == "true"
}

// clusterManager names the cluster of the workload's own peers. Envoy compares the zones of this cluster with those of other clusters to
// choose endpoints.
func clusterManager(p Params) *bootstrapv3.ClusterManager {
	if !p.discovers() {
		return nil
	}
	return &bootstrapv3.ClusterManager{LocalClusterName: mesh.PeersCluster}
}

func staticListeners(p Params) []*listenerv3.Listener {
	var out []*listenerv3.Listener
	if p.Prometheus.Port != 0 {
		out = append(out, pageListener("prometheus", p.Prometheus, "/stats/prometheus", PrometheusCluster))
	}
	if p.Ready.Port != 0 {
		out = append(out, pageListener("readiness", p.Ready, "/healthz/ready", agentCluster))
	}
	return out
}

// longestSocket is the maximum length of a unix socket's path, including its final zero byte (sockaddr_un.sun_path).
const longestSocket = 108

func checkSockets(p Params) error {
	for _, path := range []string{p.DiscoverySocket, p.SecretsSocket, p.ExtensionsSocket, p.AdminSocket, p.AdminMoved} {
		if len(path) >= longestSocket {
			return fmt.Errorf(
				"build bootstrap: the socket's path %s is longer than the %d bytes that the system allows; choose a shorter folder",
				path, longestSocket-1)
		}
	}
	return nil
}

// JSON returns a bootstrap as JSON, which Envoy reads from a file named *.json. Equal messages may differ in white space.
func JSON(b *bootstrapv3.Bootstrap) ([]byte, error) {
	out, err := protojson.MarshalOptions{Multiline: true, Indent: "  ", UseProtoNames: true}.Marshal(b)
	if err != nil {
		return nil, fmt.Errorf("render bootstrap: %w", err)
	}
	return append(out, '\n'), nil
}

// NodeMessage returns the node that an Envoy with these parameters sends to the control plane. It fails if metadata is not a JSON value.
func NodeMessage(p Params) (*corev3.Node, error) { return buildNode(p.identified()) }

func buildNode(n Node) (*corev3.Node, error) {
	metadata, err := structpb.NewStruct(n.Metadata)
	if err != nil {
		return nil, fmt.Errorf("node metadata: %w", err)
	}
	node := &corev3.Node{Id: n.ID(), Cluster: n.Cluster, Metadata: metadata}
	if l := n.Locality; l.Region != "" {
		node.Locality = &corev3.Locality{Region: l.Region, Zone: l.Zone, SubZone: l.SubZone}
	}
	return node, nil
}

// shown returns the header that proves to the agent, on the xDS stream, that it started this Envoy. It is not sent to remote control
// planes.
func shown(p Params) []*corev3.HeaderValue {
	if p.Token == "" || p.DiscoverySocket == "" {
		return nil
	}
	return []*corev3.HeaderValue{{Key: TokenHeader, Value: p.Token}}
}

// dynamicResources: clusters and listeners over one incremental ADS stream. An Envoy without a timeout on its first fetch
// waits for its control plane instead of going live with nothing.
func dynamicResources(p Params) *bootstrapv3.Bootstrap_DynamicResources {
	longest := 10 * time.Second
	if p.DiscoverySocket == "" && len(p.Others) > 0 {
		longest = 2 * time.Second // another control plane is there: see amongOthers
	}
	return &bootstrapv3.Bootstrap_DynamicResources{
		LdsConfig: overADS(),
		CdsConfig: overADS(),
		AdsConfig: &corev3.ApiConfigSource{
			ApiType:                   corev3.ApiConfigSource_DELTA_GRPC,
			TransportApiVersion:       corev3.ApiVersion_V3,
			SetNodeOnFirstMessageOnly: true,
			GrpcServices: []*corev3.GrpcService{{
				InitialMetadata: shown(p),
				TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{
					ClusterName: XDSCluster,
					// Between attempts to open the stream, with jitter, so that a restarted control plane is not stormed.
					RetryPolicy: &corev3.RetryPolicy{RetryBackOff: &corev3.BackoffStrategy{
						BaseInterval: durationpb.New(200 * time.Millisecond),
						MaxInterval:  durationpb.New(longest),
					}},
				}},
			}},
		},
	}
}

func overADS() *corev3.ConfigSource {
	return &corev3.ConfigSource{
		ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}},
		InitialFetchTimeout:   durationpb.New(0),
		ResourceApiVersion:    corev3.ApiVersion_V3,
	}
}

// layeredRuntime: the project's values with the user's over them, and on top what an operator sets at /runtime_modify.
func layeredRuntime(extra map[string]string) (*bootstrapv3.LayeredRuntime, error) {
	// Regular expressions that users write may be long; Envoy's default of 100 refuses ordinary ones.
	values := map[string]any{"re2.max_program_size.error_level": 32768}
	for k, v := range extra {
		values[k] = v
	}
	static, err := structpb.NewStruct(values)
	if err != nil {
		return nil, fmt.Errorf("runtime values: %w", err)
	}
	return &bootstrapv3.LayeredRuntime{Layers: []*bootstrapv3.RuntimeLayer{
		{Name: "static", LayerSpecifier: &bootstrapv3.RuntimeLayer_StaticLayer{StaticLayer: static}},
		{Name: "admin", LayerSpecifier: &bootstrapv3.RuntimeLayer_AdminLayer_{AdminLayer: &bootstrapv3.RuntimeLayer_AdminLayer{}}},
	}}, nil
}
