package registry_test

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"fairway/internal/mesh"
	"fairway/test/gate"
	"fairway/test/rig"
)

// takes reports whether requests may go to a spot.
func (s spot) takes() bool { return s.health == mesh.Healthy || s.health == mesh.Draining }

// is says why a spot is not what an instance is.
func (s spot) is(in instance) error {
	for l, v := range in.labels {
		if s.labels[l] != v {
			return fmt.Errorf("%s has label %s=%q, want %q", s.address, l, s.labels[l], v)
		}
	}
	switch {
	case s.address != strings.ToLower(in.address) || s.port != strconv.Itoa(in.port):
		return fmt.Errorf("it is %s:%s, want %s:%d", s.address, s.port, in.address, in.port)
	case in.zone != "" && s.zone != in.zone:
		return fmt.Errorf("%s is in zone %q, want %q", s.address, s.zone, in.zone)
	case in.weight != 0 && s.weight != uint32(in.weight):
		return fmt.Errorf("%s has weight %d, want %d", s.address, s.weight, in.weight)
	case s.health != in.health:
		return fmt.Errorf("%s is %s, want %s", s.address, s.health, in.health)
	}
	return nil
}

// holds says why a world does not have these instances, and no others of their services that take requests.
func holds(k *sink, all ...instance) error {
	by := map[string][]instance{}
	for _, in := range all {
		by[in.service] = append(by[in.service], in)
	}
	for service, want := range by {
		v, is := k.host(host(service))
		if !is {
			return fmt.Errorf("there is no %s", host(service))
		}
		spots := slices.DeleteFunc(v.spots, func(s spot) bool { return !s.takes() })
		want = slices.DeleteFunc(slices.Clone(want), func(in instance) bool { return in.health == mesh.Unhealthy })
		for _, in := range want {
			at := slices.IndexFunc(spots, func(s spot) bool { return s.is(in) == nil })
			if at < 0 {
				return fmt.Errorf("%s of %s is not among\n%s", in.id, service, v)
			}
			spots = slices.Delete(spots, at, at+1)
		}
		if len(spots) > 0 {
			return fmt.Errorf("of %s there is more than there should be:\n%s", service, v)
		}
	}
	return nil
}

// has waits until a world has these instances, and no others of their services.
func (c *bed) has(w *world, all ...instance) {
	c.Helper()
	w.eventually(func() error { return holds(w.sink, all...) })
}

// hasNone waits until nothing serves a service.
func (c *bed) hasNone(w *world, service string) {
	c.Helper()
	w.eventually(func() error {
		v, _ := w.host(host(service))
		if i := slices.IndexFunc(v.spots, spot.takes); i >= 0 {
			return fmt.Errorf("of %s there still is\n%s", service, v)
		}
		return nil
	})
}

// always fails the test where an instance was not there at some time since it was there first.
func (c *bed) always(w *world, in instance) {
	c.Helper()
	first := false
	for _, text := range w.was(host(in.service)) {
		is := strings.Contains(text, " "+in.address+":")
		first = first || is
		if first && !is {
			c.Errorf("%s of %s was away for a while: %q", in.id, in.service, w.was(host(in.service)))
			return
		}
	}
	if !first {
		c.Errorf("%s of %s was never there", in.id, in.service)
	}
}

// gated is a gate to the server, and the entry that leads through it.
func (c *bed) gated(more ...any) (*gate.Gate, string, entry) {
	c.Helper()
	g := gate.New(c.T, c.server.address())
	at := fmt.Sprintf("127.0.0.1:%d", g.Port())
	return g, at, c.entry("suite", c.server.options(at).with(more...))
}

// behaviours are the suite's rows.
func behaviours() []behaviour {
	return slices.Concat(changing(), naming(), hostile(), outages(), proving(), standingIn(), programs(), scale())
}

