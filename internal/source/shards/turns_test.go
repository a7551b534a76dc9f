package shards_test

import (
	"testing"

	"fairway/internal/source"
	"fairway/internal/source/shards"
)

func ended(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Rows are in force at the end of the turn that took them in, not at the end of a turn that had begun before.
func TestInForce(t *testing.T) {
	set := shards.New(newNext(), nil)
	s, err := set.Join("one", 0)
	if err != nil {
		t.Fatal(err)
	}
	sink := s.(source.Paced)
	if !ended(sink.InForce()) {
		t.Error("nothing was handed over, and it is waited for")
	}
	put := func(name string) <-chan struct{} {
		sink.Apply(source.Update{Shards: []source.Shard{{Rows: objects(name, "1")}}})
		return sink.InForce()
	}
	first := put("a")
	turn := set.Turn()
	second := put("b")
	if ended(first) || ended(second) {
		t.Error("something is in force before a turn has ended")
	}
	turn()
	if !ended(first) || ended(second) {
		t.Errorf("after the first turn: the first %t, the second %t", ended(first), ended(second))
	}
	turn()
	if ended(second) {
		t.Error("a turn that ends twice ends the next one")
	}
	turn = set.Turn()
	if running := sink.InForce(); ended(running) || running != second {
		t.Error("while its turn goes on, what was handed over is not in force")
	}
	turn()
	if !ended(second) || !ended(sink.InForce()) {
		t.Error("after its turn it is not in force")
	}
	set.Turn()()
	if !ended(sink.InForce()) {
		t.Error("after a turn with nothing in it something is waited for")
	}
}
