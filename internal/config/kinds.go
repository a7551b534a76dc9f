package config

import (
	"google.golang.org/protobuf/proto"
	extensionsv1alpha1 "istio.io/api/extensions/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"
	networkingv1beta1 "istio.io/api/networking/v1beta1"
	securityv1beta1 "istio.io/api/security/v1beta1"
	telemetryv1alpha1 "istio.io/api/telemetry/v1alpha1"
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

// kindTable has one line a kind: its API group, the message its spec is, and the rules that its schema cannot say.
func kindTable() []*kind {
	const (
		ofNetworking = "networking.istio.io"
		ofSecurity   = "security.istio.io"
		ofTelemetry  = "telemetry.istio.io"
		ofExtensions = "extensions.istio.io"
	)
	return []*kind{
		kindOf(
			ofNetworking,
			VirtualService,
			func() *networking.VirtualService { return new(networking.VirtualService) },
			checkVirtualService,
		),
		kindOf(
			ofNetworking,
			DestinationRule,
			func() *networking.DestinationRule { return new(networking.DestinationRule) },
			checkDestinationRule,
		),
		kindOf(ofNetworking, Gateway, func() *networking.Gateway { return new(networking.Gateway) }, checkGateway),
		kindOf(ofNetworking, ServiceEntry, func() *networking.ServiceEntry { return new(networking.ServiceEntry) }, checkServiceEntry),
		kindOf(ofNetworking, Sidecar, func() *networking.Sidecar { return new(networking.Sidecar) }, checkSidecar),
		kindOf(ofNetworking, WorkloadEntry, func() *networking.WorkloadEntry { return new(networking.WorkloadEntry) }, checkWorkloadEntry),
		kindOf(ofNetworking, WorkloadGroup, func() *networking.WorkloadGroup { return new(networking.WorkloadGroup) }, checkWorkloadGroup),
		kindOf(ofNetworking, EnvoyFilter, func() *networking.EnvoyFilter { return new(networking.EnvoyFilter) }, checkEnvoyFilter),
		kindOf(
			ofNetworking,
			ProxyConfig,
			func() *networkingv1beta1.ProxyConfig { return new(networkingv1beta1.ProxyConfig) },
			checkProxyConfig,
		),
		kindOf(
			ofSecurity,
			PeerAuthentication,
			func() *securityv1beta1.PeerAuthentication { return new(securityv1beta1.PeerAuthentication) },
			checkPeerAuthentication,
		),
		kindOf(
			ofSecurity,
			RequestAuthentication,
			func() *securityv1beta1.RequestAuthentication { return new(securityv1beta1.RequestAuthentication) },
			checkRequestAuthentication,
		),
		kindOf(
			ofSecurity,
			AuthorizationPolicy,
			func() *securityv1beta1.AuthorizationPolicy { return new(securityv1beta1.AuthorizationPolicy) },
			checkAuthorizationPolicy,
		),
		kindOf(ofTelemetry, Telemetry, func() *telemetryv1alpha1.Telemetry { return new(telemetryv1alpha1.Telemetry) }, checkTelemetry),
		kindOf(
			ofExtensions,
			WasmPlugin,
			func() *extensionsv1alpha1.WasmPlugin { return new(extensionsv1alpha1.WasmPlugin) },
			checkWasmPlugin,
		),
		kindOf(
			ofExtensions,
			TrafficExtension,
			func() *extensionsv1alpha1.TrafficExtension { return new(extensionsv1alpha1.TrafficExtension) },
			checkTrafficExtension,
		),
	}
}

func kindsByName() map[Kind]*kind {
	out := map[Kind]*kind{Secret: secretKind()}
	for _, k := range kindTable() {
		out[k.name] = k
	}
	return out
}

// kindOf makes the entry of a kind whose spec is a T. The rules run on a spec that decoded without an error.
func kindOf[T proto.Message](group string, name Kind, empty func() T, rules func(*check, T)) *kind {
	k := &kind{group: group, name: name}
	k.empty = func() proto.Message { return empty() }
	k.rules = func(c *check, m proto.Message) { rules(c, m.(T)) }
	return k
}