// changing are behaviours of instances that come, change and go.
func changing() []behaviour {
	return []behaviour{
		{"read at the start", "what is registered before is all there when the registry counts as read", []string{"before"}, func(c *bed) {
			c.put(c.in("web", 1))
			c.put(c.in("web", 2))
			c.put(c.in("db", 3))
			if s, is := c.server.(*eurekaBed); is {
				s.answers(c.T, c.in("db", 3))
			}
			w := c.open()
			if err := holds(w.sink, c.in("web", 1), c.in("web", 2), c.in("db", 3)); err != nil {
				c.Error(err)
			}
		}},
		{"register", "a service that is registered appears", nil, func(c *bed) {
			w := c.open()
			c.put(c.in("web", 1))
			c.has(w, c.in("web", 1))
		}},
		{"another instance", "a second instance is added, and the first one stays", nil, func(c *bed) {
			w := c.open()
			c.put(c.in("web", 1))
			c.has(w, c.in("web", 1))
			c.put(c.in("web", 2))
			c.has(w, c.in("web", 1), c.in("web", 2))
			c.always(w, c.in("web", 1))
		}},
		{"deregister", "an instance that leaves is gone, and others stay", nil, func(c *bed) {
			w := c.open()
			c.put(c.in("web", 1))
			c.put(c.in("web", 2))
			c.has(w, c.in("web", 1), c.in("web", 2))
			c.drop(c.in("web", 2))
			c.has(w, c.in("web", 1))
			c.always(w, c.in("web", 1))
		}},
		{"deregister the last", "nothing serves the service any more", nil, func(c *bed) {
			w := c.open()
			c.put(c.in("web", 1))
			c.put(c.in("other", 2))
			c.has(w, c.in("web", 1), c.in("other", 2))
			c.drop(c.in("web", 1))
			c.hasNone(w, c.prefix+"web")
			c.always(w, c.in("other", 2))
		}},
		{"register again", "a service that was gone is back, elsewhere", nil, func(c *bed) {
			w := c.open()
			c.put(c.in("web", 1))
			c.has(w, c.in("web", 1))
			c.drop(c.in("web", 1))
			c.hasNone(w, c.prefix+"web")
			again := c.in("web", 1)
			again.address = "10.1.9.9"
			c.put(again)
			c.has(w, again)
		}},
		{"move to another address", "an instance is found where it is now, and no longer where it was", nil, func(c *bed) {
			w := c.open()
			c.put(c.in("web", 1))
			c.has(w, c.in("web", 1))
			moved := c.in("web", 1)
			moved.address = "10.1.9.9"
			c.put(moved)
			c.has(w, moved)
		}},
		{"move to another port", "the same, for a port", nil, func(c *bed) {
			w := c.open()
			c.put(c.in("web", 1))
			c.has(w, c.in("web", 1))
			moved := c.in("web", 1)
			moved.port = 9090
			c.put(moved)
			c.has(w, moved)
		}},
		{"several ports", "instances on different ports are all served", nil, func(c *bed) {
			w := c.open()
			one, two := c.in("web", 1), c.in("web", 2)
			two.port = 9090
			c.put(one)
			c.put(two)
			w.eventually(func() error {
				v, _ := w.host(host(one.service))
				for _, in := range []instance{one, two} {
					if !slices.ContainsFunc(v.spots, func(s spot) bool { return s.is(in) == nil }) {
						return fmt.Errorf("%s is not among\n%s", in.id, v)
					}
				}
				if strings.Count(v.ports, "/") != 2 {
					return fmt.Errorf("its ports are %s", v.ports)
				}
				return nil
			})
		}},
		{"relabel", "labels are replaced", nil, func(c *bed) {
			w := c.open()
			in := c.in("web", 1)
			for _, version := range []string{"v1", "v2"} {
				in.labels = map[string]string{"version": version, "team": "a"}
				c.put(in)
				c.has(w, in)
			}
			c.always(w, in)
		}},
		{"take a label away", "it is gone, and others stay", nil, func(c *bed) {
			w := c.open()
			in := c.in("web", 1)
			in.labels = map[string]string{"version": "v1", "team": "a"}
			c.put(in)
			c.has(w, in)
			in.labels = map[string]string{"version": "v1"}
			c.put(in)
			w.eventually(func() error {
				v, _ := w.host(host(in.service))
				if err := holds(w.sink, in); err != nil || v.spots[0].labels["team"] != "" {
					return fmt.Errorf("it is %s, %w", v, err)
				}
				return nil
			})
		}},
		{"move to another zone", "the locality is the new one", nil, func(c *bed) {
			w := c.open()
			in := c.in("web", 1)
			for _, zone := range []string{"a", "b"} {
				in.zone = zone
				c.put(in)
				c.has(w, in)
			}
			c.always(w, in)
		}},
		{"weights", "weights are taken, and replaced", nil, func(c *bed) {
			w := c.open()
			one, two := c.in("web", 1), c.in("web", 2)
			one.weight, two.weight = 3, 7
			c.put(one)
			c.put(two)
			c.has(w, one, two)
			two.weight = 70
			c.put(two)
			c.has(w, one, two)
		}},
		{"protocol", "a port speaks what the registry says", nil, func(c *bed) {
			w := c.open()
			in := c.in("web", 1)
			for protocol, want := range map[string]string{"http": "8080/HTTP", "grpc": "8080/GRPC"} {
				in.protocol = protocol
				c.put(in)
				w.eventually(func() error {
					if v, _ := w.host(host(in.service)); v.ports != want {
						return fmt.Errorf("its ports are %s, want %s", v.ports, want)
					}
					return nil
				})
			}
		}},
		{"unhealthy", "no request goes to an instance that is not healthy, and others stay", []string{"health"}, func(c *bed) {
			w := c.open()
			one, two := c.in("web", 1), c.in("web", 2)
			c.put(one)
			c.put(two)
			c.has(w, one, two)
			two.health = mesh.Unhealthy
			c.put(two)
			c.has(w, one, two)
			c.always(w, one)
		}},
		{"healthy again", "requests go there again", []string{"health"}, func(c *bed) {
			w := c.open()
			in := c.in("web", 1)
			for _, health := range []mesh.Health{mesh.Unhealthy, mesh.Healthy, mesh.Unhealthy, mesh.Healthy} {
				in.health = health
				c.put(in)
				if health == mesh.Healthy {
					c.has(w, in)
				} else {
					c.hasNone(w, in.service)
				}
			}
		}},
		{"draining", "an instance that is to get nothing new keeps its connections, and comes back", []string{"draining"}, func(c *bed) {
			w := c.open()
			in := c.in("web", 1)
			for _, health := range []mesh.Health{mesh.Healthy, mesh.Draining, mesh.Healthy} {
				in.health = health
				c.put(in)
				c.has(w, in)
			}
			c.always(w, in)
		}},
		{"lease that ends", "an instance that is heard no more goes by itself", []string{"lease"}, func(c *bed) {
			w := c.open()
			in := c.in("web", 1)
			c.put(c.in("web", 2))
			end := c.server.(leases).lease(c.T, in)
			c.has(w, in, c.in("web", 2))
			end()
			c.has(w, c.in("web", 2))
		}},
		{"flap", "an instance that comes and goes 100 times a second is as it was left, and another one was never away", nil, func(c *bed) {
			w := c.open()
			stays, flaps := c.in("web", 1), c.in("web", 2)
			c.put(stays)
			c.has(w, stays)
			begun := time.Now()
			pace := time.NewTicker(10 * time.Millisecond)
			defer pace.Stop()
			for i := range 100 {
				if i%2 == 0 {
					c.put(flaps)
				} else {
					c.drop(flaps)
				}
				<-pace.C
			}
			c.put(flaps)
			c.has(w, stays, flaps)
			c.Logf("100 changes in %s, %d were seen", time.Since(begun).Round(time.Millisecond), len(w.was(host(stays.service)))-1)
			c.always(w, stays)
		}},
		{"order of events", "changes are seen in the order in which they were made; the last one counts", nil, func(c *bed) {
			w := c.open()
			in := c.in("web", 1)
			for i := range 40 {
				in.labels = map[string]string{"version": fmt.Sprintf("v%02d", i)}
				c.put(in)
			}
			c.has(w, in)
			last := ""
			for _, text := range w.was(host(in.service)) {
				_, rest, _ := strings.Cut(text, "version=")
				if now := rest[:min(3, len(rest))]; now < last {
					c.Errorf("after %s there was %s", last, now)
				} else {
					last = now
				}
			}
		}},
		{"nothing changed", "what is registered again as it was changes nothing; one that changes changes its service alone", nil,
			func(c *bed) {
				w := c.open()
				var all []instance
				for i := range 10 {
					all = append(all, c.in(fmt.Sprintf("s%d", i), i))
					c.put(all[i])
				}
				c.has(w, all...)
				before := map[string]int{}
				for _, in := range all {
					before[in.service] = len(w.was(host(in.service)))
				}
				c.put(all[3])
				c.put(all[4])
				moved := all[5]
				moved.address = "10.1.9.9"
				c.put(moved)
				c.has(w, moved)
				for i, in := range all {
					if n := len(w.was(host(in.service))) - before[in.service]; i != 5 && n > 0 {
						c.Errorf("%s changed %d times: %q", in.service, n, w.was(host(in.service)))
					}
				}
			}},
		{"names for addresses", "an instance may have a DNS name", nil, func(c *bed) {
			w := c.open()
			in := c.in("web", 1)
			in.address = "db.example.com"
			c.put(in)
			c.has(w, in)
			if v, _ := w.host(host(in.service)); v.resolution != mesh.DNS {
				c.Errorf("it is resolved by %s", v.resolution)
			}
		}},
		{"IPv6", "an instance may have an address of IPv6", nil, func(c *bed) {
			w := c.open()
			in := c.in("web", 1)
			in.address = "2001:db8::1"
			c.put(in)
			c.has(w, in)
		}},
		{"a service of 1,000 instances", "all are there, and one that leaves is gone alone", nil, func(c *bed) {
			w := c.open()
			var all []instance
			for i := range 1000 {
				all = append(all, c.in("large", i))
			}
			c.put(all...)
			c.has(w, all...)
			c.drop(all[500])
			c.has(w, slices.Delete(slices.Clone(all), 500, 501)...)
			c.always(w, all[7])
		}},
	}
}

