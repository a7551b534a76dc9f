package compiletest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/proto"
	"sigs.k8s.io/yaml"

	"fairway/internal/envoy"
	"fairway/internal/mesh"
	"fairway/internal/table"
	"fairway/internal/xdstype"
)

// RouteText lists virtual hosts, route configurations, secrets and the listeners of gateways, shelf by shelf and without
// what every one has, then the clusters that gateways need.
func (w *World) RouteText() string {
	w.t.Helper()
	shelves := map[string]map[string]any{}
	put := func(kind string, all map[mesh.ResourceKey]*envoy.Encoded, empty func() proto.Message) {
		for k, e := range all {
			shelf := kind + " " + k.Shelf.String()
			if shelves[shelf] == nil {
				shelves[shelf] = map[string]any{}
			}
			shelves[shelf][k.Name] = show(w.t, e, empty())
		}
	}
	put("virtual hosts", w.Published(xdstype.VirtualHosts), func() proto.Message { return &routev3.VirtualHost{} })
	put("routes", w.Published(xdstype.Routes), func() proto.Message { return &routev3.RouteConfiguration{} })
	put("secrets", w.Published(xdstype.Secrets), func() proto.Message { return &tlsv3.Secret{} })
	put("listeners", w.gather(w.Gateway.Listeners), func() proto.Message { return &listenerv3.Listener{} })
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(shelves)) {
		body, err := yaml.Marshal(shelves[name])
		if err != nil {
			w.t.Fatal(err)
		}
		fmt.Fprintf(&out, "# %s\n%s", name, body)
	}
	w.Store.Read(func(tx *table.Tx) {
		for k := range table.All(tx, w.Gateway.Clusters) {
			fmt.Fprintf(&out, "> %s needs %s\n", k.Layer, k.Cluster)
		}
	})
	return out.String()
}

// show decodes a resource and leaves out what all of its type have.
func show(t testing.TB, e *envoy.Encoded, m proto.Message) any {
	t.Helper()
	if e.Err != nil {
		return "refused: " + e.Err.Error()
	}
	decode(t, e, m)
	if c, ok := m.(*routev3.RouteConfiguration); ok {
		c.RequestHeadersToAdd, c.RequestHeadersToRemove = nil, nil // who calls
	}
	return trim(tree(t, m))
}

// trim leaves out what all resources of a type have: timeouts that are none, default retries, decorators, and of HTTP
// connection managers all but their routes.
func trim(v any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = trim(v[i])
		}
	case map[string]any:
		if rds, ok := v["rds"].(map[string]any); ok {
			return map[string]any{"routes": rds["routeConfigName"], "statPrefix": v["statPrefix"]}
		}
		for _, k := range []string{
			"decorator", "includeRequestAttemptCount", "validateClusters", "ignorePortInHostMatching",
			"maxDirectResponseBodySizeBytes", "maxStreamDuration", "retryPolicy",
		} {
			delete(v, k)
		}
		for _, k := range []string{"timeout", "maxGrpcTimeout"} {
			if v[k] == "0s" {
				delete(v, k)
			}
		}
		for k := range v {
			v[k] = trim(v[k])
		}
	}
	return v
}
