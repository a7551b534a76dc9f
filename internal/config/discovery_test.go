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
