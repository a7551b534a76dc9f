package relay_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"fairway/internal/xdstype"
	"fairway/test/rig"
)

// fill publishes n clusters with endpoints, and a listener.
func (p *plane) fill(n int) {
	for i := range n {
		name := fmt.Sprintf("c%d", i)
		p.set(xdstype.ClusterURL, name, 1)
		p.set(xdstype.EndpointURL, name, 1)
	}
	p.set(xdstype.ListenerURL, "l", 1)
}

func TestControlPlaneRestartsUnnoticed(t *testing.T) {
	p, _, e := connected(t, 20, false)
	got := e.received()
	for round := range 5 {
		p.start()
		p.settled(1, 3)
		if n := p.total(); n != 0 {
			t.Fatalf("round %d: %d resources were sent again", round, n)
		}
	}
	if e.received() != got {
		t.Errorf("Envoy got %d resources more", e.received()-got)
	}
	p.set(xdstype.EndpointURL, "c3", 7)
	p.set(xdstype.ClusterURL, "c4", 0)
	e.holds(p)
	p.settled(1, 3)
	if n := p.total(); n != 2 {
		t.Errorf("%d resources were sent for two changes", n)
	}
}

func TestChangesWhileAwayArriveAlone(t *testing.T) {
	p, _, e := connected(t, 20, false)
	p.stop()
	p.set(xdstype.ClusterURL, "c1", 2)
	p.set(xdstype.ClusterURL, "c2", 0)
	p.set(xdstype.ListenerURL, "more", 1)
	p.start()
	e.holds(p)
	p.settled(1, 3)
	if n := p.total(); n != 3 {
		t.Errorf("%d resources were sent for three changes", n)
	}
}

func TestEnvoyStartsWhileControlPlaneIsAway(t *testing.T) {
	p, a, e := connected(t, 20, true)
	p.stop()

	for _, agentToo := range []bool{false, true, true} {
		e.disconnect()
		e.forget()
		if agentToo {
			a.stop()
			a.start()
		}
		e.connect()
		e.holds(p)
	}
	p.start()
	p.settled(1, 3)
	if n := p.total(); n != 0 {
		t.Errorf("%d resources were sent again", n)
	}
	p.set(xdstype.EndpointURL, "c3", 7)
	e.holds(p)
}

func TestHotRestartAsksTheControlPlaneForNothing(t *testing.T) {
	p, a, old := connected(t, 20, true)
	rig.Eventually(t, func() error { // the cache is kept
		if c := a.relay.Status().Cache; c == nil || c.Resources != 41 {
			return fmt.Errorf("%+v", c)
		}
		return nil
	})
	sent := p.total()
	young := newEnvoy(t, a)
	young.connect()
	young.holds(p)
	p.settled(2, 3)
	if n := p.total() - sent; n != 0 {
		t.Errorf("%d resources were sent for a hot restart", n)
	}
	p.set(xdstype.ClusterURL, "c5", 9)
	old.holds(p)
	young.holds(p)
	old.disconnect()
	p.settled(1, 3)
}

func TestAnotherNodeIsNotServedFromTheCache(t *testing.T) {
	p, _, e := connected(t, 5, true)
	e.disconnect()
	e.forget()
	e.node = "sidecar with other labels"
	sent := p.total()
	e.connect()
	e.holds(p)
	p.settled(1, 3)
	if n := p.total() - sent; n != 11 {
		t.Errorf("%d resources were sent, want all 11", n)
	}
}

func TestRefusedIsToldAndNotKept(t *testing.T) {
	p := newPlane(t)
	p.fill(5)
	p.start()
	a := newAgent(t, p, true)
	e := newEnvoy(t, a)
	e.refuses = func(name string, body []byte) bool { return string(body) == "c1 66" }
	e.connect()
	e.holds(p)
	p.settled(1, 3)
	p.set(xdstype.ClusterURL, "c1", 66)
	rig.Eventually(t, func() error {
		for _, s := range p.server.Status() {
			if s.Types[xdstype.ClusterURL].Rejected == "refused" && s.Synced {
				return nil
			}
		}
		return errors.New("the refusal is not heard")
	})
	p.stop()
	e.disconnect()
	e.forget()
	e.connect()
	p.mu.Lock()
	p.have[xdstype.ClusterURL]["c1"] = 1 // what it took last
	p.mu.Unlock()
	e.holds(p)
}

