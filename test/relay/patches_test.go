package relay

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"fairway/test/rig"
)

// filter is an EnvoyFilter that patches bootstraps.
func (w *world) filter(namespace, name, patch string) string {
	w.t.Helper()
	return rig.Text(w.t, "filter.yaml", rig.Pairs("namespace", namespace, "name", name, "patch", patch))
}

// flush is one of the root namespace that has Envoy flush its statistics as often.
func (w *world) flush(seconds int) string {
	w.t.Helper()
	return w.filter("istio-system", "flush", fmt.Sprintf("{stats_flush_interval: %ds}", seconds))
}

// memoryFilter is one of the namespace default.
func (w *world) memoryFilter() string {
	w.t.Helper()
	return w.filter("default", "memory", "{memory_allocator_manager: {max_unfreed_memory_bytes: 104857601}}")
}

// TestBootstrapPatches: the first Envoy has what EnvoyFilter objects patch, without a restart; a change is a hot
// restart, and what Envoy refuses is none.
func TestBootstrapPatches(t *testing.T) {
	w := newWorld(t)
	w.Backend(t, "app")
	w.rules = documents(w.services(1), w.vouched("web"))
	w.start()
	w.plane.Apply(t, "filters", documents(w.flush(7), w.memoryFilter()))
	w.introduce()
	w.launch(w.options.SecureAddr)
	f := w.await("ready", func(f facts) bool { return f.Ready && connected(f) })
	w.runsWith(`"stats_flush_interval": "7s"`, `"max_unfreed_memory_bytes": "104857601"`)
	if f.Envoys.Starts != 1 || f.Envoys.Handovers != 0 {
		t.Errorf("the first Envoy was replaced: %+v", f.Envoys)
	}

	w.plane.Apply(t, "filters", w.flush(9))
	w.await("replaced", func(f facts) bool { return f.Ready && f.Envoys.Handovers == 1 })
	w.runsWith(`"stats_flush_interval": "9s"`)
	w.serves("s0.test")

	w.plane.Apply(t, "filters", documents(w.flush(9), w.filter("default", "bad", "{no_such_field: 1}")))
	w.await("told of the bad one", func(f facts) bool { return slices.Contains(f.Patches, "default/bad/0") })
	w.plane.Delete(t, "EnvoyFilter", "default", "bad")
	w.plane.Apply(t, "filters", w.flush(11))
	w.await("replaced once more", func(f facts) bool {
		return f.Ready && f.Envoys.Handovers == 2 && !slices.Contains(f.Patches, "default/bad/0")
	})
	w.runsWith(`"stats_flush_interval": "11s"`)
}

// runsWith waits until Envoy's bootstrap has all these texts.
func (w *world) runsWith(texts ...string) {
	w.t.Helper()
	rig.Eventually(w.t, func() error {
		code, body, err := rig.Call(http.MethodGet,
			fmt.Sprintf("http://127.0.0.1:%d/config_dump?mask=bootstrap.stats_flush_interval,bootstrap.memory_allocator_manager", w.admin),
			nil)
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

// listens is a patch with a static listener; Envoy finds out that its port is taken when it runs, not before.
func (w *world) listens(at string) string {
	w.t.Helper()
	host, port, _ := strings.Cut(at, ":")
	return rig.Text(w.t, "listens.yaml", rig.Pairs("host", host, "port", port))
}

// said waits until the problems of an EnvoyFilter of the namespace default have a text, or, if it is empty, until there are none.
func (w *world) said(name, text string) {
	w.t.Helper()
	rig.Eventually(w.t, func() error {
		var all []string
		for _, p := range w.plane.Discovery.Problems() {
			if p.Object.Kind == "EnvoyFilter" && p.Object.Name == name {
				all = append(all, p.Message)
			}
		}
		if joined := strings.Join(all, "\n"); text == "" && joined != "" || text != "" && !strings.Contains(joined, text) {
			return fmt.Errorf("problems of %s: %q, want %q", name, joined, text)
		}
		return nil
	})
}

// TestAPatchThatCannotRun: a patch that Envoy takes when it is asked, and cannot run with, keeps no proxy from
// starting. Envoy runs with the others, the object says why it does not run with this one, and the next agent does not
// try it again. A changed patch is tried; if it fails while an Envoy serves, the object says so, and nothing else
// changes.
func TestAPatchThatCannotRun(t *testing.T) {
	w := newWorld(t)
	w.Backend(t, "app")
	w.rules = documents(w.services(1), w.vouched("web"))
	w.start()
	taken, err := net.Listen("tcp", w.Addr("other", 7777))
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	memory, bad := w.memoryFilter(), w.filter("default", "extra", w.listens(taken.Addr().String()))
	w.plane.Apply(t, "filters", documents(w.flush(7), bad, memory))
	w.introduce()
	agent.Path(t) // building it does not count
	began := time.Now()
	w.launch(w.options.SecureAddr)
	w.await("ready", func(f facts) bool { return f.Ready && connected(f) })
	took := time.Since(began)
	t.Logf("ready after %s", took.Round(time.Millisecond))
	if took > 10*time.Second {
		t.Errorf("ready after %s\n%s", took, w.agent.Log)
	}
	w.runsWith(`"stats_flush_interval": "7s"`, `"max_unfreed_memory_bytes": "104857601"`)
	w.serves("s0.test")
	refused := func(f facts) bool {
		return strings.Contains(f.Refused["default/extra/0"], "in use") && len(f.Patches) == 2
	}
	w.await("set aside", refused)
	w.said("extra", "runs without until it changes")
	w.said("extra", "Address already in use")
	w.said("memory", "")

	w.stop()
	w.introduce()
	w.launch(w.options.SecureAddr)
	f := w.await("ready again", func(f facts) bool { return f.Ready && connected(f) && refused(f) })
	if f.Envoys.Starts != 1 {
		t.Errorf("the second agent tried again: %+v\n%s", f.Envoys, w.agent.Log)
	}
	w.said("extra", "runs without until it changes")

	free := w.Addr("another", 7777)
	w.plane.Apply(t, "filters", documents(w.flush(7), w.filter("default", "extra", w.listens(free)), memory))
	w.await("run with what was changed", func(f facts) bool {
		return f.Ready && len(f.Patches) == 3 && len(f.Refused) == 0 && f.Envoys.Handovers == 1
	})
	rig.Eventually(t, func() error {
		conn, err := net.Dial("tcp", free)
		if err == nil {
			conn.Close()
		}
		return err
	})
	w.said("extra", "")

	w.plane.Apply(t, "filters", documents(w.flush(7), bad, memory))
	w.await("set aside while an Envoy serves",
		func(f facts) bool { return f.Ready && f.Refused["default/extra/0"] != "" && len(f.Patches) == 2 })
	w.said("extra", "runs without until it changes")
	w.plane.Apply(t, "filters", documents(w.flush(9), bad, memory))
	w.runsWith(`"stats_flush_interval": "9s"`, `"max_unfreed_memory_bytes": "104857601"`)
	w.serves("s0.test")
}
