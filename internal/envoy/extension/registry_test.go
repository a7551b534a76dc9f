package extension

import (
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	extensions "istio.io/api/extensions/v1alpha1"
	"sigs.k8s.io/yaml"

	"fairway/internal/golden"
)

// TestRegistries: the registry of an image, and what of a Docker configuration is for it.
func TestRegistries(t *testing.T) {
	for url, want := range map[string]string{
		"oci://a.test/b:v1": "a.test", "oci://a.test:5000/b": "a.test:5000", "oci://docker.io/b": "registry-1.docker.io",
		"oci://index.docker.io/b": "registry-1.docker.io", "https://a.test/b": "", "file:///b": "",
	} {
		if got := (&Module{URL: url}).Registry(); got != want {
			t.Errorf("%s: %q, want %q", url, got, want)
		}
	}
	const config = `{"auths": {"b.test": {"auth": "bWU6c2VjcmV0"}, "https://a.test/v1/": {"username": "one", "password": "1"},
		"https://index.docker.io/v1/": {"username": "hub", "password": "2"}, "z.test": {"auth": "bWU="}, "y.test": {"auth": "%"},
		"http://b.test": {"username": "first", "password": "by name"}}}`
	for registry, want := range map[string]struct{ user, password, wrong, shown string }{
		"a.test":               {"one", "1", "", `{"auths":{"https://a.test/v1/":{"username":"one","password":"1"}}}`},
		"registry-1.docker.io": {"hub", "2", "", `{"auths":{"https://index.docker.io/v1/":{"username":"hub","password":"2"}}}`},
		"b.test":               {"me", "secret", "", `{"auths":{"b.test":{"auth":"bWU6c2VjcmV0"}}}`},
		"c.test":               {},
		"z.test":               {"", "", "z.test are not user:password", `{"auths":{"z.test":{"auth":"bWU="}}}`},
		"y.test":               {"", "", "y.test are not user:password", `{"auths":{"y.test":{"auth":"%"}}}`},
	} {
		user, password, err := Login([]byte(config), registry)
		if user != want.user || password != want.password || (err != nil) != (want.wrong != "") ||
			err != nil && !strings.Contains(err.Error(), want.wrong) {
			t.Errorf("%s: %q %q, %v", registry, user, password, err)
		}
		if got := Shown([]byte(config), registry); got != want.shown {
			t.Errorf("%s: the agent is shown %s, want %s", registry, got, want.shown)
		}
	}
	if _, _, err := Login([]byte("secret"), "a.test"); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("what is no configuration: %v", err)
	}
	if got := Shown([]byte("secret"), "a.test"); got != "" {
		t.Errorf("what is no configuration: the agent is shown %q", got)
	}
}

// TestGolden reads, of each testdata/*.txtar, every WasmPlugin and TrafficExtension in objects.yaml.
func TestGolden(t *testing.T) {
	golden.Run(t, "testdata/*.txtar", func(t *testing.T, a *golden.Archive) {
		var objects []map[string]any
		if err := yaml.Unmarshal(a.File("objects.yaml"), &objects); err != nil {
			t.Fatal(err)
		}
		var got strings.Builder
		for _, o := range objects {
			text, err := yaml.Marshal(o)
			if err != nil {
				t.Fatal(err)
			}
			body, err := yaml.YAMLToJSON(text)
			if err != nil {
				t.Fatal(err)
			}
			plugin, traffic := &extensions.WasmPlugin{}, &extensions.TrafficExtension{}
			var e *Extension
			var field string
			if a.Words()[0] == "WasmPlugin" {
				if err := protojson.Unmarshal(body, plugin); err != nil {
					t.Fatal(err)
				}
				e, field, err = OfPlugin("ns", "x", "7", plugin)
			} else {
				if err := protojson.Unmarshal(body, traffic); err != nil {
					t.Fatal(err)
				}
				e, field, err = OfTraffic("ns", "x", "7", traffic)
			}
			if err != nil {
				got.WriteString(field + ": " + strings.ReplaceAll(err.Error(), "\u00a0", " ") + "\n---\n")
				continue
			}
			got.WriteString(described(t, e) + "---\n")
		}
		a.Result(t, "want", got.String())
	})
}

// described is the extension, and for one that needs no agent the resource for Envoy, otherwise its configuration.
func described(t *testing.T, e *Extension) string {
	t.Helper()
	m := e.Config
	local := e.Local()
	if local {
		encoded := e.Resource()
		if encoded.Err != nil {
			t.Fatal(encoded.Err)
		}
		m = &corev3.TypedExtensionConfig{}
		if err := proto.Unmarshal(encoded.Body, m); err != nil {
			t.Fatal(err)
		}
	}
	body, err := protojson.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	var config any
	if err := yaml.Unmarshal(body, &config); err != nil {
		t.Fatal(err)
	}
	out, err := yaml.Marshal(map[string]any{
		"name": e.Name, "phase": int(e.Phase), "priority": e.Priority, "network": e.Network, "failOpen": e.FailOpen, "match": e.Match,
		"module": e.Module, "local": local, "config": config,
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// TestOrders: an agent's copy on disk has no credentials, and an order that says too little is refused.
func TestOrders(t *testing.T) {
	e, _, err := OfPlugin("ns", "x", "7", &extensions.WasmPlugin{Url: "a.test/b"})
	if err != nil {
		t.Fatal(err)
	}
	with, without := e.Order("secret"), e.Order("")
	if got := WithoutSecret(with.Body); string(got) != string(without.Body) {
		t.Errorf("%q, want %q", got, without.Body)
	}
	for _, same := range []string{string(without.Body), "no order", "\xff"} {
		if got := string(WithoutSecret([]byte(same))); got != same {
			t.Errorf("%q becomes %q", same, got)
		}
	}
	o, err := DecodeOrder(with.Body)
	if err != nil || !o.Always || o.Version != "7" || o.URL != "oci://a.test/b" || o.SHA256 != "" {
		t.Errorf("%+v, %v", o, err)
	}
	for name, change := range map[string]func(f map[string]*structpb.Value){
		"no address":       func(f map[string]*structpb.Value) { delete(f, "url") },
		"no configuration": func(f map[string]*structpb.Value) { delete(f, "config") },
		"no base64":        func(f map[string]*structpb.Value) { f["config"] = structpb.NewStringValue("%") },
		"no message":       func(f map[string]*structpb.Value) { f["config"] = structpb.NewStringValue("/w==") },
	} {
		s := &structpb.Struct{}
		if err := proto.Unmarshal(with.Body, s); err != nil {
			t.Fatal(err)
		}
		change(s.Fields)
		body, err := proto.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		if o, err := DecodeOrder(body); err == nil {
			t.Errorf("%s: %+v", name, o)
		}
	}
}

// TestCompare: the phase counts first, then the higher priority.
func TestCompare(t *testing.T) {
	for _, c := range []struct {
		a, b Extension
		want int
	}{
		{Extension{Phase: 1}, Extension{Phase: 2, Priority: 9}, -1},
		{Extension{Phase: 2}, Extension{Phase: 1, Priority: -9}, 1},
		{Extension{Priority: 2}, Extension{Priority: 1}, -1},
		{Extension{Priority: 1}, Extension{Priority: 2}, 1},
		{Extension{}, Extension{}, 0},
	} {
		if got := Compare(&c.a, &c.b); got != c.want {
			t.Errorf("%+v and %+v: %d", c.a, c.b, got)
		}
	}
}
