package values_test

import (
	"encoding/json"
	"strings"
	"testing"

	"fairway/internal/inject/values"
)

func read(t *testing.T, text string) values.Values {
	t.Helper()
	v := values.Default("", "")
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

// TestValues: the chart's values override the defaults one by one; a tag or a port may be a number; what is impossible is refused by name.
func TestValues(t *testing.T) {
	for _, c := range []struct{ text, name, image string }{
		{`{"global":{"hub":"reg/","tag":1.5}}`, "proxy", "reg/proxy:1.5"},
		{`{"global":{"hub":"reg","tag":"v1"}}`, "proxy", "reg/proxy:v1-debug"},
		{`{"global":{"hub":"reg","tag":"v1-debug"}}`, "proxy", "reg/proxy:v1-debug"},
		{`{"global":{"hub":"reg","tag":null}}`, "proxy", "reg/proxy"},
		{`{}`, "other/proxy:v2", "other/proxy:v2"},
	} {
		v, variant := read(t, c.text), "debug"
		if strings.Contains(c.text, "1.5") {
			variant = "default"
		}
		if got := v.Image(c.name, variant); got != c.image {
			t.Errorf("%s: the image is %s, want %s", c.text, got, c.image)
		}
	}
	plain := read(t, `{}`)
	if err := plain.Check("values"); err != nil || !plain.Native() || plain.Global.MultiCluster.ClusterName != "Kubernetes" ||
		plain.Global.Proxy.ClusterDomain != "cluster.local" {
		t.Errorf("the defaults are %+v, %v", plain, err)
	}
	if own := values.Default("east", "example.com"); own.Global.MultiCluster.ClusterName != "east" ||
		own.Global.Proxy.ClusterDomain != "example.com" {
		t.Errorf("a cluster of its own has %+v", own.Global)
	}
	off := read(t, `{"pilot":{"env":{"ENABLE_NATIVE_SIDECARS":false}},"global":{"proxy":{"statusPort":15021}}}`)
	if off.Native() || off.Global.Proxy.StatusPort != "15021" || off.Global.Proxy.IncludeInbound != "*" || off.Check("") != nil {
		t.Errorf("%+v, %v", off, off.Check(""))
	}
	for field, text := range map[string]string{
		"chart: global.proxy.includeInboundPorts": `{"global":{"proxy":{"includeInboundPorts":"80,x"}}}`,
		"chart: global.proxy.excludeIPRanges":     `{"global":{"proxy":{"excludeIPRanges":"*"}}}`,
		"chart: global.proxy.statusPort":          `{"global":{"proxy":{"statusPort":70000}}}`,
		"ENABLE_NATIVE_SIDECARS":                  `{"pilot":{"env":{"ENABLE_NATIVE_SIDECARS":"maybe"}}}`,
	} {
		v := read(t, text)
		if err := v.Check("chart"); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v, want an error that names %s", text, err, field)
		}
	}
	if err := json.Unmarshal([]byte(`{"global":{"tag":[1]}}`), new(values.Values)); err == nil {
		t.Error("a list is taken for a tag")
	}
}
