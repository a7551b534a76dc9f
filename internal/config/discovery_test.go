package config_test

import (
	"strings"
	"testing"

	"fairway/internal/config"
)

func TestDiscovery(t *testing.T) {
	d, err := config.NewDecoder(config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, text string
		sees, not  []map[string]string
	}{
		{"none says all", "{}", []map[string]string{nil, {"a": "b"}}, nil},
		{"labels", "discoverySelectors: [{matchLabels: {env: prod, region: r1}}]",
			[]map[string]string{{"env": "prod", "region": "r1", "x": "y"}},
			[]map[string]string{nil, {"env": "prod"}, {"env": "dev", "region": "r1"}}},
		{"one of several",
			"discoverySelectors: [{matchLabels: {env: prod}}, {matchExpressions: [{key: app, operator: In, values: [a, b]}]}]",
			[]map[string]string{{"env": "prod"}, {"app": "b"}}, []map[string]string{nil, {"app": "c"}}},
		{"other operators", "discoverySelectors: [{matchExpressions: " +
			"[{key: a, operator: Exists}, {key: b, operator: DoesNotExist}, {key: c, operator: NotIn, values: [x]}]}]",
			[]map[string]string{{"a": "1"}, {"a": "1", "c": "y"}}, []map[string]string{nil, {"a": "1", "b": "1"}, {"a": "1", "c": "x"}}},
		{"an empty one says all", "discoverySelectors: [{}]", []map[string]string{nil, {"a": "b"}}, nil},
	} {
		o, problems := d.DecodeMeshConfig(config.Document{File: "mesh.yaml", Line: 1, Text: []byte(c.text)})
		if o == nil || len(problems) > 0 {
			t.Errorf("%s: %v", c.name, problems)
			continue
		}
		got := config.DiscoveryOf(o, "istio-system")
		for _, labels := range c.sees {
			if !got.Sees("shop", labels) {
				t.Errorf("%s: does not see %v", c.name, labels)
			}
		}
		for _, labels := range c.not {
			if got.Sees("shop", labels) || !got.Sees("istio-system", labels) {
				t.Errorf("%s: sees %v, or not the root namespace", c.name, labels)
			}
		}
	}
}

// A selector that cannot be read makes the whole mesh configuration invalid, so that no namespace is included or left out by mistake.
func TestBadDiscovery(t *testing.T) {
	d, err := config.NewDecoder(config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		"discoverySelectors: [{matchExpressions: [{key: a, operator: Near, values: [b]}]}]",
		"discoverySelectors: [{matchExpressions: [{key: a, operator: In}]}]",
		"discoverySelectors: [{matchExpressions: [{key: a, operator: Exists, values: [b]}]}]",
		"discoverySelectors: [{matchLabels: {'a b': c}}]",
		"discoverySelectors: [" + strings.Repeat("{matchLabels: {a: b}},", 101) + "]",
	} {
		o, problems := d.DecodeMeshConfig(config.Document{File: "mesh.yaml", Line: 1, Text: []byte(text)})
		if o != nil || len(problems) != 1 || !strings.HasPrefix(problems[0].Field, "discoverySelectors") {
			t.Errorf("%.80s: %v", text, problems)
		}
	}
}

// TestEqualDiscovery: two are equal if they include the same namespaces.
func TestEqualDiscovery(t *testing.T) {
	d, err := config.NewDecoder(config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	of := func(text, root string) *config.Discovery {
		o, problems := d.DecodeMeshConfig(config.Document{File: "mesh.yaml", Line: 1, Text: []byte(text)})
		if o == nil {
			t.Fatal(problems)
		}
		return config.DiscoveryOf(o, root)
	}
	const prod, dev = "discoverySelectors: [{matchLabels: {env: prod}}]", "discoverySelectors: [{matchLabels: {env: dev}}]"
	for _, c := range []struct {
		name string
		a, b *config.Discovery
		want bool
	}{
		{"both all", nil, of("{}", "r"), true},
		{"all, of other roots", of("{}", "q"), of("{}", "r"), true},
		{"one all", nil, of(prod, "r"), false},
		{"the same", of(prod, "r"), of(prod, "r"), true},
		{"other roots", of(prod, "q"), of(prod, "r"), false},
		{"other labels", of(prod, "r"), of(dev, "r"), false},
		{"no mesh configuration", config.DiscoveryOf(nil, "r"), of("{}", "r"), true},
	} {
		if c.a.Equal(c.b) != c.want || c.b.Equal(c.a) != c.want {
			t.Errorf("%s: equal %v and %v", c.name, c.a.Equal(c.b), c.b.Equal(c.a))
		}
	}
	full := of("discoverySelectors: ["+strings.TrimSuffix(strings.Repeat("{matchLabels: {a: b}},", 100), ",")+"]", "r")
	if full.All() || !full.Sees("x", map[string]string{"a": "b"}) {
		t.Error("as many selectors as there may be are not taken")
	}
}
