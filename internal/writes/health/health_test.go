package health

import (
	"log/slog"
	"strconv"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/writes/condition"
	"fairway/internal/writes/work"
)

var vm = config.Key{Kind: config.WorkloadEntry, Namespace: "shop", Name: "vm"}

func newWriter(identity string) *Writer {
	log := slog.New(slog.DiscardHandler)
	return New(Options{Identity: identity, Report: work.NewReport(prometheus.NewRegistry(), log, func(string, []mesh.Problem) {})})
}

// server is the entry in an API server; it passes each version to its writers.
type server struct {
	version int
	is      condition.Condition
	all     []*Writer
}

func (s *server) object() *unstructured.Unstructured {
	s.version++
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "networking.istio.io/v1", "kind": "WorkloadEntry",
		"metadata": map[string]any{"namespace": vm.Namespace, "name": vm.Name, "uid": "u", "resourceVersion": strconv.Itoa(s.version)},
		"status": map[string]any{"conditions": []any{map[string]any{
			"type": s.is.Type, "status": s.is.Status, "message": s.is.Message, "lastProbeTime": s.is.LastProbeTime, "reason": s.is.Reason,
		}}},
	}}
}

// settle runs a writer's pending writes, and reports whether there were any.
func (s *server) settle(w *Writer, now time.Time) bool {
	_, is, due := w.due(vm, now)
	if due {
		s.is = is
		w.wrote(vm, is)
		for _, to := range s.all {
			to.Observe(s.object(), false)
		}
	}
	return due
}

// An agent that moves from one replica to another takes the condition with it: the first replica, which forgets the agent later, keeps the
// condition that the second one wrote.
func TestTheAgentMovesToAnotherReplica(t *testing.T) {
	one, two := newWriter("one"), newWriter("two")
	s := &server{all: []*Writer{one, two}}
	for _, w := range s.all {
		w.Observe(s.object(), false)
	}
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	step := func(w *Writer, wrote bool, status, message string) {
		t.Helper()
		now = now.Add(time.Second)
		if got := s.settle(w, now); got != wrote || s.is.Status != status || s.is.Message != message {
			t.Errorf("it wrote: %v; there is %+v", got, s.is)
		}
		if s.settle(w, now.Add(time.Millisecond)) {
			t.Errorf("it writes again: %+v", s.is)
		}
	}
	step(one, false, "", "")
	one.Report(vm, mesh.HealthVerdict{Healthy: true}, true)
	step(one, true, "True", "")
	step(two, false, "True", "")
	two.Report(vm, mesh.HealthVerdict{Healthy: true}, true)
	step(two, true, "True", "")  // it is its own to say now
	step(one, false, "True", "") // which the first one sees, and lets be
	one.Report(vm, mesh.HealthVerdict{}, false)
	step(one, false, "True", "")
	two.Report(vm, mesh.HealthVerdict{Detail: "refused"}, true)
	step(two, true, "False", "refused")
	if well, known := Stored(s.object()); well || !known {
		t.Errorf("others read %v, %v", well, known)
	}
	two.Report(vm, mesh.HealthVerdict{}, false)
	step(two, true, "Unknown", silent)
	if _, known := Stored(s.object()); known {
		t.Error("others read something still")
	}
	step(one, false, "Unknown", silent)
}

// A condition that another client removed comes back while an agent is connected.
func TestItIsWrittenAgain(t *testing.T) {
	w := newWriter("one")
	s := &server{all: []*Writer{w}}
	w.Observe(s.object(), false)
	w.Report(vm, mesh.HealthVerdict{Healthy: true}, true)
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	for range 2 {
		if !s.settle(w, now) || s.is.Status != "True" {
			t.Errorf("there is %+v", s.is)
		}
		s.is = condition.Condition{}
		w.Observe(s.object(), false)
		now = now.Add(time.Second)
	}
}

// When a control plane is gone, the leader makes the condition that it wrote Unknown, unless an agent is connected to the leader, which
// then writes it anew. If the condition has changed meanwhile, the leader changes nothing.
func TestTheKeeperIsGone(t *testing.T) {
	for name, c := range map[string]struct {
		speaks, changed bool
		want, keeper    string
	}{
		"nobody speaks":               {false, false, "Unknown", ""},
		"the agent speaks here":       {true, false, "True", "two"},
		"another has written already": {false, true, "True", "three"},
	} {
		t.Run(name, func(t *testing.T) {
			one, two := newWriter("one"), newWriter("two")
			s := &server{all: []*Writer{one, two}}
			now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
			one.Observe(s.object(), false)
			one.Report(vm, mesh.HealthVerdict{Healthy: true}, true)
			if c.speaks { // before one did, and nothing has changed since
				two.Observe(s.object(), false)
				two.Report(vm, mesh.HealthVerdict{Healthy: true}, true)
				s.settle(two, now)
				one.Report(vm, mesh.HealthVerdict{Healthy: true}, true)
			}
			if !s.settle(one, now.Add(time.Second)) || keeper(s.is) != "one" {
				t.Fatalf("it is kept by %q: %+v", keeper(s.is), s.is)
			}
			keys := two.keepers()["one"]
			if len(keys) != 1 {
				t.Fatalf("kept by others: %v", two.keepers())
			}
			two.takeOver("one", keys)
			if c.changed {
				s.is.Reason = heardBy + "three"
				two.Observe(s.object(), false)
			}
			s.settle(two, now.Add(2*time.Second))
			if s.is.Status != c.want || keeper(s.is) != c.keeper {
				t.Errorf("there is %+v", s.is)
			}
			if s.settle(two, now.Add(3*time.Second)) {
				t.Errorf("it writes again: %+v", s.is)
			}
		})
	}
}
