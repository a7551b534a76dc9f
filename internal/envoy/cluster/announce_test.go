package cluster_test

import (
	"testing"

	httpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/envoy/cluster"
	"fairway/internal/mesh"
)

// TestWhatUpstreamsAreTold: HTTP is announced only to ports of unknown protocol over mutual TLS, and upstreams outside the mesh do not get
// the proxies' header.
func TestWhatUpstreamsAreTold(t *testing.T) {
	const announced = "istio-http/1.1,istio"
	able := cluster.Defaults{Mutual: true, AutoMutual: true}
	tls := func(mode networking.ClientTLSSettings_TLSmode) *networking.ClientTLSSettings {
		return &networking.ClientTLSSettings{Mode: mode}
	}
	for name, k := range map[string]struct {
		protocol mesh.Protocol
		tls      *networking.ClientTLSSettings
		external bool
		defaults cluster.Defaults
		want     string
	}{
		"unknown": {protocol: mesh.Unknown, defaults: able, want: announced},
		"unknown, by a rule": {
			protocol: mesh.Unknown,
			tls:      tls(networking.ClientTLSSettings_ISTIO_MUTUAL),
			external: true,
			defaults: cluster.Defaults{Mutual: true},
			want:     announced,
		},
		"unknown, no identity":          {protocol: mesh.Unknown, defaults: cluster.Defaults{AutoMutual: true}},
		"unknown, not by itself":        {protocol: mesh.Unknown, defaults: cluster.Defaults{Mutual: true}},
		"unknown, another's TLS":        {protocol: mesh.Unknown, tls: tls(networking.ClientTLSSettings_SIMPLE), defaults: able},
		"unknown, in the clear by rule": {protocol: mesh.Unknown, tls: tls(networking.ClientTLSSettings_DISABLE), defaults: able},
		"unknown, outside":              {protocol: mesh.Unknown, external: true, defaults: able},
		"HTTP":                          {protocol: mesh.HTTP, defaults: able},
		"HTTP, outside":                 {protocol: mesh.HTTP, external: true, defaults: able},
		"TCP":                           {protocol: mesh.TCP, defaults: able},
		"TCP, outside":                  {protocol: mesh.TCP, external: true, defaults: able},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := cluster.Outbound{
				Key: mesh.ClusterKey{
					Host: "a.test",
					Port: 80,
				},
				Service:  &mesh.Service{Key: mesh.ServiceKey{Host: "a.test", Namespace: "n"}, External: k.external},
				Port:     mesh.Port{Number: 80, Protocol: k.protocol},
				Policy:   cluster.Policy{TLS: k.tls},
				Defaults: k.defaults,
			}.Build()
			if err != nil {
				t.Fatal(err)
			}
			if got := c.GetMetadata().GetFilterMetadata()["fairway"].GetFields()["alpn"].GetStringValue(); got != k.want {
				t.Errorf("announced is %q, want %q", got, k.want)
			}
			options := &httpv3.HttpProtocolOptions{}
			if packed, ok := c.GetTypedExtensionProtocolOptions()["envoy.extensions.upstreams.http.v3.HttpProtocolOptions"]; ok {
				if err := packed.UnmarshalTo(options); err != nil {
					t.Fatal(err)
				}
			}
			var filters []string
			for _, f := range options.GetHttpFilters() {
				filters = append(filters, f.GetName())
			}
			discreet := len(filters) == 2 && filters[0] == "envoy.filters.http.header_mutation" &&
				filters[1] == "envoy.filters.http.upstream_codec"
			if discreet != k.external || !discreet && len(filters) > 0 {
				t.Errorf("upstream filters are %q", filters)
			}
		})
	}
}