// leases are servers to which instances have to report that they are alive. lease registers one; end stops its reports.
type leases interface {
	lease(t *testing.T, in instance) (end func())
}

// naming are behaviours of what services are called.
func naming() []behaviour {
	return []behaviour{
		{"host template", "hosts are called as the registry's template says", []string{"naming"}, func(c *bed) {
			w := c.open("host", "{name}.other.example")
			c.put(c.in("web", 1))
			w.eventually(func() error {
				if _, is := w.host(c.prefix + "web.other.example"); !is {
					return errors.New("it is not there")
				}
				return nil
			})
		}},
		{"namespace template", "services are in the namespace that the registry's template says", []string{"naming"}, func(c *bed) {
			w := c.open("namespace", "shop")
			c.put(c.in("web", 1))
			w.eventually(func() error {
				if v, _ := w.host(host(c.prefix + "web")); v.namespace != "shop" {
					return fmt.Errorf("it is in %q", v.namespace)
				}
				return nil
			})
		}},
		{"port that clients address", "instances on ports of their own serve one port of the service", []string{"naming"}, func(c *bed) {
			w := c.open("port", 80)
			one, two := c.in("web", 1), c.in("web", 2)
			two.port = 31999
			c.put(one)
			c.put(two)
			c.has(w, one, two)
			if v, _ := w.host(host(one.service)); !strings.HasPrefix(v.ports, "80/") || strings.Count(v.ports, "/") != 1 {
				c.Errorf("its ports are %s", v.ports)
			}
		}},
		{"default protocol", "ports that say nothing speak what the registry's options say", []string{"naming", "unknown protocol"},
			func(c *bed) {
				w := c.open("protocol", "http2")
				c.put(c.in("web", 1))
				c.has(w, c.in("web", 1))
				if v, _ := w.host(host(c.prefix + "web")); v.ports != "8080/HTTP2" {
					c.Errorf("its ports are %s", v.ports)
				}
			}},
		{"two of a kind", "two entries for one registry are two sources, each with its own hosts", []string{"naming", "before"},
			func(c *bed) {
				in := c.in("web", 1)
				c.put(in)
				w := open(c.T, c.at(), c.entry("other", c.server.options(c.server.address()).with("host", "{name}.other.example")))
				c.has(w, in)
				w.eventually(func() error {
					if _, is := w.host(in.service + ".other.example"); !is {
						return errors.New("it is not there")
					}
					return errors.Join(w.isSynced(c.called("suite")), w.isSynced(c.called("other")))
				})
			}},
	}
}

