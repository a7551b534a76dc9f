package registry_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"fairway/internal/mesh"
	"fairway/internal/source"
	"fairway/internal/source/eureka"
	"fairway/test/platform/registry/eurekaserver"
	"fairway/test/rig"
)

// eurekaSink keeps the state that a source has handed over.
type eurekaSink struct {
	mu     sync.Mutex
	by     map[string]map[string]mesh.SliceEndpoint // by shard, and id
	synced bool
	stale  string
	shards int // that were handed over
	stales int
}

func (s *eurekaSink) Apply(u source.Update) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, shard := range u.Shards {
		s.shards++
		of := map[string]mesh.SliceEndpoint{}
		for _, slice := range shard.Rows.Slices {
			for _, e := range slice.Endpoints {
				of[e.ID] = e
			}
		}
		if s.by[shard.Key.Part] = of; shard.Rows.Len() == 0 {
			delete(s.by, shard.Key.Part)
		}
	}
	s.synced = s.synced || u.Synced
	if u.Stale != "" {
		s.stale = u.Stale
		s.stales++
	}
	if u.Fresh {
		s.stale = ""
	}
}

// said is what there is, in order: "/WEB a=10.0.0.1:HEALTHY".
func (s *eurekaSink) said() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, part := range slices.Sorted(maps.Keys(s.by)) {
		line := part
		for _, id := range slices.Sorted(maps.Keys(s.by[part])) {
			line += fmt.Sprintf(" %s=%s:%s", id, s.by[part][id].Address, s.by[part][id].Health)
		}
		out = append(out, line)
	}
	return strings.Join(out, "; ")
}

func (s *eurekaSink) endpoint(part, id string) mesh.SliceEndpoint {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.by[part][id]
}

func (s *eurekaSink) standing() (stale string, stales, shards int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stale, s.stales, s.shards
}

func (s *eurekaSink) await(t *testing.T, want string) {
	t.Helper()
	rig.Eventually(t, func() error {
		if got := s.said(); got != want {
			return fmt.Errorf("there is %q, want %q", got, want)
		}
		return nil
	})
}

// eurekaSource runs a source at servers until the test ends.
func eurekaSource(t *testing.T, o eureka.Options, servers ...*eurekaserver.Server) (*eurekaSink, *eureka.Source) {
	t.Helper()
	for _, s := range servers {
		o.URLs = append(o.URLs, s.URL())
	}
	if o.Refresh == "" {
		o.Refresh = "200ms"
	}
	s, err := eureka.New("Eureka/test", o, nil)
	if err != nil {
		t.Fatal(err)
	}
	sink := &eurekaSink{by: map[string]map[string]mesh.SliceEndpoint{}}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- s.Run(ctx, sink) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return sink, s
}

func eurekaInstance(id string, n int) eurekaserver.Instance {
	return eurekaserver.Instance{App: "WEB", ID: id, Address: fmt.Sprintf("10.0.0.%d", n), Port: 8080}
}