// TestASlowEnvoySlowsItsUpstream: while Envoy does not read, the relay reads only the responses that are on their way.
func TestASlowEnvoySlowsItsUpstream(t *testing.T) {
	p := newPlane(t)
	p.pad = strings.Repeat("x", 2<<20)
	p.set(xdstype.ClusterURL, "c0", 1)
	p.set(xdstype.EndpointURL, "c0", 1)
	p.set(xdstype.ListenerURL, "l", 1)
	p.start()
	a := newAgent(t, p, true)
	e := newEnvoy(t, a)
	e.connect()
	e.holds(p)
	p.settled(1, 3)
	responses := func() (n int) {
		for _, typ := range a.relay.Status().Types {
			n += typ.Responses
		}
		return n
	}
	before := responses()
	e.mu.Lock() // it reads no further
	read := sync.OnceFunc(e.mu.Unlock)
	t.Cleanup(read)
	for i := range 12 {
		p.set(xdstype.EndpointURL, "c0", uint64(i+2))
	}
	last, still := 0, 0
	// until the responses on their way are there: then the control plane waits too, with a response that is not read
	rig.Eventually(t, func() error {
		n := responses() - before
		if n != last {
			last, still = n, 0
		}
		if still++; n == 0 || still < 100 {
			return fmt.Errorf("%d responses, seen %d times", n, still)
		}
		return nil
	})
	if n := responses() - before; n > 5 {
		t.Errorf("%d responses of 2 MB were read", n)
	}
	read()
	e.holds(p)
}

// refused waits until so many responses with listeners were refused.
func (a *agent) refused(n int) {
	a.t.Helper()
	rig.Eventually(a.t, func() error {
		for _, typ := range a.relay.Status().Types {
			if typ.Type == xdstype.ListenerURL && typ.Refused == n {
				return nil
			}
		}
		return fmt.Errorf("not %d are refused", n)
	})
}

// TestWhatIsRefusedFromTheCacheIsAskedFor: an Envoy of another build may refuse what the one before it took.
func TestWhatIsRefusedFromTheCacheIsAskedFor(t *testing.T) {
	p, a, e := connected(t, 5, true)
	p.stop()
	e.disconnect()
	e.forget()
	e.refuses = func(name string, body []byte) bool { return string(body) == "l 1" }
	e.connect()
	a.refused(1)
	p.set(xdstype.ListenerURL, "l", 2)
	p.start()
	e.holds(p)
	p.settled(1, 3)
	if n := p.total(); n != 1 {
		t.Errorf("%d resources were sent, want the listener alone", n)
	}
}

// TestOlderEnvoyIsKeptOfOnceTheYoungerIsGone: while there is a younger Envoy, which may be the one that stays, resources of an
// older one are not kept. Once the younger fails, what the older holds is kept without a new request from it.
func TestOlderEnvoyIsKeptOfOnceTheYoungerIsGone(t *testing.T) {
	p := newPlane(t)
	p.fill(2)
	p.start()
	a := newAgent(t, p, true)
	first := func(_ string, body []byte) bool { return string(body) == "l 1" }
	older, younger := newEnvoy(t, a), newEnvoy(t, a)
	older.refuses, younger.refuses = first, func(name string, _ []byte) bool { return name == "l" }
	older.connect()
	a.refused(1)
	younger.connect()
	a.refused(2)
	p.set(xdstype.ListenerURL, "l", 2)
	older.holds(p)
	a.refused(3)
	p.settled(2, 3)
	if c := a.relay.Status().Cache; c != nil {
		t.Errorf("kept while the younger is there: %+v", c)
	}
	younger.disconnect()
	rig.Eventually(t, func() error {
		if a.relay.Status().Cache == nil {
			return errors.New("nothing is kept")
		}
		return nil
	})
}
