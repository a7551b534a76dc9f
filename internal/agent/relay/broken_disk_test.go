package relay_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"fairway/internal/disk"
	"fairway/internal/disk/faulty"
	"fairway/internal/xdstype"
	"fairway/test/rig"
)

// report is a log that several goroutines write to.
type report struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *report) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *report) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// TestABrokenDiskStopsNobody: whatever operation on the cache fails, from the start or later, an Envoy gets all that the control
// plane sends, the log names the fault, and once the disk is whole the next agent serves from its cache.
func TestABrokenDiskStopsNobody(t *testing.T) {
	operations := []string{"edit", "make", "read", "write", "fstat", "truncate", "sync", "rename", "remove"}
	for i, operation := range operations {
		fault := faulty.Errors[i%len(faulty.Errors)]
		t.Run(fmt.Sprintf("%s: %v", operation, fault), func(t *testing.T) {
			p := newPlane(t)
			p.fill(20)
			p.start()
			var broken atomic.Bool
			var met atomic.Int64
			log := &report{}
			a := makeAgent(t, p, true)
			a.o.Log = slog.New(slog.NewTextHandler(log, nil))
			a.o.Files = faulty.Files{Files: disk.OS, Fail: func(said, path string) error {
				if broken.Load() && said == operation {
					met.Add(1)
					return fault
				}
				return nil
			}}
			a.start() // it keeps something while all is well
			e := newEnvoy(t, a)
			next := func() { // the next agent, with an Envoy that holds nothing
				e.disconnect()
				e.forget()
				a.stop()
				a.start()
				e.connect()
				e.holds(p)
			}
			e.connect()
			e.holds(p)
			p.settled(1, 3)
			kept(t, a)

			broken.Store(true)
			soon := a.o.Grace
			a.o.Grace = rig.Bound // also on a busy machine the control plane answers first, and the cache is made anew
			p.set(xdstype.EndpointURL, "c3", 7)
			e.holds(p)
			next()
			p.set(xdstype.ClusterURL, "c4", 5)
			e.holds(p)
			p.settled(1, 3)
			if said := log.String(); met.Load() > 0 && operation != "remove" && !strings.Contains(said, fault.Error()) {
				t.Errorf("it failed %d times, and the log says %q", met.Load(), said)
			}
			if met.Load() == 0 && operation != "remove" {
				t.Error("nothing failed")
			}

			broken.Store(false)
			a.o.Grace = soon
			next()
			p.settled(1, 3)
			kept(t, a)
			p.stop()
			next()
		})
	}
}

// kept waits until the cache holds all that the test's control plane has for Envoy.
func kept(t *testing.T, a *agent) {
	t.Helper()
	rig.Eventually(t, func() error {
		if c := a.relay.Status().Cache; c == nil || c.Resources != 41 {
			return fmt.Errorf("kept is %+v", c)
		}
		return nil
	})
}

// TestWhatTheAgentKeptStaysWhereItCannotBeRead: a fault of the moment takes nothing from the next agent.
func TestWhatTheAgentKeptStaysWhereItCannotBeRead(t *testing.T) {
	for _, operation := range []string{"edit", "read", "fstat", "truncate"} {
		for _, fault := range faulty.Errors {
			p := newPlane(t)
			p.fillNotes(7)
			p.start()
			a, n := newOwnAgent(t, p, true)
			n.holds(p)
			p.settled(1, 1)
			a.stop()
			p.stop()
			log := &report{}
			a.o.Log = slog.New(slog.NewTextHandler(log, nil))
			a.o.Files = faulty.Files{Files: disk.OS, Fail: func(said, _ string) error {
				if said == operation {
					return fault
				}
				return nil
			}}
			n.forget()
			a.start()
			if took, _ := n.counts(); took != 0 || !strings.Contains(log.String(), fault.Error()) {
				t.Errorf("%s: %d were taken from disk, and the log says %q", operation, took, log.String())
			}
			a.stop()
			a.o.Files = nil
			a.start()
			n.holds(p)
			a.stop()
		}
	}
}
