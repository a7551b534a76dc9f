package config

import (
	"net/url"

	extensionsv1alpha1 "istio.io/api/extensions/v1alpha1"
)

// checkWasmPlugin holds the rules of https://istio.io/latest/docs/reference/config/proxy_extensions/wasm-plugin/ that
// the schema cannot say.
func checkWasmPlugin(c *check, p *extensionsv1alpha1.WasmPlugin) {
	at := c.spec()
	selector := at.key("selector")
	c.selector(&selector, p.Selector.GetMatchLabels())
	checkModule(c, at, p.Url, p.Sha256)
}

// checkTrafficExtension holds the rules of TrafficExtension (extensions/v1alpha1/traffic_extension.proto) that the schema cannot say.
func checkTrafficExtension(c *check, t *extensionsv1alpha1.TrafficExtension) {
	at := c.spec()
	selector := at.key("selector")
	c.selector(&selector, t.Selector.GetMatchLabels())
	switch {
	case t.GetWasm() != nil:
		wasm := at.key("wasm")
		checkModule(c, &wasm, t.GetWasm().Url, t.GetWasm().Sha256)
	case t.GetLua() != nil:
		if lua := at.key("lua"); t.GetLua().InlineCode == "" {
			c.fail(lua.key("inlineCode"), "Missing", "there is no code", "")
		}
	default:
		c.fail(*at, "Missing", "the extension runs nothing", "set wasm or lua")
	}
}

// checkModule checks where a Wasm module is fetched from.
func checkModule(c *check, at *path, from, sum string) {
	u, err := url.Parse(from)
	if from == "" || err != nil || !oneOf(u.Scheme, "", "file", "http", "https", "oci") {
		c.fail(
			at.key("url"),
			"BadURL",
			quote(from)+" is not where a module can be fetched from",
			"write a URL with file, http, https or oci",
		)
	}
	if sum == "" {
		return
	}
	if len(sum) != 64 || !isHex(sum) {
		c.fail(at.key("sha256"), "BadValue", quote(sum)+" is not a SHA-256", "write 64 hex digits")
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
