package compiletest

import (
	"fmt"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/proto"
	"sigs.k8s.io/yaml"

	"fairway/internal/envoy"
	"fairway/internal/xdstype"
)

// ClusterText lists the clusters that are published, without what all have alike, and the load assignments, a line an endpoint.
func (w *World) ClusterText() string {
	w.t.Helper()
	var out strings.Builder
	w.sections(&out, xdstype.Clusters, clusterText)
	out.WriteString("\n# load assignments\n")
	w.sections(&out, xdstype.Loads, loadText)
	return out.String()
}

func (w *World) sections(out *strings.Builder, typ xdstype.Type, text func(testing.TB, *envoy.Encoded) string) {
	w.t.Helper()
	all := w.Published(typ)
	for _, k := range inOrder(all) {
		shelf := k.Shelf.String()
		if i := strings.Index(shelf, "#inbound/"); i > 0 {
			shelf = shelf[:i+len("#inbound")]
		}
		fmt.Fprintf(out, "== %s %s\n", shelf, k.Name)
		if !strings.HasSuffix(k.Name, "Cluster") || k.Name == "AllowAnyDynamicDNSCluster" { // the others are shown elsewhere
			out.WriteString(text(w.t, all[k]))
		}
	}
}

func decode(t testing.TB, e *envoy.Encoded, m proto.Message) {
	t.Helper()
	if err := proto.Unmarshal(e.Body, m); err != nil {
		t.Fatal(err)
	}
}

func loadText(t testing.TB, e *envoy.Encoded) string {
	t.Helper()
	m := &endpointv3.ClusterLoadAssignment{}
	decode(t, e, m)
	var out strings.Builder
	for _, l := range m.Endpoints {
		for _, e := range l.LbEndpoints {
			address := "unix://" + e.GetEndpoint().Address.GetPipe().GetPath()
			if s := e.GetEndpoint().Address.GetSocketAddress(); s != nil {
				address = fmt.Sprintf("%s port %d", s.Address, s.GetPortValue())
			}
			mutual := ""
			if e.GetMetadata().GetFilterMetadata()["envoy.transport_socket_match"] != nil {
				mutual = " mutual TLS"
			}
			if l.Priority > 0 {
				mutual += fmt.Sprint(" after ", l.Priority)
			}
			fmt.Fprintf(&out, "%s/%s (%d): %s weight %d %v%s\n", l.GetLocality().GetRegion(), l.GetLocality().GetZone(),
				l.LoadBalancingWeight.GetValue(), address, max(e.LoadBalancingWeight.GetValue(), 1), e.HealthStatus, mutual)
		}
	}
	return out.String()
}

func clusterText(t testing.TB, e *envoy.Encoded) string {
	t.Helper()
	if e.Err != nil {
		if e.Hides {
			return "withheld: " + e.Err.Error() + "\n"
		}
		return "held back: " + e.Err.Error() + "\n"
	}
	m := &clusterv3.Cluster{}
	decode(t, e, m)
	fields := tree(t, m)
	if m.AltStatName == m.Name+";" {
		delete(fields, "altStatName")
	}
	for _, k := range []string{"name", "clusterName", "commonLbConfig", "circuitBreakers", "metadata", "edsClusterConfig"} {
		delete(fields, k)
	}
	if z := m.GetCommonLbConfig().GetZoneAwareLbConfig(); z != nil {
		fields["byZone"] = fmt.Sprintf("from %d endpoints on", z.GetMinClusterSize().GetValue())
	}
	fields["lbPolicy"] = m.LbPolicy.String()
	if rule := m.Metadata.GetFilterMetadata()["istio"].GetFields()["config"].GetStringValue(); rule != "" {
		fields["rule"] = rule[strings.Index(rule, "namespaces/"):]
	}
	if fields["connectTimeout"] == "10s" {
		delete(fields, "connectTimeout")
	}
	const ofHTTP = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
	if http, ok := m.TypedExtensionProtocolOptions[ofHTTP]; ok && len(http.Value) > 0 {
		options := fields["typedExtensionProtocolOptions"].(map[string]any)[ofHTTP].(map[string]any)
		delete(options, "@type")
		if _, ok := options["httpFilters"]; ok {
			delete(options, "httpFilters")
			fields["discreet"] = true // keeps from its upstream what proxies tell each other
		}
		fields["http"] = options
		delete(fields, "typedExtensionProtocolOptions")
	}
	if e.Load != "" {
		fields["load"] = e.Load
	}
	text, err := yaml.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