// strange are names that no host can have, by the word that they begin with.
var strange = map[string]string{
	"unicode": "bücher", "long": strings.Repeat("x", 300), "control": "a\x01\x1b[2J", "notutf8": "\xff\xfe", "space": "a b", "dash": "a-.b",
}

// hostile returns the behaviours with invalid registrations.
func hostile() []behaviour {
	// leftOut registers invalid instances beside a valid one.
	leftOut := func(c *bed, bad ...instance) {
		c.Helper()
		w := c.open()
		good := c.in("web", 1)
		c.put(good)
		c.has(w, good)
		taken := 0
		for _, in := range bad {
			if err := c.server.register(c.T, in); err != nil {
				c.Logf("the server refuses it: %v", err)
				continue
			}
			taken++
		}
		if taken > 0 {
			w.says(c.T, good.service)
		}
		c.put(c.in("after", 2))
		c.has(w, c.in("after", 2))
		if err := holds(w.sink, good); err != nil {
			c.Error(err)
		}
		c.always(w, good)
	}
	return []behaviour{
		{"hostile names", "Unicode, 300 bytes, control characters, bytes that are no UTF-8, blanks: refused, or left out and told",
			[]string{"hostile"}, func(c *bed) {
				w := c.open()
				for _, word := range slices.Sorted(maps.Keys(strange)) {
					in := c.in(word+strange[word], 1)
					if err := c.server.register(c.T, in); err != nil {
						c.Logf("the server refuses %s: %.300v", word, err)
						continue
					}
					w.says(c.T, c.prefix+word)
					if v, is := w.host(host(in.service)); is {
						c.Errorf("%q is there: %s", in.service, v)
					}
				}
				c.put(c.in("after", 2))
				c.has(w, c.in("after", 2))
			}},
		{"hostile addresses", "addresses that nobody can reach are left out and told; other instances stay", []string{"hostile"},
			func(c *bed) {
				var bad []instance
				addresses := []string{"0.0.0.0", "224.0.0.1", "no address!", "fe80::1%eth0"}
				if c.lacks["naming"] != "" {
					addresses = addresses[2:3] // a rule may name the others
				}
				for i, address := range addresses {
					in := c.in("web", 10+i)
					in.address = address
					bad = append(bad, in)
				}
				leftOut(c, bad...)
			}},
		{"hostile ports", "numbers that are not ports are left out and told; other instances stay", []string{"hostile"}, func(c *bed) {
			var bad []instance
			for i, port := range []int{0, 70000, -1} {
				in := c.in("web", 10+i)
				in.port = port
				bad = append(bad, in)
			}
			leftOut(c, bad...)
		}},
		{"Unicode labels", "values of labels may have any letters", nil, func(c *bed) {
			w := c.open()
			in := c.in("web", 1)
			in.labels = map[string]string{"team": "Zürich ✓", "version": "v1"}
			if err := c.server.register(c.T, in); err != nil {
				c.Logf("the server refuses it: %v", err)
				return
			}
			w.eventually(func() error {
				if err := holds(w.sink, in); err != nil && !strings.Contains(w.told(), in.service) {
					return err
				}
				return nil
			})
		}},
		{"labels beyond bounds", "200 labels, and names that no label has, are left out and told; the instance stays",
			[]string{"anylabel"}, func(c *bed) {
				w := c.open()
				many, odd := c.in("many", 1), c.in("odd", 2)
				many.labels = map[string]string{}
				for i := range 200 {
					many.labels[fmt.Sprintf("k%d", i)] = "v"
				}
				odd.labels = map[string]string{"no name!": "v", "version": "v1"}
				for _, in := range []instance{many, odd} {
					if err := c.server.register(c.T, in); err != nil {
						c.Logf("the server refuses it: %v", err)
						continue
					}
					w.says(c.T, in.service)
					in.labels = nil
					c.has(w, in)
				}
			}},
	}
}

