package attack

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"fairway/internal/app"
	"fairway/internal/source"
	"fairway/test/ads"
	"fairway/test/plane"
)

// TestGatewaysAreScopedByTheEnvironment: with PILOT_SCOPE_GATEWAY_TO_NAMESPACE a Gateway selects no gateway of another namespace, whatever
// it names, and routes of other namespaces still count.
func TestGatewaysAreScopedByTheEnvironment(t *testing.T) {
	t.Setenv("PILOT_SCOPE_GATEWAY_TO_NAMESPACE", "true")
	flags, set := app.NewDiscoveryFlags(), pflag.NewFlagSet("discovery", pflag.ContinueOnError)
	flags.Bind(set)
	said, err := flags.Options(io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	opts := plane.Options()
	opts.ScopeGateways = said.ScopeGateways
	p := sharedBy(t, opts, "", source.Rows{})
	p.Apply(t, "gateways.yaml", foreignGateways+"apiVersion: networking.istio.io/v1\nkind: Gateway\n"+
		"metadata: {name: infra, namespace: infra}\n"+
		"spec: {selector: {istio: edge}, servers: [{port: {number: 9000, name: http, protocol: HTTP}, hosts: [infra.example]}]}\n")
	edge := func(namespace, ip string) *plane.Client {
		return p.Connect(t, plane.Proxy{
			Type: "router", Name: "edge", Namespace: namespace, IP: ip, Labels: map[string]string{"istio": "edge"}, Secrets: true,
		})
	}
	if got := edge("infra", "10.0.0.5").Names(ads.ListenerType); !slices.Equal(got, []string{"0.0.0.0_9000"}) {
		t.Errorf("a gateway of another namespace has %v", got)
	}
	if got := edge("shop", "10.0.0.6").Names(ads.ListenerType); !slices.Equal(got, []string{"0.0.0.0_80"}) {
		t.Errorf("the gateway of the Gateway's own namespace has %v", got)
	}
	const host = "checkout.shop.svc.cluster.local"
	p.Apply(t, "steal.yaml", fmt.Sprintf(entry, "sink", "www.evil.example", "", 80, "HTTP")+
		fmt.Sprintf(steal, "steal", "evil", "2020-01-01T00:00:00Z", host, "www.evil.example"))
	sidecarOf(t, p, "shop", "10.0.0.7")
	if !stealTold(p) {
		t.Error("rules that are no Gateways count as before, and are said")
	}
}

func stealTold(p *plane.Plane) bool { return said(p, "ForeignRule", "VirtualService", "steal") }

// TestDestinationRulesOfOthers: a DestinationRule changes only how clients of its own namespace reach another namespace's Service; the
// owner's own rule applies to all other clients.
func TestDestinationRulesOfOthers(t *testing.T) {
	const host, cluster = "checkout.shop.svc.cluster.local", "outbound|80||checkout.shop.svc.cluster.local"
	rule := func(namespace, sni, created string) string {
		return fmt.Sprintf("apiVersion: networking.istio.io/v1\nkind: DestinationRule\n"+
			"metadata: {name: rule, namespace: %s, creationTimestamp: %q}\n"+
			"spec: {host: %s, exportTo: ['*'], trafficPolicy: {tls: {mode: SIMPLE, sni: %s}}, "+
			"subsets: [{name: %s, labels: {a: b}}]}\n---\n",
			namespace, created, host, sni, namespace)
	}
	for name, own := range map[string]bool{"the owner has none": false, "the owner has one": true} {
		t.Run(name, func(t *testing.T) {
			p := shared(t, "", source.Rows{})
			text := rule("evil", "evil.example", "2020-01-01T00:00:00Z")
			if own {
				text += rule("shop", "shop.example", "2024-01-01T00:00:00Z")
			}
			p.Apply(t, "rules.yaml", text)
			for namespace, ip := range map[string]string{"shop": "10.0.0.1", "bank": "10.0.0.2", "evil": "10.0.0.3"} {
				c := sidecarOf(t, p, namespace, ip)
				takes := mentions(c, ads.ClusterType, cluster, "evil.example")
				subset := slices.Contains(c.Names(ads.ClusterType), strings.Replace(cluster, "||", "|evil|", 1))
				if want := namespace == "evil"; takes != want || subset != want {
					t.Errorf("%s: takes the rule of evil: %t, its subset: %t", namespace, takes, subset)
				}
				if want := own && namespace != "evil"; mentions(c, ads.ClusterType, cluster, "shop.example") != want {
					t.Errorf("%s: takes the owner's rule: %t", namespace, !want)
				}
			}
		})
	}
}

// TestPortsOfTheAgentWithoutInterception: without interception a proxy listens on loopback for what other namespaces export, but on none of
// the ports that Envoy, its agent or its control plane has there.
func TestPortsOfTheAgentWithoutInterception(t *testing.T) {
	p := shared(t, "", source.Rows{})
	ports := []int{15000, 15001, 15006, 15020, 15021, 15053, 15090, 8888}
	var text strings.Builder
	for i, port := range ports {
		fmt.Fprintf(&text, entry, fmt.Sprint("port", port), fmt.Sprintf("h%d.evil.example", port), "", port, []string{"HTTP", "TLS"}[i%2])
		fmt.Fprintf(&text, entry, fmt.Sprint("address", port), fmt.Sprintf("a%d.evil.example", port), `"240.1.1.1"`, port, "TCP")
	}
	p.Apply(t, "evil.yaml", text.String())
	c := p.Connect(t, plane.Proxy{Name: "web", Namespace: "shop", IP: "10.0.0.1", Secrets: true, Interception: "NONE"})
	names := c.Names(ads.ListenerType)
	for _, port := range ports {
		bound := slices.Contains(names, fmt.Sprint("127.0.0.1_", port)) || slices.Contains(names, fmt.Sprint("0.0.0.0_", port))
		if want := port == 8888; bound != want {
			t.Errorf("port %d is bound: %t; listeners: %v", port, bound, names)
		}
		if want := port != 8888; said(p, "ReservedPort", "ServiceEntry", fmt.Sprint("port", port)) != want {
			t.Errorf("port %d has the problem: %t", port, !want)
		}
	}
}
