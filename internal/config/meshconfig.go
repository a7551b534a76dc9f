package config

import (
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/config/report"
	"fairway/internal/config/rule"
	"fairway/internal/config/traffic"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
)

// DefaultMeshConfig returns the defaults of a mesh configuration, as https://istio.io/latest/docs/reference/config/istio.mesh.v1alpha1/
// documents them. Each call returns a new message. It has no DefaultProviders: if a user sets none, metrics are counted, as with Istio's
// installation; if a user writes an empty list, they are not.
func DefaultMeshConfig() *meshconfig.MeshConfig {
	return &meshconfig.MeshConfig{
		ProxyListenPort:          15001,
		ProxyInboundListenPort:   15006,
		ConnectTimeout:           durationpb.New(10 * time.Second),
		ProtocolDetectionTimeout: durationpb.New(0),
		IngressClass:             "istio",
		IngressService:           "istio-ingressgateway",
		IngressControllerMode:    meshconfig.MeshConfig_STRICT,
		IngressSelector:          "ingressgateway",
		EnableTracing:            true,
		AccessLogEncoding:        meshconfig.MeshConfig_TEXT,
		DefaultConfig:            defaultProxyConfig(),
		OutboundTrafficPolicy: &meshconfig.MeshConfig_OutboundTrafficPolicy{
			Mode: meshconfig.MeshConfig_OutboundTrafficPolicy_ALLOW_ANY,
		},
		InboundTrafficPolicy: &meshconfig.MeshConfig_InboundTrafficPolicy{
			Mode: meshconfig.MeshConfig_InboundTrafficPolicy_PASSTHROUGH,
		},
		EnableAutoMtls:                 wrapperspb.Bool(true),
		TrustDomain:                    "cluster.local",
		DefaultServiceExportTo:         []string{"*"},
		DefaultVirtualServiceExportTo:  []string{"*"},
		DefaultDestinationRuleExportTo: []string{"*"},
		RootNamespace:                  "istio-system",
		LocalityLbSetting:              &networking.LocalityLoadBalancerSetting{Enabled: wrapperspb.Bool(true)},
		DnsRefreshRate:                 durationpb.New(60 * time.Second),
		EnablePrometheusMerge:          wrapperspb.Bool(true),
		ExtensionProviders: []*meshconfig.MeshConfig_ExtensionProvider{
			{Name: "prometheus", Provider: &meshconfig.MeshConfig_ExtensionProvider_Prometheus{
				Prometheus: &meshconfig.MeshConfig_ExtensionProvider_PrometheusMetricsProvider{},
			}},
			{Name: "envoy", Provider: &meshconfig.MeshConfig_ExtensionProvider_EnvoyFileAccessLog{
				EnvoyFileAccessLog: &meshconfig.MeshConfig_ExtensionProvider_EnvoyFileAccessLogProvider{Path: "/dev/stdout"},
			}},
		},
	}
}

func defaultProxyConfig() *meshconfig.ProxyConfig {
	return &meshconfig.ProxyConfig{
		ConfigPath:               "./etc/istio/proxy",
		BinaryPath:               "/usr/local/bin/envoy",
		ClusterName:              &meshconfig.ProxyConfig_ServiceCluster{ServiceCluster: "istio-proxy"},
		DrainDuration:            durationpb.New(45 * time.Second),
		TerminationDrainDuration: durationpb.New(5 * time.Second),
		ProxyAdminPort:           15000,
		ControlPlaneAuthPolicy:   meshconfig.AuthenticationPolicy_MUTUAL_TLS,
		DiscoveryAddress:         "istiod.istio-system.svc:15012",
		StatNameLength:           189,
		StatusPort:               15020,
	}
}

// DefaultMesh returns the default mesh configuration as an object, for a mesh without one.
func DefaultMesh() *Object {
	o := &Object{Key: Key{Kind: MeshConfig}, Spec: DefaultMeshConfig(), Ref: mesh.ObjectRef{Kind: string(MeshConfig)}}
	o.Hash = hash(o)
	return o
}

// addDefaultProviders appends the built-in providers to the user's own, which had replaced them; a user's provider of the same name has
// precedence.
func addDefaultProviders(m *meshconfig.MeshConfig) {
	for _, p := range DefaultMeshConfig().ExtensionProviders {
		named := func(own *meshconfig.MeshConfig_ExtensionProvider) bool { return own.Name == p.Name }
		if !slices.ContainsFunc(m.ExtensionProviders, named) {
			m.ExtensionProviders = append(m.ExtensionProviders, p)
		}
	}
}