// outages are behaviours of servers that are away.
func outages() []behaviour {
	return []behaviour{
		{"away at the start", "the registry is not read, which is said with where it was looked for; once it is there it is read",
			[]string{"server"}, func(c *bed) {
				g, at, e := c.gated()
				in := c.in("web", 1)
				c.put(in)
				g.Close()
				w := open(c.T, e)
				w.stale(c.T, c.called("suite"), at)
				if phase, _ := w.standing(c.called("suite")); phase != "waiting" {
					c.Errorf("it is %s", phase)
				}
				g.Open(c.T)
				w.synced(c.T, c.called("suite"))
				c.has(w, in)
			}},
		{"partition", "a registry that is cut off is stale, which is said with where and why, and fresh afterwards; nothing goes",
			[]string{"server"}, func(c *bed) {
				g, at, e := c.gated()
				in := c.in("web", 1)
				c.put(in)
				w := open(c.T, e)
				w.synced(c.T, c.called("suite"))
				g.Close()
				w.stale(c.T, c.called("suite"), at)
				if *partition > 0 {
					<-time.After(*partition)
				}
				c.has(w, in)
				before := len(w.was(host(in.service)))
				g.Open(c.T)
				w.synced(c.T, c.called("suite"))
				c.has(w, in)
				if n := len(w.was(host(in.service))) - before; n > 0 {
					c.Errorf("nothing changed, and it is another %d times: %q", n, w.was(host(in.service)))
				}
				if n := w.sources.Stats()[c.called("suite")].Reconnects; n == 0 {
					c.Error("no reconnect is counted")
				}
			}},
		{"change while cut off", "what came, changed and left meanwhile is as it is now", []string{"server"}, func(c *bed) {
			g, _, e := c.gated()
			stays, leaves, comes := c.in("web", 1), c.in("web", 2), c.in("late", 3)
			c.put(stays)
			c.put(leaves)
			w := open(c.T, e)
			w.synced(c.T, c.called("suite"))
			c.has(w, stays, leaves)
			g.Close()
			w.stale(c.T, c.called("suite"))
			c.drop(leaves)
			c.put(comes)
			moved := stays
			moved.zone = "z2"
			c.put(moved)
			g.Open(c.T)
			c.has(w, moved, comes)
			c.always(w, stays)
		}},
		{"cut again and again", "connections that end ten times while things change lose nothing", []string{"server"}, func(c *bed) {
			g, _, e := c.gated()
			stays := c.in("web", 1)
			c.put(stays)
			w := open(c.T, e)
			w.synced(c.T, c.called("suite"))
			all := []instance{stays}
			for i := range 10 {
				g.Close()
				all = append(all, c.in("web", 2+i))
				c.put(all[len(all)-1])
				g.Open(c.T)
			}
			c.has(w, all...)
			c.always(w, stays)
		}},
		{"silence", "where nothing goes through any more while connections stay, that is noticed and said, and over afterwards",
			[]string{"server"}, func(c *bed) {
				g, _, e := c.gated()
				in := c.in("web", 1)
				c.put(in)
				w := open(c.T, e)
				w.synced(c.T, c.called("suite"))
				g.Freeze()
				begun := time.Now()
				// a source may wait for most of a minute twice
				for late := begun.Add(3 * time.Minute); w.isStale(c.called("suite")) != nil; {
					if <-time.After(100 * time.Millisecond); time.Now().After(late) {
						c.Fatal("nobody notices")
					}
				}
				c.Logf("noticed after %s", time.Since(begun).Round(time.Millisecond))
				c.has(w, in)
				g.Thaw()
				w.synced(c.T, c.called("suite"))
				c.put(c.in("web", 2))
				c.has(w, in, c.in("web", 2))
				c.always(w, in)
			}},
		{"several servers", "one that is away, or goes away, is passed over; what changes meanwhile arrives", []string{"peers"},
			func(c *bed) {
				in := c.in("web", 1)
				c.put(in)
				a, b := gate.New(c.T, c.server.address()), gate.New(c.T, c.server.address())
				at := func(g *gate.Gate) string { return fmt.Sprintf("127.0.0.1:%d", g.Port()) }
				o := c.server.options(c.server.address())
				maps.Copy(o, many(c.registry, o, "127.0.0.1:1", at(a), at(b)))
				w := open(c.T, c.entry("suite", o))
				w.synced(c.T, c.called("suite"))
				a.Close()
				c.put(c.in("web", 2))
				c.has(w, in, c.in("web", 2))
				a.Open(c.T)
				b.Close()
				c.put(c.in("web", 3))
				c.has(w, in, c.in("web", 2), c.in("web", 3))
				c.always(w, in)
			}},
		{"restart with what it held", "the server is killed and comes back with its data: nothing goes, and changes arrive again",
			[]string{"state", "own"}, func(c *bed) {
				all := []instance{c.in("web", 1), c.in("web", 2), c.in("db", 3)}
				for _, in := range all {
					c.put(in)
				}
				w := c.open()
				c.has(w, all...)
				c.server.(mortal).kill()
				w.stale(c.T, c.called("suite"))
				c.has(w, all...)
				c.server.(mortal).again(c.T, false)
				w.synced(c.T, c.called("suite"))
				c.put(c.in("web", 4))
				c.has(w, append(all, c.in("web", 4))...)
				for _, in := range all {
					c.always(w, in)
				}
			}},
		{"restart with nothing", "the server comes back empty: who registers again was never away, and others stay for a while, or for " +
			"ever", []string{"forgets", "own"}, func(c *bed) {
			all := []instance{c.in("web", 1), c.in("web", 2), c.in("db", 3), c.in("cart", 4)}
			for _, in := range all {
				c.put(in)
			}
			w := c.open()
			c.has(w, all...)
			c.server.(mortal).kill()
			w.stale(c.T, c.called("suite"))
			c.server.(mortal).again(c.T, true)
			if e, is := c.server.(*etcdBed); is {
				e.entries = entries{}
			}
			c.put(all[0])
			if c.forgets {
				c.has(w, all[0])
				c.hasNone(w, all[3].service)
			} else {
				c.has(w, all[2:]...)
				w.says(c.T, all[3].service)
			}
			c.always(w, all[0])
		}},
	}
}