// TestEureka: what applications do at a real server, and what comes of it.
func TestEureka(t *testing.T) {
	server := eurekaserver.Start(t, eurekaserver.Options{})
	server.Register(t, eurekaInstance("a", 1))
	sink, s := eurekaSource(t, eureka.Options{Keep: "15s"}, server)
	sink.await(t, "/WEB a=10.0.0.1:HEALTHY")

	t.Run("register", func(t *testing.T) {
		server.Register(t, eurekaInstance("b", 2))
		other := eurekaInstance("c", 3)
		other.App, other.SecurePort, other.Zone = "DB", 8443, "eu-west-1b"
		other.Metadata = map[string]string{"version": "v2", "weight": "3"}
		server.Register(t, other)
		sink.await(t, "/DB c=10.0.0.3:HEALTHY; /WEB a=10.0.0.1:HEALTHY b=10.0.0.2:HEALTHY")
		e := sink.endpoint("/DB", "c")
		if e.Labels != "version=v2" || e.Weight != 3 || e.Locality.String() != "eu-west-1/eu-west-1b" ||
			e.Ports != "https=8443,port-8080=8080" {
			t.Errorf("%+v", e)
		}
	})
	t.Run("heartbeat", func(t *testing.T) {
		_, _, before := sink.standing()
		if err := server.Renew(t, "WEB", "a"); err != nil {
			t.Fatal(err)
		}
		server.Register(t, eurekaInstance("d", 4)) // heard after the heartbeat
		sink.await(t, "/DB c=10.0.0.3:HEALTHY; /WEB a=10.0.0.1:HEALTHY b=10.0.0.2:HEALTHY d=10.0.0.4:HEALTHY")
		if _, _, after := sink.standing(); after != before+1 {
			t.Errorf("%d shards were handed over, want one", after-before)
		}
		server.Cancel(t, "WEB", "d")
		sink.await(t, "/DB c=10.0.0.3:HEALTHY; /WEB a=10.0.0.1:HEALTHY b=10.0.0.2:HEALTHY")
	})
	t.Run("status override", func(t *testing.T) {
		server.Override(t, "WEB", "b", "OUT_OF_SERVICE")
		sink.await(t, "/DB c=10.0.0.3:HEALTHY; /WEB a=10.0.0.1:HEALTHY b=10.0.0.2:DRAINING")
		server.Override(t, "WEB", "b", "DOWN")
		sink.await(t, "/DB c=10.0.0.3:HEALTHY; /WEB a=10.0.0.1:HEALTHY b=10.0.0.2:UNHEALTHY")
		server.Restore(t, "WEB", "b", "UP")
		sink.await(t, "/DB c=10.0.0.3:HEALTHY; /WEB a=10.0.0.1:HEALTHY b=10.0.0.2:HEALTHY")
	})
	t.Run("metadata", func(t *testing.T) {
		server.Metadata(t, "DB", "c", "zone", "z9")
		rig.Eventually(t, func() error {
			if got := sink.endpoint("/DB", "c").Locality.Zone; got != "z9" {
				return fmt.Errorf("it is in %q", got)
			}
			return nil
		})
	})
	t.Run("starting", func(t *testing.T) {
		starting := eurekaInstance("e", 5)
		starting.Status = "STARTING"
		server.Register(t, starting)
		sink.await(t, "/DB c=10.0.0.3:HEALTHY; /WEB a=10.0.0.1:HEALTHY b=10.0.0.2:HEALTHY e=10.0.0.5:UNREADY")
		server.Cancel(t, "WEB", "e")
	})
	t.Run("lease expiry", func(t *testing.T) {
		short := eurekaInstance("f", 6)
		short.Lease = 1
		server.Register(t, short)
		sink.await(t, "/DB c=10.0.0.3:HEALTHY; /WEB a=10.0.0.1:HEALTHY b=10.0.0.2:HEALTHY f=10.0.0.6:HEALTHY")
		sink.await(t, "/DB c=10.0.0.3:HEALTHY; /WEB a=10.0.0.1:HEALTHY b=10.0.0.2:HEALTHY")
	})
	t.Run("the last of an application", func(t *testing.T) {
		server.Cancel(t, "DB", "c")
		sink.await(t, "/WEB a=10.0.0.1:HEALTHY b=10.0.0.2:HEALTHY")
	})
	t.Run("restart with nothing", func(t *testing.T) {
		server.Kill()
		rig.Eventually(t, func() error {
			if stale, _, _ := sink.standing(); !strings.Contains(stale, server.URL()) {
				return fmt.Errorf("it says %q", stale)
			}
			return nil
		})
		server.Run(t)
		var refused *eurekaserver.Refused
		if err := server.Renew(t, "WEB", "a"); !errors.As(err, &refused) || refused.Code != http.StatusNotFound {
			t.Fatalf("the server knows what it held: %v", err)
		}
		rig.Eventually(t, func() error {
			if stale, _, _ := sink.standing(); stale != "" {
				return errors.New(stale)
			}
			return nil
		})
		if got := sink.said(); got != "/WEB a=10.0.0.1:HEALTHY b=10.0.0.2:HEALTHY" {
			t.Errorf("it was emptied to %q", got)
		}
		server.Register(t, eurekaInstance("a", 9)) // back as another
		sink.await(t, "/WEB a=10.0.0.9:HEALTHY b=10.0.0.2:HEALTHY")
		sink.await(t, "/WEB a=10.0.0.9:HEALTHY") // the time of the other is over
		if s.Stats().Reconnects == 0 {
			t.Error("no reconnect is counted")
		}
	})
}

