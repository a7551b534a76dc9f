package shards_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"fairway/internal/source"
	"fairway/internal/source/shards"
)

// apiServer keeps objects of two kinds as a Kubernetes API server does: each write has a resource version, a list has
// one of its own, a watch starts after one, and history that was compacted cannot be watched any more (410 Gone).
type apiServer struct {
	version   int
	objects   map[string]map[string]string // by kind and name
	history   []event
	compacted int // the last version that is not in history any more
}

type event struct {
	kind, name, text string // text "": deleted
	version          int
}

var errGone = errors.New("410 Gone: too old resource version")

func (a *apiServer) write(kind, name, text string) {
	a.version++
	if text == "" {
		delete(a.objects[kind], name)
	} else {
		a.objects[kind][name] = text
	}
	a.history = append(a.history, event{kind, name, text, a.version})
}

func (a *apiServer) compact() { a.history, a.compacted = nil, a.version }

// watch returns at most some events of a kind after a version.
func (a *apiServer) watch(kind string, after, most int) (out []event, err error) {
	if after < a.compacted {
		return nil, errGone
	}
	for _, e := range a.history {
		if e.kind == kind && e.version > after && len(out) < most {
			out = append(out, e)
		}
	}
	return out, nil
}

// reader is a source of one cluster, as it would be written over the API: a list, then a watch, for each kind.
type reader struct {
	server  *apiServer
	sink    source.Sink
	listed  map[string]bool
	version map[string]int
	synced  bool
}

func newReader(a *apiServer, sink source.Sink) *reader {
	return &reader{a, sink, map[string]bool{}, map[string]int{}, false}
}

// step takes one step with one kind. It says whether it found something to do.
func (r *reader) step(kind string, most int) bool {
	at := source.ShardKey{Cluster: "east", Kind: kind}
	if !r.listed[kind] {
		var rows source.Rows
		for _, name := range slices.Sorted(maps.Keys(r.server.objects[kind])) {
			rows.Objects = append(rows.Objects, object(kind+"-"+name, r.server.objects[kind][name], ""))
		}
		r.listed[kind], r.version[kind] = true, r.server.version
		u := source.Update{Shards: []source.Shard{{Key: at, Whole: true, Rows: rows}}, Fresh: true}
		if !r.synced && len(r.listed) == 2 {
			r.synced, u.Synced = true, true
		}
		r.sink.Apply(u)
		return true
	}
	events, err := r.server.watch(kind, r.version[kind], most)
	if errors.Is(err, errGone) {
		r.listed[kind] = false
		r.sink.Apply(source.Update{Stale: err.Error()})
		return true
	}
	for _, e := range events {
		name := kind + "-" + e.name
		if e.text == "" {
			r.sink.Apply(source.Update{Shards: []source.Shard{{Key: at, Gone: keysOf(name)}}})
		} else {
			r.sink.Apply(source.Update{Shards: []source.Shard{{Key: at, Rows: objects(name, e.text)}}})
		}
		r.version[kind] = e.version
	}
	return len(events) > 0
}

// Whatever is written, lost and compacted meanwhile, and however often the source starts over: it ends with what the API
// server has, and a relist says nothing that is not new.
func TestASourceOfAnAPIServer(t *testing.T) {
	kinds := []string{"gw", "vs"}
	rapid.Check(t, func(t *rapid.T) {
		a := &apiServer{objects: map[string]map[string]string{"gw": {}, "vs": {}}}
		n := newNext()
		s := shards.New(n, nil)
		start := func() *reader {
			sink, err := s.Join("kubernetes/east", 0)
			if err != nil {
				t.Fatal(err)
			}
			return newReader(a, sink)
		}
		r := start()
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			kind := rapid.SampledFrom(kinds).Draw(t, "kind")
			switch rapid.IntRange(0, 9).Draw(t, "what") {
			case 0, 1, 2, 3:
				a.write(kind, rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "name"),
					rapid.SampledFrom([]string{"", "1", "2"}).Draw(t, "text"))
			case 4:
				a.compact()
			case 5: // the connection is lost for good, and another source takes over
				s.Leave("kubernetes/east", true)
				r = start()
			default:
				r.step(kind, rapid.IntRange(0, 3).Draw(t, "most"))
			}
		}
		for busy := true; busy; {
			busy = r.step(kinds[0], 10) || r.step(kinds[1], 10)
		}
		want := map[string]string{}
		for kind, of := range a.objects {
			for name, text := range of {
				want[object(kind+"-"+name, "", "").String()] = text
			}
		}
		if fmt.Sprint(want) != fmt.Sprint(n.holds) {
			t.Fatalf("next holds %v, the API server %v", n.holds, want)
		}
		if st := s.Standings()[0]; st.Phase != "synced" {
			t.Fatalf("it is %s", st.Phase)
		}
		batches := n.batches
		r.listed = map[string]bool{}
		r.step(kinds[0], 1)
		r.step(kinds[1], 1)
		if n.batches != batches {
			t.Fatalf("a relist with nothing new made %d batches", n.batches-batches)
		}
		s.Leave("kubernetes/east", false)
		if len(n.holds) > 0 {
			t.Fatalf("of a cluster that is gone %v is left", n.holds)
		}
	})
}
