package shards_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"fairway/internal/mesh"
	"fairway/internal/source"
	"fairway/internal/source/shards"
)

// model is what sources said, kept the plain way: by source, shard and key, in the words of next.
type model struct {
	order []string // the sources, as they joined
	said  map[string]map[source.ShardKey]map[string]string
}

// holds is what counts: of each key the version of the first source and shard that has one.
func (m model) holds() map[string]string {
	out := map[string]string{}
	for _, from := range m.order {
		for _, at := range slices.SortedFunc(maps.Keys(m.said[from]), source.CompareShardKey) {
			for k, v := range m.said[from][at] {
				if _, taken := out[k]; !taken {
					out[k] = v
				}
			}
		}
	}
	return out
}

// version draws a row of one of the kinds, its key and text as next prints them, into rows or, if it goes, into gone.
func version(t *rapid.T, rows *source.Rows, gone *source.Keys, goes bool) (key, text string) {
	name, says := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "name"), rapid.SampledFrom([]string{"1", "2", "3"}).Draw(t, "says")
	switch kind := rapid.IntRange(0, 3).Draw(t, "kind"); kind {
	case 0:
		o := object(name, says, "")
		if goes {
			gone.Objects = append(gone.Objects, o.Key)
		} else {
			rows.Objects = append(rows.Objects, o)
		}
		return o.String(), says
	case 1:
		v := &mesh.Slice{Key: mesh.SliceKey{Name: name}, Endpoints: []mesh.SliceEndpoint{{ID: says}}}
		if goes {
			gone.Slices = append(gone.Slices, v.Key)
		} else {
			rows.Slices = append(rows.Slices, v)
		}
		return "slice " + v.Key.String(), v.String()
	case 2:
		v := &mesh.Workload{Key: mesh.WorkloadKey{Name: name}, ServiceAccount: says}
		if goes {
			gone.Workloads = append(gone.Workloads, v.Key)
		} else {
			rows.Workloads = append(rows.Workloads, v)
		}
		return "workload " + v.Key.String(), v.String()
	default:
		v := &mesh.Service{Key: mesh.ServiceKey{Host: mesh.Host(name)}, Addresses: []string{says}}
		if goes {
			gone.Services = append(gone.Services, v.Key)
		} else {
			rows.Services = append(rows.Services, v)
		}
		return "service " + v.Key.String(), v.String()
	}
}

// After any history, next holds the rows that count, and once everything has been taken back nothing is kept.
func TestAnyHistory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := newNext()
		s := shards.New(n, nil)
		m := model{said: map[string]map[source.ShardKey]map[string]string{}}
		sinks := map[string]source.Sink{}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			from := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "source")
			switch {
			case sinks[from] == nil:
				sink, err := s.Join(from, 0)
				if err != nil {
					t.Fatal(err)
				}
				if sinks[from] = sink; m.said[from] == nil {
					m.order, m.said[from] = append(m.order, from), map[source.ShardKey]map[string]string{}
				}
			case rapid.IntRange(0, 7).Draw(t, "leaves") == 0:
				keep := rapid.Bool().Draw(t, "keep")
				s.Leave(from, keep)
				delete(sinks, from)
				if !keep {
					delete(m.said, from)
					m.order = slices.DeleteFunc(m.order, func(o string) bool { return o == from })
				}
			default:
				sinks[from].Apply(drawUpdate(t, m.said[from]))
			}
			if want, got := fmt.Sprint(m.holds()), fmt.Sprint(n.holds); want != got {
				t.Fatalf("next holds\n%s\nand not\n%s", got, want)
			}
		}
		rows := 0
		for _, of := range m.said {
			for _, at := range of {
				rows += len(at)
			}
		}
		for _, st := range s.Standings() {
			rows -= st.Rows
			s.Leave(st.Source, false)
		}
		if rows != 0 || len(n.holds)+len(n.problems) > 0 || s.Kept() != 0 {
			t.Fatalf("%d rows too few, next holds %s, %v; %d things kept", rows, n.keys(), n.problems, s.Kept())
		}
	})
}

// drawUpdate draws what a source says, and notes it in said.
func drawUpdate(t *rapid.T, said map[source.ShardKey]map[string]string) source.Update {
	var u source.Update
	for range rapid.IntRange(1, 2).Draw(t, "shards") {
		at := rapid.SampledFrom([]source.ShardKey{
			{}, {Cluster: "x"}, {Cluster: "x", Kind: "k"}, {Cluster: "x", Kind: "k", Part: "p"}, {Cluster: "y", Kind: "k"},
		}).Draw(t, "shard")
		one := source.Shard{Key: at, Whole: rapid.Bool().Draw(t, "whole")}
		if one.Whole {
			maps.DeleteFunc(said, func(k source.ShardKey, _ map[string]string) bool { return below(at, k) })
		}
		if said[at] == nil {
			said[at] = map[string]string{}
		}
		drawn := map[string]bool{}
		for range rapid.IntRange(0, 3).Draw(t, "rows") {
			var rows source.Rows
			var gone source.Keys
			goes := !one.Whole && rapid.Bool().Draw(t, "goes")
			key, text := version(t, &rows, &gone, goes)
			if drawn[key] {
				continue
			}
			drawn[key] = true
			one.Rows.Objects = append(one.Rows.Objects, rows.Objects...)
			one.Rows.Services = append(one.Rows.Services, rows.Services...)
			one.Rows.Slices = append(one.Rows.Slices, rows.Slices...)
			one.Rows.Workloads = append(one.Rows.Workloads, rows.Workloads...)
			one.Gone.Objects = append(one.Gone.Objects, gone.Objects...)
			one.Gone.Services = append(one.Gone.Services, gone.Services...)
			one.Gone.Slices = append(one.Gone.Slices, gone.Slices...)
			one.Gone.Workloads = append(one.Gone.Workloads, gone.Workloads...)
			if delete(said[at], key); !goes {
				said[at][key] = text
			}
		}
		u.Shards = append(u.Shards, one)
	}
	return u
}

// below says in the plain way whether a shard is another one or part of it.
func below(of, k source.ShardKey) bool {
	path := func(k source.ShardKey) string {
		return strings.TrimRight(strings.Join([]string{"", k.Cluster, k.Kind, k.Part}, "/"), "/") + "/"
	}
	return strings.HasPrefix(path(k), path(of))
}
