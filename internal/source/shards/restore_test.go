package shards_test

import (
	"testing"
	"time"

	"fairway/internal/source"
	"fairway/internal/source/shards"
)

// Rows from before the start count until the source has synced, as if it had left; rows that are held can be handed in
// again.
func TestRestore(t *testing.T) {
	n := newNext()
	s := shards.New(n, nil)
	pods, services := source.ShardKey{Cluster: "west", Kind: "Pod"}, source.ShardKey{Cluster: "west", Kind: "Service"}
	s.Restore("west", []source.Shard{
		{Key: pods, Whole: true, Rows: objects("a", "1", "b", "1")}, {Key: services, Whole: true, Rows: objects("c", "1")},
	})
	same(t, "restored", "Gateway n/a 1; Gateway n/b 1; Gateway n/c 1", n.keys())
	if _, changes := s.Shards("west", 0); changes == 0 {
		t.Error("nothing is held")
	}
	sink, err := s.Join("west", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	s.Restore("west", []source.Shard{{Key: pods, Whole: true, Rows: objects("x", "1")}}) // it is known
	sink.Apply(whole(pods, objects("a", "2")))
	same(t, "one kind is read", "Gateway n/a 2; Gateway n/c 1", n.keys())
	sink.Apply(source.Update{Synced: true})
	same(t, "all is read", "Gateway n/a 2", n.keys())

	said, changes := s.Shards("west", 0)
	if len(said) != 1 || said[0].Key != pods || !said[0].Whole || len(said[0].Rows.Objects) != 1 {
		t.Fatalf("held are %+v", said)
	}
	if again, at := s.Shards("west", changes); again != nil || at != changes {
		t.Errorf("nothing has changed, and held are %+v", again)
	}
	if none, at := s.Shards("unknown", 7); none != nil || at != 7 {
		t.Errorf("nobody holds %+v", none)
	}
	other := newNext()
	anew := shards.New(other, nil)
	anew.Restore("west", said)
	same(t, "handed in again", n.keys(), other.keys())
	s.Leave("west", false)
	same(t, "left", "", n.keys())
}

// Among sources that come and go, the first by name counts, whichever came first. Sources that exist from the start take precedence
// over them.
func TestComeAndGo(t *testing.T) {
	n := newNext()
	s := shards.New(n, nil)
	at := source.ShardKey{Kind: "objects"}
	says := func(name, what string) {
		t.Helper()
		sink, err := s.JoinLast(name, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		sink.Apply(whole(at, objects("a", what)))
	}
	says("b", "of b")
	says("c", "of c")
	same(t, "the second came later", "Gateway n/a of b", n.keys())
	says("a", "of a")
	same(t, "the third is the first by name", "Gateway n/a of a", n.keys())
	s.Leave("a", false)
	s.Leave("b", false)
	same(t, "two have left", "Gateway n/a of c", n.keys())
	says("b", "of b")
	same(t, "one is back", "Gateway n/a of b", n.keys())
	s.Restore("a", []source.Shard{{Key: at, Whole: true, Rows: objects("a", "was a")}})
	same(t, "one is known from before", "Gateway n/a was a", n.keys())
	join(t, s, "z").Apply(whole(at, objects("a", "of z")))
	same(t, "one that stays", "Gateway n/a of z", n.keys())
	if first := s.Standings()[0].Source; first != "z" {
		t.Errorf("%s goes first", first)
	}
}
