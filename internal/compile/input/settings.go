package input

import (
	"slices"
	"strings"
	"time"

	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	"fairway/internal/config"
	"fairway/internal/envoy/listener"
	"fairway/internal/envoy/tls"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// declareSettings splits MeshConfig by field: each row is a MeshConfig with only the field in its key set. Fields that no one set have no
// row.
func declareSettings(from *table.Table[config.Key, *config.Object]) *table.Table[string, *meshconfig.MeshConfig] {
	same := func(a, b *meshconfig.MeshConfig) bool { return proto.Equal(a, b) }
	return table.Derive(from, "settings", strings.Compare, same,
		func(_ *table.Reader, k config.Key, o *config.Object, emit func(string, *meshconfig.MeshConfig)) {
			if k.Kind != config.MeshConfig {
				return
			}
			config.Spec[*meshconfig.MeshConfig](o).ProtoReflect().Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
				one := &meshconfig.MeshConfig{}
				one.ProtoReflect().Set(fd, v)
				emit(string(fd.Name()), one)
				return true
			})
		}).SkipInOrigins()
}

// field reads one field of MeshConfig, by its proto name. If the field is unset, the message is nil, and its getters return zero values.
func (t *Tables) field(r *table.Reader, name string) *meshconfig.MeshConfig {
	m, _ := table.Get(r, t.settings, name)
	return m
}

// DomainSuffix returns the domain of the mesh's own services: "cluster.local".
func (t *Tables) DomainSuffix() string {
	if t.opts.DomainSuffix != "" {
		return t.opts.DomainSuffix
	}
	return "cluster.local"
}

// OwnRegistry returns the registry of the cluster that rules come from.
func (t *Tables) OwnRegistry() string { return mesh.RegistryOf(t.opts.Cluster) }

// usualRoot is the root namespace if none is configured. MeshConfig names it then, too (config.DefaultMeshConfig).
const usualRoot = "istio-system"

// RootNamespace returns the namespace with the objects that hold for the whole mesh: MeshConfig.rootNamespace if it differs from the usual
// one, else that of the options.
func (t *Tables) RootNamespace(r *table.Reader) string { return t.rootOf(t.field(r, "root_namespace")) }

// RootNamespaceNow is RootNamespace for callers outside of a derivation.
func (t *Tables) RootNamespaceNow(tx *table.Tx) string {
	m, _ := table.Lookup(tx, t.settings, "root_namespace")
	return t.rootOf(m)
}

func (t *Tables) rootOf(m *meshconfig.MeshConfig) string {
	if said := m.GetRootNamespace(); said != "" && said != usualRoot {
		return said
	}
	return orString(t.opts.RootNamespace, usualRoot)
}

// OutboundPolicy returns the policy for traffic to undeclared hosts: MeshConfig.outboundTrafficPolicy, ALLOW_ANY by default.
func (t *Tables) OutboundPolicy(r *table.Reader) *meshconfig.MeshConfig_OutboundTrafficPolicy {
	if p := t.field(r, "outbound_traffic_policy").GetOutboundTrafficPolicy(); p != nil {
		return p
	}
	return &meshconfig.MeshConfig_OutboundTrafficPolicy{Mode: meshconfig.MeshConfig_OutboundTrafficPolicy_ALLOW_ANY}
}

// ToLocalhost reports whether connections to the targets of services on a workload go to its loopback address instead of their original
// destination (MeshConfig.inboundTrafficPolicy).
func (t *Tables) ToLocalhost(r *table.Reader) bool {
	policy := t.field(r, "inbound_traffic_policy").GetInboundTrafficPolicy()
	return policy.GetMode() == meshconfig.MeshConfig_InboundTrafficPolicy_LOCALHOST
}

