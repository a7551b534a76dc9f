package shards_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/source"
	"fairway/internal/source/shards"
)

func TestAWholeShardReplacesWhatItHad(t *testing.T) {
	n := newNext()
	s := shards.New(n, nil)
	one, two := join(t, s, "one"), join(t, s, "two")
	east := source.ShardKey{Cluster: "east", Kind: "Gateway"}
	west := source.ShardKey{Cluster: "west", Kind: "Gateway", Part: "p"}
	one.Apply(whole(east, objects("a", "1", "b", "1")))
	one.Apply(whole(west, objects("c", "1")))
	two.Apply(whole(east, objects("d", "1")))
	same(t, "all there is", "Gateway n/a 1; Gateway n/b 1; Gateway n/c 1; Gateway n/d 1", n.keys())

	batches := n.batches
	one.Apply(whole(east, objects("a", "1", "b", "1")))
	same(t, "a relist with nothing changed says nothing", batches, n.batches)
	one.Apply(whole(east, objects("b", "2")))
	same(t, "what is not listed goes, of that shard alone", "Gateway n/b 2; Gateway n/c 1; Gateway n/d 1", n.keys())
	one.Apply(part(east, objects("e", "1"), keysOf("b", "never")))
	same(t, "changes", "Gateway n/c 1; Gateway n/d 1; Gateway n/e 1", n.keys())
	one.Apply(part(east, objects("e", "2"), keysOf("e")))
	same(t, "what is both gone and set is set", "2", n.holds["Gateway n/e"])
	one.Apply(part(west, source.Rows{}, keysOf("e")))
	same(t, "a shard cannot delete another's", "2", n.holds["Gateway n/e"])
	one.Apply(whole(source.ShardKey{Cluster: "east"}, source.Rows{}))
	same(t, "a cluster is gone in one word", "Gateway n/c 1; Gateway n/d 1", n.keys())
	one.Apply(whole(source.ShardKey{}, objects("z", "1")))
	same(t, "the zero key stands for all", "Gateway n/d 1; Gateway n/z 1", n.keys())
	same(t, "nothing is kept of shards that are empty", 1, s.Standings()[0].Shards)
}

func TestTheFirstSourceCounts(t *testing.T) {
	n := newNext()
	s := shards.New(n, nil)
	file, memory := join(t, s, "file"), join(t, s, "memory")
	at := source.ShardKey{}
	memory.Apply(part(at, objects("a", "m"), source.Keys{}))
	same(t, "memory alone", "m", n.holds["Gateway n/a"])
	file.Apply(part(at, source.Rows{Objects: objectsIn("a.yaml", "f")}, source.Keys{}))
	same(t, "file takes precedence", "f", n.holds["Gateway n/a"])
	list := n.problems[source.Place{Source: "memory", Name: "Gateway n/a"}]
	if len(list) != 1 || list[0].Severity != mesh.Warning {
		t.Fatalf("memory is told %v", list)
	}
	same(t, "in words", `Gateway n/a at source "memory" is not in force: source "file" (a.yaml:7) has it too, and comes first`, list[0].Message)

	memory.Apply(part(at, source.Rows{Objects: objectsIn("b.yaml", "m2")}, source.Keys{}))
	same(t, "an edit of the other changes nothing", "f", n.holds["Gateway n/a"])
	same(t, "the problem moved", []string(nil), n.said("memory", "Gateway n/a"))
	same(t, "to where the object is", []string{"DuplicateObject"}, n.said("memory", "b.yaml"))

	file.Apply(part(at, source.Rows{}, keysOf("a")))
	same(t, "the other takes over", "m2", n.holds["Gateway n/a"])
	same(t, "the problem is gone", []string(nil), n.said("memory", "b.yaml"))
	file.Apply(part(at, source.Rows{}, keysOf("a")))
	same(t, "a source cannot delete another's", "m2", n.holds["Gateway n/a"])
	memory.Apply(part(at, source.Rows{}, keysOf("a")))
	same(t, "none left", "", n.keys())
}

func TestTheFirstShardOfASourceCounts(t *testing.T) {
	n := newNext()
	s := shards.New(n, nil)
	file := join(t, s, "file")
	in := func(path string) source.ShardKey { return source.ShardKey{Kind: "file", Part: path} }
	file.Apply(whole(in("b.yaml"), source.Rows{Objects: objectsIn("b.yaml", "b", "b again")}))
	same(t, "the first of a file", "b", n.holds["Gateway n/a"])
	same(t, "the second is told", []string{"DuplicateObject"}, n.said("file", "b.yaml"))
	file.Apply(whole(in("a.yaml"), source.Rows{Objects: objectsIn("a.yaml", "a")}))
	same(t, "the first file", "a", n.holds["Gateway n/a"])
	same(t, "both of the other are told", []string{"DuplicateObject", "DuplicateObject"}, n.said("file", "b.yaml"))
	list := n.problems[source.Place{Source: "file", Name: "b.yaml"}]
	same(t, "in words", "Gateway n/a is also in a.yaml:7, which counts", list[0].Message)
	same(t, "as an error", mesh.Error, list[0].Severity)
	file.Apply(whole(in("a.yaml"), source.Rows{}))
	same(t, "the other takes over", "b", n.holds["Gateway n/a"])
	file.Apply(whole(in("b.yaml"), source.Rows{}))
	same(t, "nothing is said any more", 0, len(n.problems))
}

