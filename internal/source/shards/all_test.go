package shards_test

import (
	"fmt"
	"testing"

	"fairway/internal/source"
	"fairway/internal/source/shards"
)

// TestAllOfOneInstant: an object that a source moves between two of its shards is always listed once, although the rows are listed in
// pieces, between which the source goes on.
func TestAllOfOneInstant(t *testing.T) {
	s := shards.New(newNext(), nil)
	one := join(t, s, "one")
	east, west := source.ShardKey{Cluster: "east", Kind: "Gateway"}, source.ShardKey{Cluster: "west", Kind: "Gateway"}
	for _, at := range []source.ShardKey{east, west} {
		var many []string
		for i := range 2500 {
			many = append(many, fmt.Sprint(at.Cluster, i), "1")
		}
		one.Apply(whole(at, objects(many...)))
	}
	one.Apply(part(east, objects("moves", "1"), source.Keys{}))
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for from, to := east, west; ; from, to = to, from {
			one.Apply(source.Update{Shards: []source.Shard{
				{Key: to, Rows: objects("moves", "1")}, {Key: from, Gone: keysOf("moves")},
			}})
			select {
			case <-stop:
				return
			default:
			}
		}
	}()
	for range 50 {
		n, moves := 0, 0
		for _, part := range s.All()[0].Shards {
			n += len(part.Rows.Objects)
			for _, o := range part.Rows.Objects {
				if o.Name == "moves" {
					moves++
				}
			}
		}
		if n != 5001 || moves != 1 {
			t.Fatalf("%d objects, the one that moves %d times; want 5001, once", n, moves)
		}
	}
	close(stop)
	<-ended
}
