package extension

import (
	"slices"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	corsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/cors/v3"
	headersv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/header_to_metadata/v3"
	jwtv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/jwt_authn/v3"
	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	networkrbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/rbac/v3"
	"google.golang.org/protobuf/proto"
	extensions "istio.io/api/extensions/v1alpha1"
	typev1beta1 "istio.io/api/type/v1beta1"

	"fairway/internal/envoy"
)

func placed(
	t *testing.T, name string, phase extensions.PluginPhase, kind extensions.PluginType, m ...*extensions.WasmPlugin_TrafficSelector,
) Placed {
	t.Helper()
	e, _, err := OfPlugin("ns", name, "1", &extensions.WasmPlugin{Url: "file:///x.wasm", Phase: phase, Type: kind, Match: m})
	if err != nil {
		t.Fatal(err)
	}
	return Placed{Extension: e}
}

// TestPlaces: "before Istio authentication filters", "before Istio authorization filters and after Istio authentication filters", "right
// before the Router" (PluginPhase); callers' claims are removed first, and the last filter stays the last.
func TestPlaces(t *testing.T) {
	filter := func(name string, m proto.Message) *hcmv3.HttpFilter {
		return &hcmv3.HttpFilter{Name: name, ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: envoy.Any(m)}}
	}
	list := []Placed{
		placed(t, "authn", extensions.PluginPhase_AUTHN, 0), placed(t, "authz", extensions.PluginPhase_AUTHZ, 0),
		placed(t, "stats", extensions.PluginPhase_STATS, 0), placed(t, "any", extensions.PluginPhase_UNSPECIFIED_PHASE, 0),
		placed(t, "wire", extensions.PluginPhase_AUTHZ, extensions.PluginType_NETWORK),
		placed(t, "wire-late", extensions.PluginPhase_UNSPECIFIED_PHASE, extensions.PluginType_NETWORK),
	}
	claim := filter("claim", &headersv3.Config{RequestRules: []*headersv3.Config_Rule{{
		Header: "x", OnHeaderMissing: &headersv3.Config_KeyValuePair{Key: "k", Value: "v"},
	}}})
	jwt, rbac := filter("jwt", &jwtv3.JwtAuthentication{}), filter("rbac", &rbacv3.RBAC{})
	cors, router := filter("cors", &corsv3.Cors{}), filter("router", &routerv3.Router{})
	for _, c := range []struct {
		have []*hcmv3.HttpFilter
		want string
	}{
		{[]*hcmv3.HttpFilter{claim, jwt, rbac, cors, router}, "claim authn jwt authz rbac cors stats any router"},
		{[]*hcmv3.HttpFilter{rbac, cors, router}, "authn authz rbac cors stats any router"},
		{[]*hcmv3.HttpFilter{claim, router}, "claim authn authz stats any router"},
		{[]*hcmv3.HttpFilter{router}, "authn authz stats any router"},
	} {
		l := &listenerv3.Listener{TrafficDirection: corev3.TrafficDirection_INBOUND, FilterChains: []*listenerv3.FilterChain{{
			Filters: []*listenerv3.Filter{
				{Name: "l4", ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: envoy.Any(&networkrbacv3.RBAC{StatPrefix: "x"})}},
				{Name: "hcm", ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: envoy.Any(&hcmv3.HttpConnectionManager{
					StatPrefix: "x", RouteSpecifier: &hcmv3.HttpConnectionManager_RouteConfig{}, HttpFilters: c.have,
				})}},
			},
		}}}
		if changed, err := Into(l, list); err != nil || !changed {
			t.Fatal(changed, err)
		}
		var names, wire []string
		for _, f := range l.GetFilterChains()[0].GetFilters() {
			wire = append(wire, strings.TrimPrefix(f.GetName(), "extensions.istio.io/wasmplugin/ns."))
			m := &hcmv3.HttpConnectionManager{}
			if f.GetName() == "hcm" {
				if err := f.GetTypedConfig().UnmarshalTo(m); err != nil {
					t.Fatal(err)
				}
			}
			for _, h := range m.GetHttpFilters() {
				names = append(names, strings.TrimPrefix(h.GetName(), "extensions.istio.io/wasmplugin/ns."))
			}
		}
		if got := strings.Join(names, " "); got != c.want {
			t.Errorf("requests pass %s, want %s", got, c.want)
		}
		if got := strings.Join(wire, " "); got != "wire l4 wire-late hcm" {
			t.Errorf("connections pass %s", got)
		}
	}
}

