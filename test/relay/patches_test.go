package relay

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"fairway/test/rig"
)

// filter is an EnvoyFilter that patches bootstraps.
func filter(namespace, name, patch string) string {
	return `---
apiVersion: networking.istio.io/v1alpha3
kind: EnvoyFilter
metadata: {name: ` + name + `, namespace: ` + namespace + `}
spec:
  workloadSelector: {labels: {app: web}}
  configPatches: [{applyTo: BOOTSTRAP, patch: {operation: MERGE, value: ` + patch + `}}]
`
}

// TestBootstrapPatches: the first Envoy has what EnvoyFilter objects patch, without a restart; a change is a hot restart, and what Envoy refuses is none.
func TestBootstrapPatches(t *testing.T) {
	w := newWorld(t)
	w.Backend(t, "app")
	w.rules = w.services(1) + vouched("web")
	w.start()
	w.plane.Apply(t, "filters", filter("istio-system", "flush", "{stats_flush_interval: 7s}")+filter("default", "memory", "{memory_allocator_manager: {max_unfreed_memory_bytes: 104857601}}"))
	w.introduce()
	w.launch("--discoveryAddress", w.options.SecureAddr)
	f := w.await("ready", func(f facts) bool { return f.Ready && connected(f) })
	w.runsWith(`"stats_flush_interval": "7s"`, `"max_unfreed_memory_bytes": "104857601"`)
	if f.Envoys.Starts != 1 || f.Envoys.Handovers != 0 {
		t.Errorf("the first Envoy was replaced: %+v", f.Envoys)
	}

	w.plane.Apply(t, "filters", filter("istio-system", "flush", "{stats_flush_interval: 9s}"))
	w.await("replaced", func(f facts) bool { return f.Ready && f.Envoys.Handovers == 1 })
	w.runsWith(`"stats_flush_interval": "9s"`)
	w.serves("s0.test")

	w.plane.Apply(t, "filters", filter("istio-system", "flush", "{stats_flush_interval: 9s}")+filter("default", "bad", "{no_such_field: 1}"))
	w.await("told of the bad one", func(f facts) bool { return slices.Contains(f.Patches, "default/bad/0") })
	w.plane.Delete(t, "EnvoyFilter", "default", "bad")
	w.plane.Apply(t, "filters", filter("istio-system", "flush", "{stats_flush_interval: 11s}"))
	w.await("replaced once more", func(f facts) bool {
		return f.Ready && f.Envoys.Handovers == 2 && !slices.Contains(f.Patches, "default/bad/0")
	})
	w.runsWith(`"stats_flush_interval": "11s"`)
}

// runsWith waits until Envoy's bootstrap has all these texts.
func (w *world) runsWith(texts ...string) {
	w.t.Helper()
	rig.Eventually(w.t, func() error {
		code, body, err := rig.Call(http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/config_dump?mask=bootstrap.stats_flush_interval,bootstrap.memory_allocator_manager", w.admin), nil)
		if err != nil || code != http.StatusOK {
			return errors.Join(fmt.Errorf("config_dump: %d", code), err)
		}
		for _, text := range texts {
			if !strings.Contains(body, text) {
				return fmt.Errorf("%s is not in the bootstrap: %s", text, body)
			}
		}
		return nil
	})
}