func TestASourcesOwnProblemsStandBeside(t *testing.T) {
	n := newNext()
	s := shards.New(n, nil)
	file, memory := join(t, s, "file"), join(t, s, "memory")
	own := func(list ...mesh.Problem) source.Update {
		return source.Update{Problems: map[string][]mesh.Problem{"b.yaml": list}}
	}
	file.Apply(part(source.ShardKey{}, objects("a", "f"), source.Keys{}))
	memory.Apply(part(source.ShardKey{}, source.Rows{Objects: objectsIn("b.yaml", "m")}, source.Keys{}))
	memory.Apply(own(mesh.Problem{Code: "Own"}))
	same(t, "merged", []string{"Own", "DuplicateObject"}, n.said("memory", "b.yaml"))
	memory.Apply(own(mesh.Problem{Code: "Other"}))
	same(t, "own changed", []string{"Other", "DuplicateObject"}, n.said("memory", "b.yaml"))
	memory.Apply(own())
	same(t, "own taken back", []string{"DuplicateObject"}, n.said("memory", "b.yaml"))
	memory.Apply(own(mesh.Problem{Code: "Own"}))
	s.Leave("memory", false)
	same(t, "all goes with the source", 0, len(n.problems))
}

func TestEverythingIsThereOnceEachSourceHasSynced(t *testing.T) {
	n := newNext()
	s := shards.New(n, nil)
	a, b := join(t, s, "a"), join(t, s, "b")
	a.Apply(source.Update{Synced: true})
	same(t, "one of two", false, s.Synced() || n.synced)
	u := part(source.ShardKey{}, objects("last", "1"), source.Keys{})
	u.Synced = true
	b.Apply(u)
	same(t, "both", true, s.Synced() && n.synced)
	join(t, s, "late")
	same(t, "one that comes later takes nothing back", true, s.Synced())
}

// A cluster that cannot be reached must not keep a start from ending.
func TestTheWaitForAFirstSyncIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNext()
		s := shards.New(n, nil)
		near := join(t, s, "near")
		far, err := s.Join("far", time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		near.Apply(source.Update{Synced: true})
		far.Apply(source.Update{Stale: "connection refused"})
		time.Sleep(59 * time.Second)
		synctest.Wait()
		same(t, "it is waited for", false, s.Synced())
		time.Sleep(2 * time.Second)
		synctest.Wait()
		same(t, "no longer", true, s.Synced() && n.synced)
		st := s.Standings()[1]
		same(t, "and it is told why", "far late connection refused", st.Source+" "+st.Phase+" "+st.Detail)
		u := part(source.ShardKey{}, objects("a", "1"), source.Keys{})
		u.Synced = true
		far.Apply(u)
		same(t, "it comes late", "synced", s.Standings()[1].Phase)
		same(t, "with what it has", "1", n.holds["Gateway n/a"])
	})
}

func TestASourceThatIsLostKeepsItsLastState(t *testing.T) {
	n := newNext()
	s := shards.New(n, nil)
	east := join(t, s, "east")
	u := part(source.ShardKey{}, objects("a", "1"), source.Keys{})
	u.Synced = true
	east.Apply(u)
	east.Apply(source.Update{Stale: "watch ended: connection reset"})
	st := s.Standings()[0]
	same(t, "it is marked", "stale watch ended: connection reset", st.Phase+" "+st.Detail)
	same(t, "what it said stays", "1", n.holds["Gateway n/a"])
	east.Apply(source.Update{Fresh: true})
	same(t, "and fresh again", "synced", s.Standings()[0].Phase)
}

func TestSourcesComeAndGo(t *testing.T) {
	n := newNext()
	s := shards.New(n, nil)
	east, west := join(t, s, "east"), join(t, s, "west")
	if _, err := s.Join("east", 0); !errors.Is(err, shards.ErrJoined) {
		t.Errorf("a second of the name: %v", err)
	}
	in := func(kind string) source.ShardKey { return source.ShardKey{Kind: kind} }
	east.Apply(whole(in("x"), objects("a", "1")))
	east.Apply(whole(in("y"), objects("b", "1")))
	west.Apply(whole(in("x"), objects("c", "1")))

	s.Leave("east", true)
	same(t, "it left its rows", "Gateway n/a 1; Gateway n/b 1; Gateway n/c 1", n.keys())
	same(t, "and is shown as gone", "gone", s.Standings()[0].Phase)
	east.Apply(whole(in("x"), objects("z", "1")))
	same(t, "its sink does nothing any more", "1", n.holds["Gateway n/a"])

	again := join(t, s, "east")
	east.Apply(whole(in("x"), objects("z", "1")))
	same(t, "nor once another has its name", "", n.holds["Gateway n/z"])
	u := whole(in("x"), objects("a", "2"))
	again.Apply(u)
	same(t, "what it left stays until it has synced", "Gateway n/a 2; Gateway n/b 1; Gateway n/c 1", n.keys())
	again.Apply(source.Update{Synced: true})
	same(t, "and goes if it was not spoken of", "Gateway n/a 2; Gateway n/c 1", n.keys())

	s.Leave("east", false)
	same(t, "a goodbye for ever", "Gateway n/c 1", n.keys())
	s.Leave("never", false)
	same(t, "one source is left", 1, len(s.Standings()))
	same(t, "with its rows", 1, s.Standings()[0].Rows)
}

// objectsIn are versions of Gateway n/a in a file, in this order.
func objectsIn(file string, says ...string) (out []*config.Object) {
	for _, text := range says {
		out = append(out, object("a", text, file))
	}
	return out
}
