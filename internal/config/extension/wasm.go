package extension

import (
	"net/url"
	"strconv"

	extensionsv1alpha1 "istio.io/api/extensions/v1alpha1"

	"fairway/internal/config/report"
	"fairway/internal/config/rule"
	"fairway/internal/mesh/code"
)

// WasmPlugin holds the rules of https://istio.io/latest/docs/reference/config/proxy_extensions/wasm-plugin/ that
// the schema cannot say.
func WasmPlugin(c *rule.Check, p *extensionsv1alpha1.WasmPlugin) {
	at := report.Spec()
	selector := at.Key("selector")
	c.Selector(&selector, "matchLabels", p.Selector.GetMatchLabels())
	c.Targets(at, p.TargetRef, p.TargetRefs) //nolint:staticcheck // deprecated by Istio, still taken
	checkModule(c, at, p.Url, p.Sha256)
}

// TrafficExtension holds the rules of TrafficExtension (extensions/v1alpha1/traffic_extension.proto) that the schema cannot say.
func TrafficExtension(c *rule.Check, t *extensionsv1alpha1.TrafficExtension) {
	at := report.Spec()
	selector := at.Key("selector")
	c.Selector(&selector, "matchLabels", t.Selector.GetMatchLabels())
	c.Targets(at, nil, t.TargetRefs)
	switch {
	case t.GetWasm() != nil:
		wasm := at.Key("wasm")
		checkModule(c, &wasm, t.GetWasm().Url, t.GetWasm().Sha256)
	case t.GetLua() != nil:
		if lua := at.Key("lua"); t.GetLua().InlineCode == "" {
			c.Fail(lua.Key("inlineCode"), code.Missing, "there is no code", "")
		}
	default:
		c.Fail(*at, code.Missing, "the extension runs nothing", "set wasm or lua")
	}
}

// checkModule checks where a Wasm module is fetched from.
func checkModule(c *rule.Check, at *report.Path, from, sum string) {
	u, err := url.Parse(from)
	if from == "" || err != nil || !rule.OneOf(u.Scheme, "", "file", "http", "https", "oci") {
		c.Fail(at.Key("url"), code.BadURL, strconv.Quote(from)+" is not where a module can be fetched from",
			"write a URL with file, http, https or oci")
	}
	if sum == "" {
		return
	}
	if len(sum) != 64 || !isHex(sum) {
		c.Fail(at.Key("sha256"), code.BadValue, strconv.Quote(sum)+" is not a SHA-256", "write 64 hex digits")
	}
}

func isHex(s string) bool {
	for _, r := range s {
		if (r < '0' || r > '9') && (r < 'a' || r > 'f') && (r < 'A' || r > 'F') {
			return false
		}
	}
	return true
}
