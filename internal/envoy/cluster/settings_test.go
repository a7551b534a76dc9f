package cluster_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/envoy/cluster"
	"fairway/internal/envoy/dynamic"
	"fairway/internal/golden"
	"fairway/internal/mesh"
)

// outbound is a case of TestSettings: a cluster that differs from the usual one.
type outbound struct {
	name   string
	change func(*cluster.Outbound)
}

func outbounds() []outbound {
	tls := func(t *networking.ClientTLSSettings) func(*cluster.Outbound) {
		return func(o *cluster.Outbound) { o.Policy.TLS = t }
	}
	const simple, mutual, own = networking.ClientTLSSettings_SIMPLE, networking.ClientTLSSettings_MUTUAL,
		networking.ClientTLSSettings_ISTIO_MUTUAL
	skip := wrapperspb.Bool(true)
	credential := func(t *networking.ClientTLSSettings) func(*cluster.Outbound) {
		return func(o *cluster.Outbound) { o.Policy.TLS, o.Credentials = t, true }
	}
	auto := func(o *cluster.Outbound) {
		o.Defaults.Mutual, o.Defaults.AutoMutual, o.Identities = true, true,
			[]string{"spiffe://td/ns/a/sa/b"}
	}
	direct := func(d cluster.Direct) func(*cluster.Outbound) {
		return func(o *cluster.Outbound) { auto(o); o.Discovery, o.Direct = cluster.OriginalDestination, d }
	}
	named := func(t *networking.ClientTLSSettings) func(*cluster.Outbound) {
		return func(o *cluster.Outbound) {
			o.Discovery, o.Policy.TLS, o.Port.Number, o.Defaults.Mutual = cluster.Named, t, 80, true
			o.Defaults.Answers = dynamic.All
		}
	}
	lb := func(s *networking.LoadBalancerSettings, d *networking.LocalityLoadBalancerSetting, z *networking.ZoneAwareLoadBalancerSetting,
	) func(*cluster.Outbound) {
		return func(o *cluster.Outbound) { o.Policy.LoadBalancer, o.Defaults.Localities, o.Defaults.Zones = s, d, z }
	}
	zones := &networking.ZoneAwareLoadBalancerSetting{Enabled: wrapperspb.Bool(true), MinClusterSize: wrapperspb.UInt32(3)}
	off := &networking.ZoneAwareLoadBalancerSetting{Enabled: wrapperspb.Bool(false)}
	shares := &networking.LocalityLoadBalancerSetting{Distribute: []*networking.LocalityLoadBalancerSetting_Distribute{{From: "a"}}}
	return []outbound{
		{"usual", func(*cluster.Outbound) {}},
		{"no identity", tls(&networking.ClientTLSSettings{Mode: own})},
		{"an identity", func(o *cluster.Outbound) {
			o.Policy.TLS, o.Defaults.Mutual = &networking.ClientTLSSettings{Mode: own}, true
		}},
		{"TLS", tls(&networking.ClientTLSSettings{Mode: simple})},
		{"TLS with a name", tls(&networking.ClientTLSSettings{Mode: simple, Sni: "s.test", CaCertificates: "/ca", CaCrl: "/crl",
			SubjectAltNames: []string{"n"}})},
		{"TLS that checks nothing", tls(&networking.ClientTLSSettings{Mode: simple, InsecureSkipVerify: skip})},
		{"TLS of a certificate", tls(&networking.ClientTLSSettings{Mode: mutual, ClientCertificate: "/c", PrivateKey: "/k"})},
		{"TLS without a key", tls(&networking.ClientTLSSettings{Mode: mutual, ClientCertificate: "/c"})},
		{"TLS without a certificate", tls(&networking.ClientTLSSettings{Mode: mutual, PrivateKey: "/k"})},
		{"TLS of a credential at a sidecar", tls(&networking.ClientTLSSettings{Mode: mutual, CredentialName: "x"})},
		{"TLS of a credential", credential(&networking.ClientTLSSettings{Mode: mutual, CredentialName: "x"})},
		{"TLS with authorities of a credential", credential(&networking.ClientTLSSettings{Mode: simple, CredentialName: "x",
			SubjectAltNames: []string{"n"}})},
		{"TLS of a credential that checks nothing", credential(&networking.ClientTLSSettings{Mode: mutual, CredentialName: "x",
			InsecureSkipVerify: skip})},
		{"TLS of a credential that is missing", func(o *cluster.Outbound) {
			credential(&networking.ClientTLSSettings{Mode: mutual, CredentialName: "x"})(o)
			o.NoCredential = errors.New("there is no such Secret")
		}},
		{"automatic", auto},
		{"automatic behind the PROXY protocol", func(o *cluster.Outbound) {
			auto(o)
			o.Policy.ProxyProtocol = &networking.TrafficPolicy_ProxyProtocol{Version: networking.TrafficPolicy_ProxyProtocol_V2}
		}},
		{"automatic, outside the mesh", func(o *cluster.Outbound) { auto(o); o.Service.External = true }},
		{"automatic, but switched off", func(o *cluster.Outbound) { auto(o); o.Policy.TLS = &networking.ClientTLSSettings{} }},
		{"direct in plaintext", direct(cluster.Direct{})},
		{"direct with mutual TLS", direct(cluster.Direct{Mutual: true})},
		{"direct with mutual TLS to most", direct(cluster.Direct{Mutual: true, Others: []string{"10.0.0.1", "10.0.0.2"}})},
		{"direct with mutual TLS to some", direct(cluster.Direct{Others: []string{"10.0.0.1"}})},
		{"by name", named(nil)},
		{"by name with TLS", named(&networking.ClientTLSSettings{Mode: simple})},
		{"by name with TLS and its own name", named(&networking.ClientTLSSettings{Mode: simple, Sni: "s.test"})},
		{"by name with TLS that checks nothing", named(&networking.ClientTLSSettings{Mode: simple, InsecureSkipVerify: skip})},
		{"by name with an identity", named(&networking.ClientTLSSettings{Mode: own})},
		{"by name to a target port", func(o *cluster.Outbound) {
			named(&networking.ClientTLSSettings{Mode: simple})(o)
			o.Port.Target = 9
		}},
		{"zones of the mesh", lb(nil, nil, zones)},
		{"zones of the mesh are off", lb(nil, nil, off)},
		{"zones of the rule",
			lb(&networking.LoadBalancerSettings{ZoneAwareLbSetting: &networking.ZoneAwareLoadBalancerSetting{Enabled: skip}}, nil, off)},
		{"localities of the rule go before zones of the mesh",
			lb(&networking.LoadBalancerSettings{LocalityLbSetting: shares}, nil, zones)},
		{"localities of the mesh", lb(nil, shares, nil)},
		{"localities of the mesh are off in the rule",
			lb(&networking.LoadBalancerSettings{LocalityLbSetting: &networking.LocalityLoadBalancerSetting{
				Enabled: wrapperspb.Bool(false), Distribute: shares.Distribute,
			}}, shares, nil)},
		{"localities that only fail over", lb(nil, &networking.LocalityLoadBalancerSetting{FailoverPriority: []string{"a"}}, nil)},
		{"a table that is too large", lb(&networking.LoadBalancerSettings{LbPolicy: &networking.LoadBalancerSettings_ConsistentHash{
			ConsistentHash: &networking.LoadBalancerSettings_ConsistentHashLB{
				HashAlgorithm: &networking.LoadBalancerSettings_ConsistentHashLB_Maglev{
					Maglev: &networking.LoadBalancerSettings_ConsistentHashLB_MagLev{TableSize: 5_000_012},
				},
			},
		}}, nil, nil)},
	}
}