// MeshTLS returns what servers of the mesh's own mutual TLS speak (MeshConfig.meshMTLS): 1.2 or later by default.
func (t *Tables) MeshTLS(r *table.Reader) tls.Mesh {
	said := t.field(r, "mesh_mTLS").GetMeshMTLS()
	return tls.Mesh{
		From13:  said.GetMinProtocolVersion() == meshconfig.MeshConfig_TLSConfig_TLSV1_3,
		Ciphers: known(said.GetCipherSuites(), tls.KnownCipher),
	}
}

// TLSDefaults returns the defaults for TLS that is not the mesh's own mutual TLS (MeshConfig.tlsDefaults).
func (t *Tables) TLSDefaults(r *table.Reader) tls.Defaults {
	said := t.field(r, "tls_defaults").GetTlsDefaults()
	return tls.Defaults{
		From13:  said.GetMinProtocolVersion() == meshconfig.MeshConfig_TLSConfig_TLSV1_3,
		Ciphers: known(said.GetCipherSuites(), tls.KnownCipher),
		Curves:  known(said.GetEcdhCurves(), tls.KnownCurve),
	}
}

// known returns the items of a list that Envoy knows, each once.
func known(list []string, is func(string) bool) (out []string) {
	for _, c := range list {
		if is(c) && !slices.Contains(out, c) {
			out = append(out, c)
		}
	}
	return out
}

// ListenersQuiet reports whether listeners do not log connections that none of their filter chains took
// (MeshConfig.disableEnvoyListenerLog).
func (t *Tables) ListenersQuiet(r *table.Reader) bool {
	return t.field(r, "disable_envoy_listener_log").GetDisableEnvoyListenerLog()
}

// EntryVisibility returns how far ServiceEntries of a namespace are seen at most: MeshConfig.serviceEntryVisibility, if it applies to
// sidecars. The first policy with only matching rules counts.
func (t *Tables) EntryVisibility(r *table.Reader, namespace string) meshconfig.ServiceEntryVisibility_Visibility {
	said := t.field(r, "service_entry_visibility").GetServiceEntryVisibility()
	if !said.GetApplyToSidecars() {
		return meshconfig.ServiceEntryVisibility_PUBLIC
	}
	n, _ := table.Get(r, t.Namespaces, mesh.NamespaceKey{Registry: t.OwnRegistry(), Name: namespace})
	return config.EntryVisibility(said, namespace, n.Labels.Map())
}

// ConnectTimeout returns how long a proxy tries to connect to an endpoint: 10 s by default.
func (t *Tables) ConnectTimeout(r *table.Reader) time.Duration {
	return orDuration(t.field(r, "connect_timeout").GetConnectTimeout(), 10*time.Second)
}

// DNSRefreshRate returns how often a proxy resolves DNS names without a TTL: 60 s by default.
func (t *Tables) DNSRefreshRate(r *table.Reader) time.Duration {
	return orDuration(t.field(r, "dns_refresh_rate").GetDnsRefreshRate(), 60*time.Second)
}

// ProtocolDetectionTimeout returns how long a listener waits for the first bytes, which tell the protocol; 0, the default, means for ever.
func (t *Tables) ProtocolDetectionTimeout(r *table.Reader) time.Duration {
	return orDuration(t.field(r, "protocol_detection_timeout").GetProtocolDetectionTimeout(), 0)
}

// TCPKeepalive returns the mesh-wide default for connections to endpoints; nil: the system's.
func (t *Tables) TCPKeepalive(r *table.Reader) *networking.ConnectionPoolSettings_TCPSettings_TcpKeepalive {
	return t.field(r, "tcp_keepalive").GetTcpKeepalive()
}

// Ingress says which Ingresses count, by class and mode, and which gateways serve them, by their label "istio" (MeshConfig.ingressClass,
// ingressControllerMode, ingressSelector).
func (t *Tables) Ingress(r *table.Reader) (class string, mode meshconfig.MeshConfig_IngressControllerMode, selector string) {
	class = orString(t.field(r, "ingress_class").GetIngressClass(), "istio")
	if mode = t.field(r, "ingress_controller_mode").GetIngressControllerMode(); mode == meshconfig.MeshConfig_UNSPECIFIED {
		mode = meshconfig.MeshConfig_STRICT
	}
	return class, mode, orString(t.field(r, "ingress_selector").GetIngressSelector(), "ingressgateway")
}

