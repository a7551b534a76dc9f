package main

import (
	"fmt"
	"path/filepath"
	"strings"
)

// invitation returns the text with what to try while the mesh stays up.
func (w *world) invitation() string {
	page := w.http(w.ports.gateway, "/productpage")
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("\nThe mesh stays up. Try:")
	line("  curl %s", page)
	line("  curl -H 'end-user: jason' %s", page)
	line("  curl -H 'end-user: jason' -H 'x-demo: fault' %s      (or flaky, or retry)", page)
	line("  edit the rules in %s and ask again", w.relative(w.rules()))
	line("\nLook inside:")
	line("  go run ./cmd/pilotctl --address %s proxy-status", at(local, w.ports.http))
	line("  curl %s", w.http(w.ports.http, "/debug/syncz"))
	line("  curl %s", w.http(w.ports.monitoring, "/metrics"))
	for i, c := range w.proxies() {
		line("  %-22s Envoy's administration of %s", w.http(w.ports.admin[i], "/"), c.name)
	}
	for i, name := range proxyNames {
		line("  curl -X POST http://%s/hot-restart      replace the Envoy of %s", at(proxyAddresses[i], w.ports.status[i]), name)
	}
	line("  logs are in %s", w.relative(w.dir))
	line("\nCtrl-C stops it.")
	return b.String()
}

// relative returns path as seen from the checkout, where `make demo` runs.
func (w *world) relative(path string) string {
	if r, err := filepath.Rel(w.root, path); err == nil {
		return r
	}
	return path
}
