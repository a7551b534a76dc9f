package proxyconfig_test

import (
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"sigs.k8s.io/yaml"

	_ "fairway/internal/envoy/known"
	"fairway/internal/envoy/proxyconfig"
	"fairway/internal/golden"
	"fairway/internal/mesh"
)

// TestGolden changes, in each testdata/*.txtar, the message base.yaml by each line of settings.yaml alone. The comment's last word is the
// message's kind.
func TestGolden(t *testing.T) {
	golden.Run(t, "testdata/*.txtar", func(t *testing.T, a *golden.Archive) {
		var settings []struct {
			KeepCase, ForwardedHost, NoAttempts bool
			Connections                         string
		}
		if err := yaml.Unmarshal(a.File("settings.yaml"), &settings); err != nil {
			t.Fatal(err)
		}
		body, err := yaml.YAMLToJSON(a.File("base.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		var got strings.Builder
		for _, one := range settings {
			s := mesh.OwnSettings{
				KeepCase: one.KeepCase, ForwardedHost: one.ForwardedHost, NoAttempts: one.NoAttempts,
				Connections: mesh.ConnectionSettings(one.Connections),
			}
			said, err := yaml.Marshal(one)
			if err != nil {
				t.Fatal(err)
			}
			got.WriteString("# " + strings.Join(strings.Fields(string(said)), " ") + "\n")
			m, changed, err := change(t, a.Words()[0], body, s)
			if err != nil {
				t.Fatal(err)
			}
			if !changed {
				got.WriteString("unchanged\n")
				continue
			}
			text, err := protojson.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			out, err := yaml.JSONToYAML(text)
			if err != nil {
				t.Fatal(err)
			}
			got.Write(out)
		}
		a.Result(t, "want", got.String())
	})
}

// change returns the message with the settings, and whether they change it. Nothing that is not changed may differ.
func change(t *testing.T, kind string, body []byte, s mesh.OwnSettings) (m proto.Message, changed bool, err error) {
	t.Helper()
	read := func(m proto.Message) {
		if err := protojson.Unmarshal(body, m); err != nil {
			t.Fatal(err)
		}
	}
	var before proto.Message
	switch kind {
	case "listener":
		l := &listenerv3.Listener{}
		read(l)
		before = proto.CloneOf(l)
		changed, err = proxyconfig.Listener(l, s)
		m = l
	case "routes":
		c := &routev3.RouteConfiguration{}
		read(c)
		before = proto.CloneOf(c)
		changed, m = proxyconfig.Routes(c, s), c
	default:
		c := &clusterv3.Cluster{}
		read(c)
		before = proto.CloneOf(c)
		changed, err = proxyconfig.Cluster(c, s)
		if m = c; changed && !proxyconfig.Clusters(s) {
			t.Errorf("%+v change clusters", s)
		}
	}
	if !changed && !proto.Equal(before, m) {
		t.Errorf("%+v changes what is said to be unchanged", s)
	}
	return m, changed, err
}

// TestClusters: most settings leave all clusters as they are.
func TestClusters(t *testing.T) {
	for s, want := range map[mesh.OwnSettings]bool{
		{}: false, {NoAttempts: true}: false, {ForwardedHost: true}: false, {Connections: "httpIdleTimeout=1"}: false,
		{KeepCase: true}: true,
		{Connections: "httpIdleTimeout=1+clusterPerConnectionBufferLimitBytes=2"}: true,
	} {
		if got := proxyconfig.Clusters(s); got != want {
			t.Errorf("%+v: %v", s, got)
		}
	}
}

// TestUnreadable: a message that cannot be decoded is an error, never a half of a change.
func TestUnreadable(t *testing.T) {
	l := &listenerv3.Listener{FilterChains: []*listenerv3.FilterChain{{Filters: []*listenerv3.Filter{{}, {}}}}}
	for i, url := range []string{"type.test/a",
		"type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager"} {
		f := &listenerv3.Filter{}
		if err := proto.Unmarshal([]byte("\x0a\x01x"), f); err != nil {
			t.Fatal(err)
		}
		l.FilterChains[0].Filters[i] = f
		f.ConfigType = &listenerv3.Filter_TypedConfig{TypedConfig: unreadable(url)}
	}
	if _, err := proxyconfig.Listener(l, mesh.OwnSettings{KeepCase: true}); err == nil {
		t.Error("an unreadable listener is changed")
	}
	c := &clusterv3.Cluster{}
	const options = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
	c.TypedExtensionProtocolOptions = map[string]*anypb.Any{

		options: unreadable("type.googleapis.com/" + options),
	}
	if _, err := proxyconfig.Cluster(c, mesh.OwnSettings{KeepCase: true}); err == nil {
		t.Error("an unreadable cluster is changed")
	}
}

func unreadable(url string) *anypb.Any { return &anypb.Any{TypeUrl: url, Value: []byte("\xff")} }