// AccessLog returns what proxies log if no Telemetry says it: MeshConfig.accessLogFile, accessLogFormat, accessLogEncoding.
func (t *Tables) AccessLog(r *table.Reader) listener.AccessLog {
	var out listener.AccessLog
	if out.File = t.field(r, "access_log_file").GetAccessLogFile(); out.File == "" {
		return out
	}
	out.Format = t.field(r, "access_log_format").GetAccessLogFormat()
	out.JSON = t.field(r, "access_log_encoding").GetAccessLogEncoding() == meshconfig.MeshConfig_JSON
	return out
}

// DefaultProviders returns the providers for Telemetries that name none (MeshConfig.defaultProviders); nil: only metrics are reported.
func (t *Tables) DefaultProviders(r *table.Reader) *meshconfig.MeshConfig_DefaultProviders {
	return t.field(r, "default_providers").GetDefaultProviders()
}

// ExtensionProviders returns the mesh's providers by name, including the built-in ones (MeshConfig.extensionProviders).
func (t *Tables) ExtensionProviders(r *table.Reader) map[string]*meshconfig.MeshConfig_ExtensionProvider {
	out := map[string]*meshconfig.MeshConfig_ExtensionProvider{}
	for _, p := range slices.Concat(config.DefaultMeshConfig().GetExtensionProviders(),
		t.field(r, "extension_providers").GetExtensionProviders()) {
		out[p.GetName()] = p
	}
	return out
}

// DefaultRetry returns the retry policy of routes that have none; nil: the built-in one (MeshConfig.defaultHttpRetryPolicy).
func (t *Tables) DefaultRetry(r *table.Reader) *networking.HTTPRetry {
	return t.field(r, "default_http_retry_policy").GetDefaultHttpRetryPolicy()
}

// DefaultTrafficPolicy returns the mesh-wide connection pool and outlier settings; nil: there are none.
func (t *Tables) DefaultTrafficPolicy(r *table.Reader) *meshconfig.MeshConfig_DefaultTrafficPolicy {
	return t.field(r, "default_traffic_policy").GetDefaultTrafficPolicy()
}

// LocalityLB returns how localities are told apart if a DestinationRule does not say (MeshConfig.localityLbSetting); nil: the default,
// which is to fail over from the nearest.
func (t *Tables) LocalityLB(r *table.Reader) *networking.LocalityLoadBalancerSetting {
	return t.field(r, "locality_lb_setting").GetLocalityLbSetting()
}

// ZoneAwareLB returns how Envoys keep requests in their zones by themselves; nil: they do not. It takes precedence over LocalityLB.
func (t *Tables) ZoneAwareLB(r *table.Reader) *networking.ZoneAwareLoadBalancerSetting {
	return t.field(r, "zone_aware_lb_setting").GetZoneAwareLbSetting()
}

// EnableAutoMTLS reports whether clients use mutual TLS without a rule if the server can: true by default.
func (t *Tables) EnableAutoMTLS(r *table.Reader) bool {
	if v := t.field(r, "enable_auto_mtls").GetEnableAutoMtls(); v != nil {
		return v.GetValue()
	}
	return true
}

// TrustDomain returns the trust domain of the mesh's identities: cluster.local by default.
func (t *Tables) TrustDomain(r *table.Reader) string { return trustDomain(t.field(r, "trust_domain")) }

// TrustDomainNow is TrustDomain for callers outside of a derivation.
func (t *Tables) TrustDomainNow(tx *table.Tx) string {
	m, _ := table.Lookup(tx, t.settings, "trust_domain")
	return trustDomain(m)
}

func trustDomain(m *meshconfig.MeshConfig) string {
	return orString(m.GetTrustDomain(), "cluster.local")
}