// TestSettings: how servers are reached and chosen, by what rules, services and the mesh say, each as it differs from the usual cluster.
func TestSettings(t *testing.T) {
	var out strings.Builder
	var usual map[string]any
	for _, c := range outbounds() {
		o := cluster.Outbound{
			Key:      mesh.ClusterKey{Port: 81, Host: "a.test"},
			Service:  &mesh.Service{Key: mesh.ServiceKey{Host: "a.test", Namespace: "default"}},
			Port:     mesh.Port{Name: "http", Number: 81, Protocol: mesh.HTTP},
			Defaults: cluster.Defaults{ConnectTimeout: durationpb.New(10e9)},
		}
		c.change(&o)
		out.WriteString("# " + c.name + "\n")
		if secrets := o.Secrets(); len(secrets) > 0 {
			out.WriteString("secrets: " + strings.Join(secrets, " ") + "\n")
		}
		built, err := o.Build()
		if err != nil {
			out.WriteString("error: " + err.Error() + "\n---\n")
			continue
		}
		if err := built.ValidateAll(); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		got := tree(t, built)
		if usual == nil {
			usual = got
			out.WriteString(text(t, got) + "---\n")
			continue
		}
		out.WriteString(text(t, differing(got, usual)) + "---\n")
	}
	for _, c := range []struct {
		name string
		tls  *networking.ClientTLSSettings
	}{
		{"plaintext", nil},
		{"TLS", &networking.ClientTLSSettings{Mode: networking.ClientTLSSettings_SIMPLE}},
		{"TLS without a certificate", &networking.ClientTLSSettings{Mode: networking.ClientTLSSettings_MUTUAL}},
	} {
		d := cluster.Defaults{ConnectTimeout: durationpb.New(10e9), Answers: dynamic.All}
		out.WriteString("# any host by its name, " + c.name + "\n" + text(t, tree(t, cluster.ByName(d, c.tls))) + "---\n")
	}
	inside := cluster.InboundPassthrough([]string{cluster.LoopbackSource, cluster.LoopbackSource6}, cluster.Defaults{})
	out.WriteString("# inbound to any port, of both address families\n" + text(t, tree(t, inside)))
	golden.File(t, "testdata/settings.yaml", out.String())
}

// TestDirect: which servers are reached in the other way.
func TestDirect(t *testing.T) {
	d := cluster.Direct{Mutual: true, Others: []string{"10.0.0.1", "10.0.0.3"}}
	for address, want := range map[string]bool{"10.0.0.1": true, "10.0.0.2": false, "10.0.0.3": true, "": false} {
		if got := d.Differs(address); got != want {
			t.Errorf("%s differs: %v", address, got)
		}
	}
	for _, o := range []cluster.Direct{{}, {Mutual: true}, {Others: d.Others}, {Mutual: true, Others: []string{"10.0.0.1"}}} {
		if d.Equal(o) || o.Equal(d) {
			t.Errorf("%+v equals %+v", o, d)
		}
	}
	if !d.Equal(cluster.Direct{Mutual: true, Others: slices.Clone(d.Others)}) {
		t.Error("it does not equal itself")
	}
}
