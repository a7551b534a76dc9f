package door_test

import (
	"testing"
	"time"

	"fairway/internal/config"
	"fairway/internal/door"
	"fairway/internal/mesh"
	"fairway/internal/source"
)

// placed is an object of a source, written in a file.
func placed(line, file string, at int) *config.Object {
	o := object(line)
	o.Ref.File, o.Ref.Line = file, at
	return o
}

func from(name string, objects ...*config.Object) source.Batch {
	return source.Batch{Source: name, Set: objects}
}

func codes(list []mesh.Problem) (out []string) {
	for _, p := range list {
		out = append(out, p.Code)
	}
	return out
}

func TestFirstSourceWins(t *testing.T) {
	n := newNext()
	d := door.New(door.Options{Sources: []string{"file", "memory"}}, n)
	key := object("SE se").Key
	d.Apply(from("memory", placed("SE se m", "", 0)))
	same(t, "memory alone", "SE se m", n.holds[key.String()])

	d.Apply(from("file", placed("SE se f", "a.yaml", 7)))
	same(t, "file takes precedence", "SE se f", n.holds[key.String()])
	list := n.problems["memory ServiceEntry default/se"]
	same(t, "memory is told", []string{"DuplicateObject"}, codes(list))
	same(
		t,
		"in words",
		`ServiceEntry default/se at source "memory" is not in force: source "file" (a.yaml:7) has it too, and comes first`,
		list[0].Message,
	)
	same(t, "as a warning", mesh.Warning, list[0].Severity)

	d.Apply(from("memory", placed("SE se m2", "b.yaml", 3)))
	same(t, "an edit of the other changes nothing", "SE se f", n.holds[key.String()])
	same(t, "the problem moved", []string(nil), codes(n.problems["memory ServiceEntry default/se"]))
	same(t, "the problem is where the object is", []string{"DuplicateObject"}, codes(n.problems["memory b.yaml"]))

	d.Apply(source.Batch{Source: "file", Delete: []config.Key{key}})
	same(t, "the other takes over", "SE se m2", n.holds[key.String()])
	same(t, "the problem is gone", []string(nil), codes(n.problems["memory b.yaml"]))

	d.Apply(source.Batch{Source: "file", Delete: []config.Key{key}})
	same(t, "a source cannot delete another's", "SE se m2", n.holds[key.String()])
	d.Apply(source.Batch{Source: "memory", Delete: []config.Key{key}})
	same(t, "none left", "", n.holds[key.String()])
}

func TestDuplicatesKeepTheSourcesOwnProblems(t *testing.T) {
	n := newNext()
	d := door.New(door.Options{Sources: []string{"file", "memory"}}, n)
	own := func(code string) map[string][]mesh.Problem {
		return map[string][]mesh.Problem{"b.yaml": {{Code: code}}}
	}
	d.Apply(from("file", placed("SE se f", "a.yaml", 1)))
	d.Apply(source.Batch{Source: "memory", Set: []*config.Object{placed("SE se m", "b.yaml", 1)}, Problems: own("Own")})
	same(t, "merged", []string{"Own", "DuplicateObject"}, codes(n.problems["memory b.yaml"]))
	d.Apply(source.Batch{Source: "memory", Problems: own("Other")})
	same(t, "own changed", []string{"Other", "DuplicateObject"}, codes(n.problems["memory b.yaml"]))
	d.Apply(source.Batch{Source: "memory", Problems: map[string][]mesh.Problem{"b.yaml": nil}})
	same(t, "own taken back", []string{"DuplicateObject"}, codes(n.problems["memory b.yaml"]))
	d.Apply(source.Batch{Source: "memory", Delete: []config.Key{object("SE se").Key}})
	same(t, "all taken back", []string(nil), codes(n.problems["memory b.yaml"]))
}

func TestThreeSourcesOfAService(t *testing.T) {
	n := newNext()
	d := door.New(door.Options{Sources: []string{"a", "b"}}, n)
	s := func(origin string) *mesh.Service {
		v := service("SV x.y")
		v.Origin = mesh.ObjectRef{File: origin}
		return v
	}
	for _, name := range []string{"z", "b", "a"} { // z is not in the order, so it comes last
		d.Apply(source.Batch{Source: name, Services: []*mesh.Service{s(name)}})
	}
	same(t, "b is told", 1, len(n.problems["b b"]))
	same(t, "z is told", 1, len(n.problems["z z"]))
	for _, name := range []string{"a", "b"} {
		d.Apply(source.Batch{Source: name, DeleteServices: []mesh.ServiceKey{s("").Key}})
		same(t, "still there without "+name, 1, len(n.holds))
	}
	same(t, "z came into force", 0, len(n.problems["z z"]))
}

func TestSyncedWhenEverySourceIs(t *testing.T) {
	n := newNext()
	d := door.New(door.Options{Sources: []string{"a", "b"}, Grace: time.Hour}, n)
	d.Apply(source.Batch{Source: "a", Synced: true})
	same(t, "one of two", false, d.Synced())
	d.Apply(from("a", object("VS early nowhere")))
	same(t, "start-up waits for nothing", 1, len(n.holds))
	d.Apply(source.Batch{Source: "b", Set: []*config.Object{object("VS last nowhere")}, Synced: true})
	same(t, "both", true, d.Synced())
	same(t, "the batch that completes it is handed on", 2, len(n.holds))
	d.Apply(from("b", object("VS late nowhere")))
	same(t, "then things wait", 2, len(n.holds))
	same(t, "without sources it is synced from the start", true, door.New(door.Options{}, n).Synced())
}

func TestEndpointsAndProblemsPassThrough(t *testing.T) {
	n := &seen{}
	d := door.New(door.Options{Grace: time.Hour}, n)
	end := mesh.EndpointKey{ID: "1"}
	b := from("test", object("VS vs nowhere"))
	b.Endpoints = map[mesh.EndpointKey]mesh.Endpoint{end: {Address: "10.0.0.1"}}
	b.DeleteEndpoints = []mesh.EndpointKey{{ID: "2"}}
	b.Problems = map[string][]mesh.Problem{"f": {{Code: "X"}}}
	d.Apply(b)
	b.Set = nil
	same(t, "all but what waits", []source.Batch{b}, n.batches)
	same(t, "what waits", "VirtualService default/vs: host nowhere.default.svc.cluster.local", waits(d))
}

// seen keeps batches as they are.
type seen struct{ batches []source.Batch }

func (s *seen) Apply(b source.Batch) { s.batches = append(s.batches, b) }

func TestNothingWaitsWithoutGrace(t *testing.T) {
	n := newNext()
	d := door.New(door.Options{}, n)
	d.Apply(from("test", object("VS vs nowhere")))
	same(t, "handed on", 1, len(n.holds))
	same(t, "nothing waits", "", waits(d))
}
