package door_test

import (
	"testing"
	"time"

	"fairway/internal/config"
	"fairway/internal/door"
	"fairway/internal/mesh"
	"fairway/internal/source"
)

func setting(objects ...*config.Object) source.Batch {
	return source.Batch{Set: source.Rows{Objects: objects}}
}

func TestNothingWaitsBeforeEverythingIsThere(t *testing.T) {
	n := newNext()
	d := door.New(door.Options{Grace: time.Hour}, n)
	d.Apply(setting(object("VS early nowhere")))
	same(t, "start-up waits for nothing", 1, len(n.holds))
	same(t, "not all is there", false, d.Synced())
	last := setting(object("VS last nowhere"))
	last.Synced = true
	d.Apply(last)
	same(t, "all is there", true, d.Synced())
	same(t, "the batch that completes it is handed on", 2, len(n.holds))
	d.Apply(setting(object("VS late nowhere")))
	same(t, "then things wait", 2, len(n.holds))
}

func TestAllButObjectsAndServicesPassesThrough(t *testing.T) {
	n := &seen{}
	d := door.New(door.Options{Grace: time.Hour}, n)
	d.Apply(source.Batch{Synced: true})
	b := setting(object("VS vs nowhere"))
	b.Set.Slices = []*mesh.Slice{{Key: mesh.SliceKey{Name: "1"}}}
	b.Set.Workloads = []*mesh.Workload{{Key: mesh.WorkloadKey{Name: "w"}}}
	b.Gone.Slices = []mesh.SliceKey{{Name: "2"}}
	b.Problems = map[source.Place][]mesh.Problem{{Source: "s", Name: "f"}: {{Code: "X"}}}
	d.Apply(b)
	b.Set.Objects = nil
	same(t, "all but what waits", []source.Batch{{Synced: true}, b}, n.batches)
	same(t, "what waits", "VirtualService default/vs: host nowhere.default.svc.cluster.local", waits(d))
}

// seen keeps batches as they are.
type seen struct{ batches []source.Batch }

func (s *seen) Apply(b source.Batch) { s.batches = append(s.batches, b) }

func TestNothingWaitsWithoutGrace(t *testing.T) {
	n := newNext()
	d := door.New(door.Options{}, n)
	d.Apply(source.Batch{Synced: true})
	d.Apply(setting(object("VS vs nowhere")))
	same(t, "handed on", 1, len(n.holds))
	same(t, "nothing waits", "", waits(d))
}