// TestPasses: "If a traffic satisfies any of TrafficSelectors, the traffic passes"; "If one of the given ports is matched"; "If not
// specified, the default value is CLIENT_AND_SERVER".
func TestPasses(t *testing.T) {
	match := func(mode typev1beta1.WorkloadMode, ports ...uint32) *extensions.WasmPlugin_TrafficSelector {
		s := &extensions.WasmPlugin_TrafficSelector{Mode: mode}
		for _, p := range ports {
			s.Ports = append(s.Ports, &typev1beta1.PortSelector{Number: p})
		}
		return s
	}
	const client, server = typev1beta1.WorkloadMode_CLIENT, typev1beta1.WorkloadMode_SERVER
	const both = typev1beta1.WorkloadMode_CLIENT_AND_SERVER
	for name, c := range map[string]struct {
		match []*extensions.WasmPlugin_TrafficSelector
		want  [4]bool // sent to 80, sent to 81, served at 80, served at an undeclared port
	}{
		"nothing is said":  {nil, [4]bool{true, true, true, true}},
		"no mode":          {[]*extensions.WasmPlugin_TrafficSelector{match(0)}, [4]bool{true, true, true, true}},
		"clients":          {[]*extensions.WasmPlugin_TrafficSelector{match(client)}, [4]bool{true, true, false, false}},
		"servers at 80":    {[]*extensions.WasmPlugin_TrafficSelector{match(server, 80, 90)}, [4]bool{false, false, true, false}},
		"one of two":       {[]*extensions.WasmPlugin_TrafficSelector{match(client, 81), match(server)}, [4]bool{false, true, true, true}},
		"both modes at 80": {[]*extensions.WasmPlugin_TrafficSelector{match(both, 80)}, [4]bool{true, false, true, false}},
	} {
		e := placed(t, "x", 0, 0, c.match...)
		if got := [4]bool{e.Passes(false, 80), e.Passes(false, 81), e.Passes(true, 80), e.Passes(true, 0)}; got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// TestModule: "If no scheme is present, defaults to oci://"; "Defaults to IfNotPresent, except when […] the latest tag is used"; a
// digest in the address "must match the value of" sha256, and is never asked for again.
func TestModule(t *testing.T) {
	digest := strings.Repeat("a", 64)
	for _, c := range []struct {
		url, sha string
		policy   extensions.PullPolicy
		want     Module
		wrong    string
	}{
		{url: "a.io/b:v1", want: Module{URL: "oci://a.io/b:v1"}},
		{url: "a.io/b", want: Module{URL: "oci://a.io/b", Always: true, Version: "1"}},
		{url: "oci://a.io:5000/b:latest", want: Module{URL: "oci://a.io:5000/b:latest", Always: true, Version: "1"}},
		{url: "a.io/b", policy: extensions.PullPolicy_IfNotPresent, want: Module{URL: "oci://a.io/b"}},
		{url: "https://a.io/b", want: Module{URL: "https://a.io/b"}},
		{url: "https://a.io/b", policy: extensions.PullPolicy_Always, want: Module{URL: "https://a.io/b", Always: true, Version: "1"}},
		{url: "https://a.io/b", sha: digest, policy: extensions.PullPolicy_Always, want: Module{URL: "https://a.io/b", SHA256: digest}},
		{url: "a.io/b@sha256:" + digest, want: Module{URL: "oci://a.io/b@sha256:" + digest, SHA256: digest}},
		{url: "a.io/b@sha256:" + digest, sha: strings.Repeat("b", 64), wrong: "sha256 says"},
		{url: "https://me:secret@a.io/b", wrong: "password"},
	} {
		got, err := module(&extensions.WasmConfig{Url: c.url, Sha256: c.sha, ImagePullPolicy: c.policy}, "1")
		switch {
		case c.wrong == "" && (err != nil || *got != c.want):
			t.Errorf("%s: %+v, %v, want %+v", c.url, got, err, c.want)
		case c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong)):
			t.Errorf("%s: %v, want %q", c.url, err, c.wrong)
		}
	}
}

// TestOrder: an agent decodes the orders that it is sent, and rejects anything else.
func TestOrder(t *testing.T) {
	e := placed(t, "x", 0, 0).Extension
	o, err := DecodeOrder(e.Order("secret").Body)
	if err != nil || o.Secret != "secret" || o.Module.URL != "file:///x.wasm" || !proto.Equal(o.Config, e.Config) {
		t.Errorf("%+v, %v", o, err)
	}
	for _, body := range []string{"", "\xff", "no order"} {
		if o, err := DecodeOrder([]byte(body)); err == nil {
			t.Errorf("%q is %+v", body, o)
		}
	}
	if got := slices.Compact([]string{e.Name, o.Config.GetName()}); len(got) != 1 {
		t.Errorf("it is called %q", got)
	}
}
