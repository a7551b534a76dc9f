package registry_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/test/plane"
	"fairway/test/rig"
)

// plane runs a control plane with a registries file.
func (c *bed) plane(entries ...entry) *plane.Plane {
	c.Helper()
	text, err := json.Marshal(map[string]any{"registries": entries})
	if err != nil {
		c.Fatal(err)
	}
	o := plane.Options()
	o.RegistriesFile = rig.Write(c.T, c.TempDir(), "registries", text)
	return plane.Start(c.T, o)
}

// with returns an entry with another field.
func (e entry) with(field, value string) entry {
	out := maps.Clone(e)
	out[field] = value
	return out
}

// programs are behaviours of the program around the registries.
func programs() []behaviour {
	return []behaviour{
		{"expiry", "what a registry said that does not answer goes after its `expiry`, and is back with it", []string{"server"},
			func(c *bed) {
				g, _, e := c.gated()
				in := c.in("web", 1)
				c.put(in)
				w := open(c.T, e.with("expiry", "2s"))
				w.synced(c.T, c.called("suite"))
				c.has(w, in)
				g.Close()
				c.hasNone(w, in.service)
				w.eventually(func() error {
					if phase, _ := w.standing(c.called("suite")); phase != "waiting" {
						return fmt.Errorf("it is %q", phase)
					}
					return nil
				})
				g.Open(c.T)
				c.has(w, in)
			}},
		{"last state on disk", "after a restart of the control plane while the registry is away its services are there", []string{"server",
			"kept"}, func(c *bed) {
			g, _, e := c.gated()
			in := c.in("web", 1)
			in.labels, in.zone = map[string]string{"version": "v1"}, "a"
			c.put(in)
			w := open(c.T, e.with("expiry", "60s"))
			w.synced(c.T, c.called("suite"))
			c.has(w, in)
			w.eventually(func() error {
				files, _ := filepath.Glob(filepath.Join(w.dir, "state", "*"))
				if len(files) != 1 {
					return fmt.Errorf("the folder has %v", files)
				}
				text, err := os.ReadFile(files[0])
				if err == nil && !strings.Contains(string(text), in.service) {
					err = errors.New("it is not in the file")
				}
				return err
			})
			w.stop()
			g.Close()
			w.start()
			c.has(w, in)
			w.stale(c.T, c.called("suite"))
			g.Open(c.T)
			w.synced(c.T, c.called("suite"))
			c.has(w, in)
			c.always(w, in)
		}},
		{"taken out of the file", "everything that the registry said goes, and what others said stays", nil, func(c *bed) {
			other := registry{name: "Memory", kind: "memory", source: "Memory"}
			bed := startMemory(c.T)
			stays := other.entry("stays", bed.options(bed.address()))
			w := open(c.T, c.at(), stays)
			in, beside := c.in("web", 1), c.in("beside", 2)
			c.put(in)
			if err := bed.register(c.T, beside); err != nil {
				c.Fatal(err)
			}
			c.has(w, in, beside)
			w.write(stays)
			c.hasNone(w, in.service)
			w.eventually(func() error {
				if phase, _ := w.standing(c.called("suite")); phase != "" || len(w.sources.Names()) != 1 {
					return fmt.Errorf("it is still %s", phase)
				}
				return nil
			})
			c.has(w, beside)
			c.always(w, beside)
		}},
		{"other options", "options that change count without a restart, and what was read stays meanwhile", []string{"before"},
			func(c *bed) {
				in := c.in("web", 1)
				c.put(in)
				w := open(c.T, c.at())
				c.has(w, in)
				g, _, e := c.gated()
				w.write(e)
				w.eventually(func() error {
					if g.Connections() == 0 {
						return errors.New("it is not read at the other address")
					}
					return w.isSynced(c.called("suite"))
				})
				c.put(c.in("web", 2))
				c.has(w, in, c.in("web", 2))
				c.always(w, in)
			}},
		{"end", "no goroutine and no connection is left once the registry is read no more", []string{"server"}, func(c *bed) {
			g, _, e := c.gated()
			c.put(c.in("web", 1))
			w := open(c.T, e)
			w.synced(c.T, c.called("suite"))
			c.has(w, c.in("web", 1))
			if g.Connections() == 0 {
				c.Error("there was no connection")
			}
			w.stop() // which looks for goroutines
			rig.Eventually(c.T, func() error {
				if n := g.Connections(); n > 0 {
					return fmt.Errorf("%d connections are left", n)
				}
				return nil
			})
		}},
		{"the same host twice", "instances of two registries serve one host together, and `SameHost` says so", nil, func(c *bed) {
			other := registry{name: "Memory", kind: "memory", source: "Memory"}
			bed := startMemory(c.T)
			p := c.plane(c.at(), other.entry("twice", bed.options(bed.address())))
			one, two := c.in("web", 1), c.in("web", 2)
			one.protocol, two.protocol = "http", "http"
			c.put(one)
			if err := bed.register(c.T, two); err != nil {
				c.Fatal(err)
			}
			client := p.Connect(c.T, plane.Proxy{Name: "web-1", Secrets: true})
			cluster := "outbound|8080||" + host(one.service)
			served := func(want ...string) {
				c.Helper()
				rig.Eventually(c.T, func() error {
					have, err := client.Endpoints(cluster)
					if slices.Sort(have); err == nil && !slices.Equal(have, want) {
						err = fmt.Errorf("it is at %v, want %v", have, want)
					}
					return err
				})
			}
			served(one.address+":8080", two.address+":8080")
			rig.Eventually(c.T, func() error {
				if !slices.ContainsFunc(p.Discovery.Problems(), func(q mesh.Problem) bool {
					return q.Code == code.SameHost && strings.Contains(q.String(), one.service)
				}) {
					return fmt.Errorf("nobody says so: %v", p.Discovery.Problems())
				}
				return nil
			})
			c.drop(one)
			served(two.address + ":8080")
		}},
		{"metrics", "objects, reconnects, lag, last change and staleness are counted under the registry's name", nil, func(c *bed) {
			p := c.plane(c.at())
			c.put(c.in("web", 1))
			label := fmt.Sprintf("{source=%q}", c.called("suite"))
			rig.Eventually(c.T, func() error {
				code, text, err := rig.Call(http.MethodGet, p.URL("/metrics"), nil)
				if err != nil || code != http.StatusOK {
					return fmt.Errorf("%d %w", code, err)
				}
				values := map[string]float64{}
				for line := range strings.Lines(text) {
					var v float64
					name, rest, is := strings.Cut(line, label)
					if _, err := fmt.Sscan(rest, &v); is && err == nil {
						values[name] = v
					}
				}
				lag, has := values["fairway_registry_lag_seconds"]
				_, counts := values["fairway_registry_reconnects_total"]
				age := time.Since(time.UnixMilli(int64(values["fairway_registry_last_change_timestamp_seconds"] * 1000)))
				if values["fairway_registry_objects"] < 1 || !has || lag < 0 || lag > 60 || !counts || age < -time.Second ||
					age > time.Minute {
					return fmt.Errorf("they are %v", values)
				}
				return nil
			})
		}},
		{"ready", "a start waits for a registry that is away as long as its `wait`, and serves then", []string{"server"}, func(c *bed) {
			g, _, e := c.gated()
			g.Close()
			begun := time.Now()
			p := c.plane(e.with("wait", "1s")) // which returns once it serves
			if took := time.Since(begun); took < time.Second {
				c.Errorf("it waited %s", took)
			}
			if behind := p.Discovery.Behind(); len(behind) != 1 || !strings.Contains(behind[0], c.called("suite")) {
				c.Errorf("behind are %v", behind)
			}
		}},
	}
}

