package extension

import (
	"net/http"
	"slices"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	faultv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/fault/v3"
	httprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	networkrbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/rbac/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	"fairway/internal/envoy"
	"fairway/internal/envoy/listener"
)

// AgentCluster is the static cluster through which an Envoy requests filters from its agent, if the agent fetches their modules.
const AgentCluster = "extensions-grpc"

// Source is the server that sends an extension's configuration to an Envoy.
type Source uint8

// The sources.
const (
	ControlPlane Source = iota
	Agent
	NoServer // no server sends it
)

// patience is how long a new listener waits for the configuration of its filters. Then it serves according to the extension's
// failStrategy. The time is enough to fetch a module from a server nearby.
const patience = 5 * time.Second

// discovery requests the configuration from a source; without is used until it arrives.
func (e *Extension) discovery(from Source, without *anypb.Any) *corev3.ExtensionConfigSource {
	config := &corev3.ConfigSource{
		ResourceApiVersion:    corev3.ApiVersion_V3,
		InitialFetchTimeout:   durationpb.New(patience),
		ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}},
	}
	if from == Agent {
		config.ConfigSourceSpecifier = &corev3.ConfigSource_ApiConfigSource{ApiConfigSource: &corev3.ApiConfigSource{
			ApiType: corev3.ApiConfigSource_GRPC, TransportApiVersion: corev3.ApiVersion_V3, SetNodeOnFirstMessageOnly: true,
			GrpcServices: []*corev3.GrpcService{{TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{
				EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{ClusterName: AgentCluster},
			}}},
		}}
	}
	types := []string{e.Config.GetTypedConfig().GetTypeUrl(), without.GetTypeUrl()}
	slices.Sort(types)
	return &corev3.ExtensionConfigSource{ConfigSource: config, DefaultConfig: without, TypeUrls: types}
}

// HTTP returns the extension's filter of requests.
func (e *Extension) HTTP(from Source) *hcmv3.HttpFilter {
	without := e.withoutHTTP()
	f := &hcmv3.HttpFilter{Name: e.Name, ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: without}}
	if from != NoServer {
		f.ConfigType = &hcmv3.HttpFilter_ConfigDiscovery{ConfigDiscovery: e.discovery(from, without)}
	}
	return f
}

// Connections returns the extension's filter of connections.
func (e *Extension) Connections(from Source) *listenerv3.Filter {
	without := e.withoutNetwork()
	f := &listenerv3.Filter{Name: e.Name, ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: without}}
	if from != NoServer {
		f.ConfigType = &listenerv3.Filter_ConfigDiscovery{ConfigDiscovery: e.discovery(from, without)}
	}
	return f
}

// withoutHTTP returns the configuration that applies to requests without the extension: they pass, or "all subsequent requests […] fail
// with 5xx" (FailStrategy.FAIL_CLOSE).
func (e *Extension) withoutHTTP() *anypb.Any {
	if e.FailOpen {
		return envoy.Any(&httprbacv3.RBAC{})
	}
	return envoy.Any(&faultv3.HTTPFault{Abort: &faultv3.FaultAbort{
		ErrorType:  &faultv3.FaultAbort_HttpStatus{HttpStatus: http.StatusServiceUnavailable},
		Percentage: &typev3.FractionalPercent{Numerator: 100, Denominator: typev3.FractionalPercent_HUNDRED},
	}})
}

// withoutNetwork returns the configuration that applies to connections without the extension: they pass, or are closed.
func (e *Extension) withoutNetwork() *anypb.Any {
	m := &networkrbacv3.RBAC{StatPrefix: "extension."}
	if !e.FailOpen {
		m.Rules = &rbacv3.RBAC{Action: rbacv3.RBAC_ALLOW}
	}
	return envoy.Any(m)
}

// Placed is an extension, and the source of its configuration for the proxies of a listener.
type Placed struct {
	*Extension
	From Source
}

// Into adds extensions, in their order, to a listener that was built for a sidecar or a gateway. It reports whether it changed the
// listener.
func Into(l *listenerv3.Listener, list []Placed) (bool, error) {
	return listener.Extend(l, func(serves bool, port uint32) (out listener.Phased, any bool) {
		for _, e := range list {
			switch {
			case !e.Passes(serves, port):
				continue
			case e.Network:
				out = out.WithConnections(e.Phase, e.Connections(e.From))
			default:
				out = out.WithHTTP(e.Phase, e.HTTP(e.From))
			}
			any = true
		}
		return out, any
	})
}