func newMeshNetworks() *meshconfig.MeshNetworks { return new(meshconfig.MeshNetworks) }

// checkMeshConfig holds the rules of the mesh configuration's documentation.
func checkMeshConfig(c *rule.Check, m *meshconfig.MeshConfig) {
	at := &report.Path{}
	c.Port(at.Key("proxyListenPort"), uint32(m.ProxyListenPort))
	c.Port(at.Key("proxyInboundListenPort"), uint32(m.ProxyInboundListenPort))
	if m.ProxyListenPort == m.ProxyInboundListenPort {
		c.Fail(at.Key("proxyInboundListenPort"), code.Conflict, "inbound and outbound traffic cannot share a port", "")
	}
	if m.ProxyHttpPort != 0 {
		c.Port(at.Key("proxyHttpPort"), uint32(m.ProxyHttpPort))
		if m.ProxyHttpPort == m.ProxyListenPort || m.ProxyHttpPort == m.ProxyInboundListenPort {
			c.Fail(at.Key("proxyHttpPort"), code.Conflict, "intercepted traffic and requests to an HTTP proxy cannot share a port", "")
		}
	}
	c.Duration(at.Key("connectTimeout"), m.ConnectTimeout, time.Millisecond)
	c.Duration(at.Key("dnsRefreshRate"), m.DnsRefreshRate, time.Millisecond)
	c.Duration(at.Key("protocolDetectionTimeout"), m.ProtocolDetectionTimeout, 0)
	for _, f := range []struct {
		name string
		list []string
	}{
		{"defaultServiceExportTo", m.DefaultServiceExportTo},
		{"defaultVirtualServiceExportTo", m.DefaultVirtualServiceExportTo},
		{"defaultDestinationRuleExportTo", m.DefaultDestinationRuleExportTo},
	} {
		here := at.Key(f.name)
		c.ExportTo(&here, f.list, true)
	}
	traffic.Locality(c, at, m.LocalityLbSetting)
	traffic.ZoneAware(c, at, m.ZoneAwareLbSetting)
	policy := at.Key("outboundTrafficPolicy")
	policyTLS := policy.Key("tls")
	traffic.ClientTLS(c, &policyTLS, m.OutboundTrafficPolicy.GetTls())
	traffic.Retries(c, at, m.DefaultHttpRetryPolicy)
	checkDiscovery(c, at, m)
	checkVisibility(c, at, m.ServiceEntryVisibility)
	defaultConfig := at.Key("defaultConfig")
	checkExtensions(c, defaultConfig.Key("proxyMetadata"), m)
	checkHTTP(c, defaultConfig, m.GetDefaultConfig())
	seen := map[string]bool{}
	for i, p := range m.ExtensionProviders {
		here := at.Of("extensionProviders", i)
		switch {
		case p.Name == "":
			c.Fail(here.Key("name"), code.Missing, "the provider has no name", "")
		case seen[p.Name]:
			c.Fail(here.Key("name"), code.Duplicate, "provider "+strconv.Quote(p.Name)+" is written twice", "")
		case p.Provider == nil:
			c.Fail(here, code.Missing, "the provider is of no kind", "set one of zipkin, opentelemetry, envoyFileAccessLog, …")
		}
		seen[p.Name] = true
	}
}

// checkMeshNetworks holds the rules of https://istio.io/latest/docs/reference/config/istio.mesh.v1alpha1/#MeshNetworks.
func checkMeshNetworks(c *rule.Check, n *meshconfig.MeshNetworks) {
	networks := (&report.Path{}).Key("networks")
	for _, name := range slices.Sorted(maps.Keys(n.Networks)) {
		at := networks.Key(name)
		for i, e := range n.Networks[name].GetEndpoints() {
			here := at.Of("endpoints", i)
			if cidr := e.GetFromCidr(); cidr != "" {
				if _, err := netip.ParsePrefix(cidr); err != nil {
					c.Fail(here.Key("fromCidr"), code.BadAddress, strconv.Quote(cidr)+" is not a CIDR", "write 10.0.0.0/8")
				}
			} else if e.GetFromRegistry() == "" {
				c.Fail(here, code.Missing, "the endpoints are of nowhere", "set fromCidr or fromRegistry")
			}
		}
		for i, g := range n.Networks[name].GetGateways() {
			here := at.Of("gateways", i)
			c.Port(here.Key("port"), g.Port)
			if g.GetAddress() == "" && g.GetRegistryServiceName() == "" {
				c.Fail(here, code.Missing, "the gateway has no address", "set address or registryServiceName")
			}
		}
	}
}