// largest is how many services of ten instances each registry has in the conformance suite; make soak has 5,000.
var largest = flag.Int("services", 1000, "services of ten instances that each registry holds in TestConformance")

// scale are behaviours of many.
func scale() []behaviour {
	return []behaviour{{"many services of 10 instances", "all are read; one that changes is seen at once, and alone", []string{"own",
		"alone"}, func(c *bed) {
		var all []instance
		for i := range *largest * 10 {
			all = append(all, instance{
				service: fmt.Sprintf("%ss%04d", c.prefix, i/10), id: fmt.Sprintf("i%d", i),
				address: fmt.Sprintf("10.%d.%d.%d", 1+i/62500, i/250%250, i%250+1), port: 8080, zone: string(rune('a' + i%3)),
				labels: map[string]string{"version": "v1", "team": "t"},
			})
		}
		begun := time.Now()
		w := (*world)(nil)
		if c.lacks["before"] != "" {
			w = c.open()
		}
		c.put(all...)
		filled := time.Since(begun)
		begun = time.Now()
		if w == nil {
			w = open(c.T, c.at())
		}
		for late := time.NewTimer(4 * time.Minute); w.hosts() != *largest || w.isSynced(c.called("suite")) != nil; {
			w.mu.Lock()
			changed := w.changed
			w.mu.Unlock()
			select {
			case <-changed:
			case <-time.After(100 * time.Millisecond): // that all has been read changes nothing
			case <-late.C:
				c.Fatalf("there are %d services: %v", w.hosts(), w.set.Standings())
			}
		}
		read := time.Since(begun)
		if err := holds(w.sink, all...); err != nil {
			c.Fatal(err)
		}
		var took []time.Duration
		before := w.count()
		for i := range 30 {
			in := all[i*1237%len(all)]
			in.zone = "moved"
			seen := len(w.was(host(in.service)))
			begun := time.Now()
			c.put(in)
			w.eventually(func() error {
				if len(w.was(host(in.service))) == seen {
					return errors.New("the change is not seen")
				}
				return nil
			})
			took = append(took, time.Since(begun))
		}
		if n := w.count() - before; n > 2*len(took) {
			c.Errorf("%d changes changed %d hosts", len(took), n)
		}
		slices.Sort(took)
		c.Logf("registered in %s, read in %s; a change is seen after %s (median), %s (longest)", filled.Round(time.Millisecond),
			read.Round(time.Millisecond), took[len(took)/2].Round(time.Microsecond), took[len(took)-1].Round(time.Microsecond))
	}}}
}

// count is how often hosts have changed.
func (k *sink) count() (n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, h := range k.history {
		n += len(h)
	}
	return n
}
