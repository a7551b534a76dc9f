package envoy_test

import (
	"fmt"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	proxyprotocolv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/proxy_protocol/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/types/known/anypb"

	"fairway/internal/envoy"
)

func socket(a *anypb.Any) *corev3.TransportSocket {
	return &corev3.TransportSocket{Name: "s", ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: a}}
}

func sni(name string) *anypb.Any { return envoy.Any(&tlsv3.UpstreamTlsContext{Sni: name}) }

// A message that is packed into another one is validated like the other one's own fields: Envoy validates both, so both are validated
// before they are sent.
func TestEncodeValidatesWhatIsPacked(t *testing.T) {
	long := sni(strings.Repeat("x", 300))
	for name, m := range map[string]envoy.Message{
		"a field": &clusterv3.Cluster{Name: "c", TransportSocket: socket(long)},
		"a list": &clusterv3.Cluster{
			Name:                   "c",
			TransportSocketMatches: []*clusterv3.Cluster_TransportSocketMatch{{Name: "m", TransportSocket: socket(long)}},
		},
		"a map": &clusterv3.Cluster{Name: "c", TypedExtensionProtocolOptions: map[string]*anypb.Any{"o": long}},
		"another Any": &clusterv3.Cluster{
			Name:            "c",
			TransportSocket: socket(envoy.Any(&proxyprotocolv3.ProxyProtocolUpstreamTransport{TransportSocket: socket(long)})),
		},
		"filter chain": &listenerv3.Listener{FilterChains: []*listenerv3.FilterChain{{TransportSocket: socket(long)}}},
	} {
		e := envoy.Encode(m)
		if e.Err == nil || !strings.Contains(e.Err.Error(), "invalid UpstreamTlsContext.Sni: value length must be at most 255 bytes") ||
			e.Body != nil {
			t.Errorf("in %s: %v, %d bytes", name, e.Err, len(e.Body))
		}
	}
}

// A name that a user chose never counts as a refusal, whatever it is.
func TestEncodeTakesAnyName(t *testing.T) {
	const name = "type.googleapis.com/fairway.Refused"
	if e := envoy.Encode(&clusterv3.Cluster{Name: name, TransportSocket: socket(sni(name))}); e.Err != nil {
		t.Error(e.Err)
	}
}

func BenchmarkAny(b *testing.B) {
	c := &tlsv3.UpstreamTlsContext{Sni: "reviews.shop.svc.cluster.local"}
	for b.Loop() {
		envoy.Any(c)
	}
}

// Check refuses what Marshal refuses, of parts that are encoded already.
func TestCheckIsMarshalOfParts(t *testing.T) {
	odd := &routev3.VirtualHost{Name: "x", Domains: []string{"x"}, TypedPerFilterConfig: map[string]*anypb.Any{
		"f": envoy.Any(&routev3.VirtualHost{}),
	}}
	good := &routev3.VirtualHost{Name: "x", Domains: []string{"x"}}
	for name, m := range map[string]*routev3.VirtualHost{"packed": odd, "itself": {Name: "x"}, "good": good} {
		body, err := envoy.Bytes(m)
		if err != nil {
			t.Fatal(err)
		}
		_, want := envoy.Marshal(m)
		got := envoy.Check(m, nil, body)
		if fmt.Sprint(want) != fmt.Sprint(got) || (got == nil) != (name == "good") {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}
