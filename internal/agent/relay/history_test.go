package relay_test

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"fairway/internal/xdstype"
)

// TestHistories: whatever is cut, changed, stopped and started in whatever order, in the end Envoy holds what the
// control plane has, and another control plane has nothing to send.
func TestHistories(t *testing.T) {
	for _, cache := range []bool{false, true} {
		t.Run(fmt.Sprintf("cache=%t", cache), func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				h := newHistory(t, cache)
				defer h.end()
				steps := rapid.IntRange(5, 25).Draw(rt, "steps")
				for range steps {
					h.step(rt)
				}
				h.check(rt)
			})
		})
	}
}

// history is a test world that runs through random events.
type history struct {
	plane   *plane
	agent   *agent
	notes   *notes
	envoy   *envoy
	version uint64
}

func newHistory(t *testing.T, cache bool) *history {
	h := &history{plane: newPlane(t)}
	h.plane.fill(3)
	h.plane.fillNotes(3)
	h.plane.start()
	h.agent, h.notes = newOwnAgent(t, h.plane, cache)
	h.envoy = newEnvoy(t, h.agent)
	h.envoy.connect()
	h.version = 10
	return h
}

func (h *history) end() {
	h.envoy.disconnect()
	h.agent.stop()
	h.plane.stop()
}

func (h *history) step(rt *rapid.T) {
	switch what := rapid.SampledFrom([]string{
		"set", "set", "set", "gone", "gone", "note", "note", "no note", "away", "back", "other plane", "stream",
		"envoy", "no envoy", "young", "agent", "quiet",
	}).Draw(rt, "what"); what {
	case "set":
		h.version++
		typ, name := rapid.SampledFrom(types).Draw(rt, "type"), h.name(rt)
		if typ == xdstype.ClusterURL { // an answer that there are no endpoints has no version, and comes on each stream
			h.plane.set(xdstype.EndpointURL, name, h.version)
		}
		h.plane.set(typ, name, h.version)
	case "gone":
		name := h.name(rt)
		if name != "c0" { // a mesh without any cluster has nothing to ask for
			h.plane.set(xdstype.ClusterURL, name, 0)
			h.plane.set(xdstype.EndpointURL, name, 0)
		}
	case "note":
		h.version++
		h.plane.set(noteType, h.name(rt), h.version)
	case "no note":
		h.plane.set(noteType, h.name(rt), 0)
	case "young": // it fails, or ends before the relay noticed
		e := newEnvoy(h.plane.t, h.agent)
		e.connect()
		if rapid.Bool().Draw(rt, "takes over") {
			h.envoy.disconnect()
			h.envoy = e
		} else {
			e.disconnect()
		}
	case "no envoy":
		h.envoy.disconnect()
		h.plane.start()
		h.notes.holds(h.plane)
		h.envoy.connect()
	case "away":
		h.plane.stop()
	case "back", "other plane":
		h.plane.start()
	case "stream":
		h.envoy.connect()
	case "envoy":
		h.envoy.disconnect()
		h.envoy.forget()
		h.envoy.connect()
	case "agent":
		h.envoy.disconnect()
		h.agent.stop()
		h.notes.forget()
		h.agent.start()
		if rapid.Bool().Draw(rt, "envoy too") {
			h.envoy.forget()
		}
		h.envoy.connect()
	case "quiet":
		h.plane.start()
		h.envoy.holds(h.plane)
		h.notes.holds(h.plane)
	}
}

func (h *history) name(rt *rapid.T) string {
	return fmt.Sprintf("c%d", rapid.IntRange(0, 5).Draw(rt, "name"))
}

func (h *history) check(rt *rapid.T) {
	h.plane.start()
	h.envoy.holds(h.plane)
	h.notes.holds(h.plane)
	h.plane.settled(1, 4)
	had := h.received()
	h.plane.start()
	h.plane.settled(1, 4)
	if n := h.received() - had; n != 0 {
		rt.Errorf("%d resources were sent to an Envoy that had all", n)
	}
	if err := h.envoy.differs(h.plane); err != nil {
		rt.Error(err)
	}
	if err := h.notes.differs(h.plane); err != nil {
		rt.Error(err)
	}
	if h.agent.o.CacheDir == "" {
		return
	}
	// The cache holds what Envoy held.
	h.plane.stop()
	h.envoy.disconnect()
	h.envoy.forget()
	h.envoy.connect()
	h.envoy.holds(h.plane)
	had = h.received()
	h.plane.start()
	h.plane.settled(1, 4)
	if n := h.received() - had; n != 0 {
		rt.Errorf("%d resources were sent to an Envoy that had all from the cache", n)
	}
}

// received counts the resources that came to Envoy and to the agent itself. The control plane may have sent more: to an Envoy that
// left before the relay had received them.
func (h *history) received() int {
	_, notes := h.notes.counts()
	return h.envoy.received() + notes
}
