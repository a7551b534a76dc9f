package mixed

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"fairway/test/envoy/live"
	"fairway/test/rig"
)

// caller is the kind of clients that ask.
const caller = "caller"

// kind is what names of a registry's instances begin with.
func kind(r registry) string {
	word, _, _ := strings.Cut(strings.ToLower(r.source()), "/")
	return word
}

// made names an instance of a registry.
func made(at int, r registry, n int) instance {
	return instance{name: fmt.Sprintf("%s-%d", kind(r), n), ip: fmt.Sprintf("10.3.%d.%d", at+1, n), version: fmt.Sprintf("v%d", n%2+1)}
}

// TestOneServiceOfFourRegistries is the whole story, in one world.
func TestOneServiceOfFourRegistries(t *testing.T) {
	live.NeedEnvoy(t)
	for _, p := range programs {
		p.Hand(t)
	}
	if !live.Isolated(t) {
		return
	}
	begun := time.Now()
	w := start(t)
	standing := map[registry][]instance{}
	for at, r := range w.all {
		for n := range 2 {
			i := made(at, r, n+1)
			w.run(i)
			r.put(t, i)
			standing[r] = append(standing[r], i)
		}
	}
	w.startPlane(t)
	w.startSidecar(t)
	for _, r := range w.all {
		for _, i := range standing[r] {
			w.awaitHost(t, i, true)
		}
	}
	t.Logf("all runs after %s", time.Since(begun))
	clients := live.HTTPClients(caller, 4, live.Request{To: vip + ":80", Host: host, Mark: live.Workload})
	clients.Pause = 2 * time.Millisecond
	load := live.StartLoad(t, clients)
	answered := func(all ...instance) {
		t.Helper()
		for _, i := range all {
			load.AwaitFrom(t, caller, i.name)
		}
	}
	for _, r := range w.all {
		answered(standing[r]...)
	}

	t.Run("every instance, and the registries, are told of", func(t *testing.T) { w.told(t, standing) })
	t.Run("instances come and go in all at once", func(t *testing.T) {
		begun := time.Now()
		for round := range 3 {
			var fresh []instance
			for at, r := range w.all {
				i := made(at, r, 3+round)
				w.run(i)
				r.put(t, i)
				fresh = append(fresh, i)
				standing[r] = append(standing[r], i)
			}
			answered(fresh...)
			for _, r := range w.all {
				r.drop(t, standing[r][0])
			}
			for _, r := range w.all {
				w.leaves(t, load, standing[r][0])
				standing[r] = standing[r][1:]
			}
		}
		t.Logf("12 instances came and 12 went in %s", time.Since(begun))
	})
	for at, r := range w.all {
		t.Run(r.source()+" is killed, and comes back empty", func(t *testing.T) {
			begun := time.Now()
			r.kill(w.t)
			w.awaitPhase(t, r, stale)
			load.Await(t, 10)
			answered(standing[r]...)
			away := time.Since(begun)
			r.empty(w.t) // it outlives this subtest
			if r.kept() == "" {
				for _, i := range standing[r] {
					w.awaitHost(t, i, false)
				}
				load.Await(t, 10)
			} else {
				w.awaitKept(t, r)
				load.Await(t, 10)
				answered(standing[r]...)
			}
			for _, i := range standing[r] {
				r.put(t, i)
			}
			w.awaitPhase(t, r, synced) // all kept instances are registered again when the source is synced
			answered(standing[r]...)
			// It is followed as before.
			more := made(at, r, 9)
			w.run(more)
			r.put(t, more)
			answered(more)
			r.drop(t, more)
			w.leaves(t, load, more)
			t.Logf("away for %s, all as before after %s", away, time.Since(begun))
		})
	}
	t.Run("the control plane is started anew while Consul is away", func(t *testing.T) {
		w.consul.kill(t)
		w.plane.Signal(syscall.SIGTERM) // the registries' state is on disk when it has ended
		w.plane.Exit(t)
		w.startPlane(w.t)
		w.awaitPhase(t, w.consul, late)
		load.Await(t, 10)
		for _, r := range w.all {
			answered(standing[r]...)
		}
		w.consul.Restart(w.t, false)
		w.awaitPhase(t, w.consul, synced)
		for _, r := range w.all {
			answered(standing[r]...)
		}
	})
	load.Stop(t)
	by := load.By(caller)
	for _, r := range w.all {
		sum := 0
		for name, n := range by {
			if strings.HasPrefix(name, kind(r)+"-") {
				sum += n
			}
		}
		t.Logf("%s answered %d requests", r.source(), sum)
		if sum == 0 {
			t.Errorf("no request reached %s", r.source())
		}
	}
}

// leaves ends an instance as its users would end a deregistered one: after the proxy has the change and earlier requests have arrived.
func (w *world) leaves(t testing.TB, load *live.Load, i instance) {
	t.Helper()
	w.awaitHost(t, i, false)
	load.Await(t, 3)
	w.end(t, i)
}

// sources is /debug/sourcez: how far each source is.
func (w *world) sources() (map[string]string, error) {
	var all []struct{ Source, Phase string }
	err := rig.Read(w.page("/debug/sourcez"), &all)
	out := map[string]string{}
	for _, s := range all {
		out[s.Source] = s.Phase
	}
	return out, err
}

// awaitTold waits until a page of the control plane says something of a registry.
func (w *world) awaitTold(t testing.TB, what string, is func() (bool, error)) {
	t.Helper()
	rig.Eventually(t, func() error {
		w.plane.Running(t)
		ok, err := is()
		if err == nil && !ok {
			err = fmt.Errorf("the control plane does not say: %s", what)
		}
		return err
	})
}

// problems is what the control plane says is wrong.
func (w *world) problems() (string, error) { return rig.Page(w.page("/debug/problems")) }

// awaitPhase waits until a registry's source is stale, or synced.
func (w *world) awaitPhase(t testing.TB, r registry, phase string) {
	t.Helper()
	if f, is := r.(*files); is { // one folder of several that its source reads: it has a problem
		w.awaitTold(t, "the folder is "+phase, func() (bool, error) {
			body, err := w.problems()
			return strings.Contains(body, f.dir+`"`) == (phase == stale), err
		})
		return
	}
	w.awaitTold(t, r.source()+" is "+phase, func() (bool, error) {
		all, err := w.sources()
		return all[r.source()] == phase, err
	})
}

// awaitKept waits until an empty registry has been read, and the control plane reports that it keeps the instances from before.
func (w *world) awaitKept(t testing.TB, r registry) {
	t.Helper()
	w.awaitTold(t, r.kept(), func() (bool, error) {
		body, err := w.problems()
		return strings.Contains(body, r.kept()), err
	})
}

// Phases of sources.
const (
	stale  = "stale"
	late   = "late" // it has not been read since the control plane started
	synced = "synced"
)