// many are options that lead to several addresses.
func many(r registry, o options, at ...string) options {
	caFile, _ := o["caFile"].(string)
	return options{"urls": r.reach(caFile, at...)["urls"], "servers": r.reach(caFile, at...)["servers"]}.set()
}

// set removes the nil values.
func (o options) set() options {
	maps.DeleteFunc(o, func(_ string, v any) bool { return v == nil })
	return o
}

// protocols returns the protocols of the registry's servers without TLS.
func (r registry) protocols() []string {
	if r.kind == "etcd" || r.kind == "mcp" {
		return []string{"h2"}
	}
	return []string{"http/1.1"}
}

// writeSecret puts another secret into a file.
func writeSecret(t *testing.T, file, secret string) {
	t.Helper()
	rig.Write(t, filepath.Dir(file), filepath.Base(file), []byte(secret+"\n"))
}

// proving returns the behaviours of secrets and certificates.
func proving() []behaviour {
	refused := func(w *world, name string) error {
		_, detail := w.standing(name)
		if told := detail + w.told(); !strings.Contains(told, "refuse") && !strings.Contains(told, "401") && !strings.Contains(told,
			"403") {
			return fmt.Errorf("nobody says that it is refused: %q", told)
		}
		return nil
	}
	certificate := func(c *bed, from, to time.Time, says string) {
		c.Helper()
		in := c.in("web", 1)
		c.put(in)
		to1, is := c.server.(interface{ plain() string })
		plain := c.server.address()
		if is {
			plain = to1.plain()
		}
		crt, key := lasts(c.T, from, to)
		f := newFront(c.T, plain, crt, key, c.protocols()...)
		dir := c.TempDir()
		caFile := rig.Write(c.T, dir, "ca", crt)
		w := open(c.T, c.entry("suite", c.reach(caFile, f.at)))
		w.stale(c.T, c.called("suite"), says)
		crt, key = lasts(c.T, time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
		rig.Write(c.T, dir, "ca", crt)
		f.show(c.T, crt, key)
		w.synced(c.T, c.called("suite"))
		c.has(w, in)
	}
	return []behaviour{
		{"refused", "a secret that does not count is said; another one in the file counts at once, without a restart", []string{"lock",
			"stand-in"}, func(c *bed) {
			l := c.lock(c.T)
			c.server = l.server
			c.put(c.in("web", 1))
			w := open(c.T, c.entry("suite", l.options))
			w.eventually(func() error { return refused(w, c.called("suite")) })
			if w.isSynced(c.called("suite")) == nil {
				c.Error("it counts as read")
			}
			writeSecret(c.T, l.file, l.right)
			w.synced(c.T, c.called("suite"))
			c.has(w, c.in("web", 1))
		}},
		{"token rotation", "the secret is replaced at the server and then in the file: what was read stays, and it goes on",
			[]string{"lock", "revoked", "stand-in"}, func(c *bed) {
				l := c.lock(c.T)
				c.server = l.server
				in := c.in("web", 1)
				c.put(in)
				writeSecret(c.T, l.file, l.right)
				w := open(c.T, c.entry("suite", l.options))
				w.synced(c.T, c.called("suite"))
				l.change()
				c.put(c.in("late", 2))
				w.eventually(func() error { return refused(w, c.called("suite")) })
				c.has(w, in)
				writeSecret(c.T, l.file, l.second)
				w.synced(c.T, c.called("suite"))
				c.has(w, in, c.in("late", 2))
				c.always(w, in)
			}},
		{"expired certificate", "that of the server is said to have expired; with another one, in the file of authorities too, it is read",
			[]string{"server"}, func(c *bed) {
				certificate(c, time.Now().Add(-2*time.Hour), time.Now().Add(-time.Hour), "is after")
			}},
		{"clock skew", "a server whose clock is a day ahead shows a certificate of tomorrow, which is said", []string{"server"},
			func(c *bed) {
				certificate(c, time.Now().Add(23*time.Hour), time.Now().Add(48*time.Hour), "is before")
			}},
		{"unknown authority", "a certificate that nobody here believes is said, and nothing is read", []string{"server"}, func(c *bed) {
			crt, key := lasts(c.T, time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
			other, _ := lasts(c.T, time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
			f := newFront(c.T, c.server.address(), crt, key, c.protocols()...)
			w := open(c.T, c.entry("suite", c.reach(rig.Write(c.T, c.TempDir(), "ca", other), f.at)))
			w.stale(c.T, c.called("suite"), "certificate")
			if w.isSynced(c.called("suite")) == nil {
				c.Error("it counts as read")
			}
		}},
	}
}