// TrustDomains returns the domains of the mesh's own identities: TrustDomain and its aliases (MeshConfig.trustDomainAliases).
func (t *Tables) TrustDomains(r *table.Reader) []string {
	return append([]string{t.TrustDomain(r)}, t.field(r, "trust_domain_aliases").GetTrustDomainAliases()...)
}

// SelectsNamespaces reports whether workloads of only some namespaces are read (MeshConfig.discoverySelectors).
func (t *Tables) SelectsNamespaces(r *table.Reader) bool {
	return len(t.field(r, "discovery_selectors").GetDiscoverySelectors()) > 0
}

// AllRead reports whether every source has been read, so that what is not known does not exist.
func (t *Tables) AllRead(r *table.Reader) bool { return table.Has(r, t.SourcesRead.Table, struct{}{}) }

// H2Upgrade reports whether HTTP/1.1 connections to services are upgraded to HTTP/2 unless a DestinationRule says otherwise.
func (t *Tables) H2Upgrade(r *table.Reader) bool {
	return t.field(r, "h2_upgrade_policy").GetH2UpgradePolicy() == meshconfig.MeshConfig_UPGRADE
}

// PathNormalization returns how proxies normalize a path before they match it; DEFAULT is BASE.
func (t *Tables) PathNormalization(r *table.Reader) meshconfig.MeshConfig_ProxyPathNormalization_NormalizationType {
	return t.field(r, "path_normalization").GetPathNormalization().GetNormalization()
}

// OutboundStatName returns the pattern for names of outbound clusters in statistics; "" is the cluster's name
// (MeshConfig.outboundClusterStatName).
func (t *Tables) OutboundStatName(r *table.Reader) string {
	return t.field(r, "outbound_cluster_stat_name").GetOutboundClusterStatName()
}

// InboundStatName returns the pattern for names of inbound clusters in statistics; "" is the cluster's name.
func (t *Tables) InboundStatName(r *table.Reader) string {
	return t.field(r, "inbound_cluster_stat_name").GetInboundClusterStatName()
}

// ProxyListenPort returns the port where a sidecar takes redirected outbound connections: 15001 by default.
func (t *Tables) ProxyListenPort(r *table.Reader) uint32 {
	return orPort(t.field(r, "proxy_listen_port").GetProxyListenPort(), 15001)
}

// ProxyInboundPort returns the port where a sidecar takes redirected inbound connections: 15006 by default.
func (t *Tables) ProxyInboundPort(r *table.Reader) uint32 {
	return orPort(t.field(r, "proxy_inbound_listen_port").GetProxyInboundListenPort(), 15006)
}

// ProxyHTTPPort returns the port where a sidecar is an HTTP forward proxy; 0, the default: it is none.
func (t *Tables) ProxyHTTPPort(r *table.Reader) uint32 {
	return orPort(t.field(r, "proxy_http_port").GetProxyHttpPort(), 0)
}

// ExportTo returns the visibility of an object of a kind that sets none itself:
// MeshConfig.default{Service,VirtualService,DestinationRule}ExportTo, "*" by default. The result is never empty.
func (t *Tables) ExportTo(r *table.Reader, kind config.Kind, own []string) []string {
	if len(own) > 0 {
		return own
	}
	var list []string
	switch kind {
	case config.VirtualService:
		list = t.field(r, "default_virtual_service_export_to").GetDefaultVirtualServiceExportTo()
	case config.DestinationRule:
		list = t.field(r, "default_destination_rule_export_to").GetDefaultDestinationRuleExportTo()
	default:
		list = t.field(r, "default_service_export_to").GetDefaultServiceExportTo()
	}
	if len(list) == 0 {
		return []string{"*"}
	}
	return list
}

func orString(s, def string) string {
	if s == "" {
		return def
	}
	return s
}

func orDuration(d *durationpb.Duration, def time.Duration) time.Duration {
	if d == nil {
		return def
	}
	return d.AsDuration()
}

func orPort(n int32, def uint32) uint32 {
	if n <= 0 {
		return def
	}
	return uint32(n)
}
