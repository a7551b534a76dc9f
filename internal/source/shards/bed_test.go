package shards_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"

	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/source"
	"fairway/internal/source/shards"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// next takes the batches of a set: it keeps the rows of each kind, printed, and the last problems of each place.
type next struct {
	holds    map[string]string
	problems map[source.Place][]mesh.Problem
	batches  int
	synced   bool
}

func newNext() *next {
	return &next{holds: map[string]string{}, problems: map[source.Place][]mesh.Problem{}}
}

func (n *next) Apply(b source.Batch) {
	n.batches++
	n.synced = n.synced || b.Synced
	gone := func(k string) {
		if _, has := n.holds[k]; !has {
			panic(k + " goes, and is not there")
		}
		delete(n.holds, k)
	}
	for _, k := range b.Gone.Objects {
		gone(k.String())
	}
	for _, k := range b.Gone.Services {
		gone("service " + k.String())
	}
	for _, k := range b.Gone.Slices {
		gone("slice " + k.String())
	}
	for _, k := range b.Gone.Workloads {
		gone("workload " + k.String())
	}
	for _, k := range b.Gone.Machines {
		gone("machine " + k.String())
	}
	for _, k := range b.Gone.Namespaces {
		gone("namespace " + k.String())
	}
	for _, o := range b.Set.Objects {
		n.holds[o.String()] = string(o.Text)
	}
	for _, v := range b.Set.Services {
		n.holds["service "+v.Key.String()] = v.String()
	}
	for _, v := range b.Set.Slices {
		n.holds["slice "+v.Key.String()] = v.String()
	}
	for _, v := range b.Set.Workloads {
		n.holds["workload "+v.Key.String()] = v.String()
	}
	for _, v := range b.Set.Machines {
		n.holds["machine "+v.Key.String()] = v.String()
	}
	for _, v := range b.Set.Namespaces {
		n.holds["namespace "+v.Key.String()] = v.String()
	}
	for at, list := range b.Problems {
		if n.problems[at] = list; len(list) == 0 {
			delete(n.problems, at)
		}
	}
}

// keys lists what it holds.
func (n *next) keys() string {
	var out []string
	for k, v := range n.holds {
		out = append(out, strings.TrimSpace(k+" "+v))
	}
	slices.Sort(out)
	return strings.Join(out, "; ")
}

// said lists the codes of the problems of a place.
func (n *next) said(from, name string) (out []string) {
	for _, p := range n.problems[source.Place{Source: from, Name: name}] {
		out = append(out, p.Code)
	}
	return out
}

// object returns a Gateway with this name and this text; file, if not "", is where it is written.
func object(name, says, file string) *config.Object {
	o := &config.Object{Key: config.Key{Kind: "Gateway", Namespace: "n", Name: name}, Hash: xxhash.Sum64String(says), Text: []byte(says)}
	o.Ref = mesh.ObjectRef{Kind: "Gateway", Namespace: "n", Name: name, File: file}
	if file != "" {
		o.Ref.Line = 7
	}
	return o
}

func objects(pairs ...string) source.Rows {
	var r source.Rows
	for i := 0; i < len(pairs); i += 2 {
		r.Objects = append(r.Objects, object(pairs[i], pairs[i+1], ""))
	}
	return r
}

func keysOf(names ...string) source.Keys {
	var k source.Keys
	for _, n := range names {
		k.Objects = append(k.Objects, object(n, "", "").Key)
	}
	return k
}

// whole returns an update that says all that there is of a shard.
func whole(k source.ShardKey, rows source.Rows) source.Update {
	return source.Update{Shards: []source.Shard{{Key: k, Whole: true, Rows: rows}}}
}

// part returns an update that says what changed in a shard.
func part(k source.ShardKey, rows source.Rows, gone source.Keys) source.Update {
	return source.Update{Shards: []source.Shard{{Key: k, Rows: rows, Gone: gone}}}
}

func join(t *testing.T, s *shards.Set, name string) source.Sink {
	t.Helper()
	sink, err := s.Join(name, 0)
	if err != nil {
		t.Fatal(err)
	}
	return sink
}

func same[T any](t *testing.T, at string, want, got T) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateComparable(mesh.MachineRef{})); diff != "" {
		t.Errorf("%s (-want +got):\n%s", at, diff)
	}
}