// TestEurekaPeers: of two servers that are peers one is killed, and what happens at the other is heard.
func TestEurekaPeers(t *testing.T) {
	a, b := eurekaserver.StartPeers(t)
	a.Register(t, eurekaInstance("a", 1))
	rig.Eventually(t, func() error {
		if all := b.Apps(t, "/apps"); !strings.Contains(all, "10.0.0.1") {
			return errors.New("the peer has not heard of it")
		}
		return nil
	})
	sink, _ := eurekaSource(t, eureka.Options{}, a, b)
	sink.await(t, "/WEB a=10.0.0.1:HEALTHY")
	a.Kill()
	b.Register(t, eurekaInstance("b", 2))
	sink.await(t, "/WEB a=10.0.0.1:HEALTHY b=10.0.0.2:HEALTHY")
	if _, stales, _ := sink.standing(); stales != 0 {
		t.Error("it was stale while a server answered")
	}
}

// TestEurekaWithoutDelta: a server that does not tell changes.
func TestEurekaWithoutDelta(t *testing.T) {
	server := eurekaserver.Start(t, eurekaserver.Options{NoDelta: true})
	for i, id := range []string{"a", "b", "c"} {
		server.Register(t, eurekaInstance(id, i+1))
	}
	sink, _ := eurekaSource(t, eureka.Options{}, server)
	sink.await(t, "/WEB a=10.0.0.1:HEALTHY b=10.0.0.2:HEALTHY c=10.0.0.3:HEALTHY")
	server.Cancel(t, "WEB", "b")
	sink.await(t, "/WEB a=10.0.0.1:HEALTHY c=10.0.0.3:HEALTHY")
	if _, stales, _ := sink.standing(); stales != 0 {
		t.Error("it was stale")
	}
}

// TestEurekaLoad measures 5,000 services of 10 instances: EUREKALOAD=1 runs it.
func TestEurekaLoad(t *testing.T) {
	if os.Getenv("EUREKALOAD") == "" {
		t.Skip("it takes a minute: EUREKALOAD=1 runs it")
	}
	const services, instances = 5000, 10
	server := eurekaserver.Start(t, eurekaserver.Options{Forgets: true})
	begun := time.Now()
	var filling sync.WaitGroup
	for w := range 8 {
		filling.Go(func() {
			for i := w; i < services; i += 8 {
				for j := range instances {
					server.Register(t, eurekaserver.Instance{
						App: fmt.Sprintf("SERVICE-%d", i), ID: fmt.Sprintf("host-%d-%d:service-%d:8080", i, j, i),
						Address: fmt.Sprintf("10.%d.%d.%d", j, i/250, 1+i%250), Port: 8080, Lease: 3600,
						Metadata: map[string]string{"zone": fmt.Sprintf("z%d", j%3), "version": "v1", "management.port": "9090"},
					})
				}
			}
		})
	}
	filling.Wait()
	t.Logf("filled in %s; the server has %s", time.Since(begun), server.Process().Memory(t))
	answer := server.Apps(t, "/apps")
	t.Logf("all there is has %d MiB", len(answer)>>20)
	rig.Eventually(t, func() error {
		if delta := len(server.Apps(t, "/apps/delta")); delta > 1000 {
			return fmt.Errorf("a delta still has %d bytes", delta)
		}
		return nil
	})
	server.Idle()
	answer = ""
	var before, after runtime.MemStats
	runtime.GC()
	runtime.GC() // what pools held, too
	runtime.ReadMemStats(&before)
	begun = time.Now()
	sink, s := eurekaSource(t, eureka.Options{Refresh: "1s"}, server)
	rig.Eventually(t, func() error {
		sink.mu.Lock()
		defer sink.mu.Unlock()
		if !sink.synced {
			return errors.New("not synced")
		}
		return nil
	})
	t.Logf("synced in %s", time.Since(begun))
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&after)
	t.Logf("it takes %d MiB, with the test's own copy of what was handed over", (after.HeapAlloc-before.HeapAlloc)>>20)
	var lags []time.Duration
	for i := range 5 {
		id := fmt.Sprintf("new-%d", i)
		_, _, shards := sink.standing()
		server.Register(t, eurekaserver.Instance{App: "SERVICE-7", ID: id, Address: "10.99.0.1", Port: 8080, Lease: 3600})
		rig.Eventually(t, func() error {
			if sink.endpoint("/SERVICE-7", id).Address == "" {
				return errors.New("not there")
			}
			return nil
		})
		if _, _, now := sink.standing(); now != shards+1 {
			t.Errorf("%d shards were handed over, want one", now-shards)
		}
		lags = append(lags, s.Stats().Lag)
	}
	t.Logf("from the answer to the update: %v", lags)
	if text, err := os.ReadFile(filepath.Join("/proc/self", "status")); err == nil {
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, "VmRSS") {
				t.Log(strings.TrimSpace(line))
			}
		}
	}
}
