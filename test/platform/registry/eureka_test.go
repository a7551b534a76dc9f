package registry_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"fairway/internal/mesh"
	"fairway/internal/source/eureka"
	"fairway/internal/source/platform"
	"fairway/test/platform/registry/eurekaserver"
	"fairway/test/rig"
)

// eurekaSeen is what a source has handed over.
type eurekaSeen struct{ *sink }

// said returns the instances, in order: "/WEB a=10.0.0.1:HEALTHY".
func (s eurekaSeen) said() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	by := map[string]string{}
	for host, all := range s.services {
		for key := range all {
			by[key.Object] = key.Object
			var ids []string
			for _, slice := range s.slices[host] {
				for _, e := range slice.Endpoints {
					ids = append(ids, fmt.Sprintf(" %s=%s:%s", e.ID, e.Address, e.Health))
				}
			}
			slices.Sort(ids)
			by[key.Object] += strings.Join(ids, "")
		}
	}
	return strings.Join(slices.Sorted(maps.Values(by)), "; ")
}

func (s eurekaSeen) endpoint(part, id string) (out mesh.SliceEndpoint) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, all := range s.slices {
		for key, slice := range all {
			for _, e := range slice.Endpoints {
				if key.Service.Object == part && e.ID == id {
					out = e
				}
			}
		}
	}
	return out
}

// handed counts Updates that said that all is stale, and shards.
func (s eurekaSeen) handed() (stales, shards int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stales, s.shards
}

func (s eurekaSeen) await(t *testing.T, want string) {
	t.Helper()
	rig.Eventually(t, func() error {
		if got := s.said(); got != want {
			return fmt.Errorf("there is %q, want %q", got, want)
		}
		return nil
	})
}

// eurekaSource runs a source at servers until the test ends.
func eurekaSource(t *testing.T, o eureka.Options, servers ...*eurekaserver.Server) eurekaSeen {
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
	out := eurekaSeen{newSink()}
	out.follow(t, s)
	return out
}

func eurekaInstance(id string, n int) eurekaserver.Instance {
	return eurekaserver.Instance{App: "WEB", ID: id, Address: fmt.Sprintf("10.0.0.%d", n), Port: 8080}
}

// TestEureka: features beyond the suite: secure ports, heartbeats, statuses that are set from outside, and applications that start.
func TestEureka(t *testing.T) {
	server := eurekaserver.Start(t, eurekaserver.Options{})
	server.Register(t, eurekaInstance("a", 1))
	sink := eurekaSource(t, eureka.Options{Missing: platform.Missing{KeepMissing: "15s"}}, server)
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
		_, before := sink.handed()
		if err := server.Renew(t, "WEB", "a"); err != nil {
			t.Fatal(err)
		}
		server.Register(t, eurekaInstance("d", 4)) // the source sees it after the heartbeat
		sink.await(t, "/DB c=10.0.0.3:HEALTHY; /WEB a=10.0.0.1:HEALTHY b=10.0.0.2:HEALTHY d=10.0.0.4:HEALTHY")
		if _, after := sink.handed(); after != before+1 {
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
	t.Run("starting", func(t *testing.T) {
		starting := eurekaInstance("e", 5)
		starting.Status = "STARTING"
		server.Register(t, starting)
		sink.await(t, "/DB c=10.0.0.3:HEALTHY; /WEB a=10.0.0.1:HEALTHY b=10.0.0.2:HEALTHY e=10.0.0.5:UNREADY")
		server.Cancel(t, "WEB", "e")
	})
}

// TestEurekaPeers: one of two peers is killed, and changes at the other one arrive.
func TestEurekaPeers(t *testing.T) {
	a, b := eurekaserver.StartPeers(t)
	a.Register(t, eurekaInstance("a", 1))
	rig.Eventually(t, func() error {
		if all := b.Apps(t, "/apps"); !strings.Contains(all, "10.0.0.1") {
			return errors.New("the peer has not heard of it")
		}
		return nil
	})
	sink := eurekaSource(t, eureka.Options{}, a, b)
	sink.await(t, "/WEB a=10.0.0.1:HEALTHY")
	a.Kill()
	b.Register(t, eurekaInstance("b", 2))
	sink.await(t, "/WEB a=10.0.0.1:HEALTHY b=10.0.0.2:HEALTHY")
	if stales, _ := sink.handed(); stales != 0 {
		t.Error("it was stale while a server answered")
	}
}

// TestEurekaWithoutDelta: a server that does not tell changes.
func TestEurekaWithoutDelta(t *testing.T) {
	server := eurekaserver.Start(t, eurekaserver.Options{NoDelta: true})
	for i, id := range []string{"a", "b", "c"} {
		server.Register(t, eurekaInstance(id, i+1))
	}
	sink := eurekaSource(t, eureka.Options{}, server)
	sink.await(t, "/WEB a=10.0.0.1:HEALTHY b=10.0.0.2:HEALTHY c=10.0.0.3:HEALTHY")
	server.Cancel(t, "WEB", "b")
	sink.await(t, "/WEB a=10.0.0.1:HEALTHY c=10.0.0.3:HEALTHY")
	if stales, _ := sink.handed(); stales != 0 {
		t.Error("it was stale")
	}
}
