package interpret_test

import (
	"net/netip"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"fairway/internal/interpret"
)

func parseSocket(t testing.TB, m *tlsv3.DownstreamTlsContext) *corev3.TransportSocket_TypedConfig {
	return &corev3.TransportSocket_TypedConfig{TypedConfig: anyOf(t, m)}
}

func mapOf(name string, a *anypb.Any) map[string]*anypb.Any { return map[string]*anypb.Any{name: a} }

// FuzzExplain: no listener, connection manager or route configuration makes the interpreter panic, or work without end.
func FuzzExplain(f *testing.F) {
	config := configWith(f, toA)
	bytes := func(m proto.Message) []byte {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		return b
	}
	hcm := config.Listeners["l"].GetFilterChains()[0].GetFilters()[0].GetTypedConfig().GetValue()
	f.Add(bytes(config.Listeners["l"]), hcm, bytes(config.Routes["r"]), "/a?b", "shop.test", "GET")
	f.Add([]byte{}, []byte{}, []byte{}, "*", "", "CONNECT")
	f.Fuzz(func(t *testing.T, listener, hcm, routes []byte, path, host, method string) {
		c := configWith(t, toA)
		l, m, r := &listenerv3.Listener{}, &hcmv3.HttpConnectionManager{}, &routev3.RouteConfiguration{}
		if proto.Unmarshal(listener, l) == nil {
			c.Listeners["l"] = l
		}
		if proto.Unmarshal(hcm, m) == nil && len(l.GetFilterChains()) > 0 {
			l.FilterChains[0].Filters = []*listenerv3.Filter{{
				Name: "http", ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: anyOf(t, m)},
			}}
		}
		if proto.Unmarshal(routes, r) == nil {
			c.Routes["r"] = r
		}
		for _, name := range []string{"", "l"} {
			a, err := interpret.Explain(c, interpret.Request{
				Listener: name, Destination: netip.MustParseAddrPort("10.0.0.1:80"), Path: path, Authority: host, Method: method,
				Headers: map[string][]string{"authorization": {host}, "cookie": {path}},
			})
			if err == nil {
				_ = a.Text()
			}
		}
	})
}
