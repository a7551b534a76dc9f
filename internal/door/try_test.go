package door_test

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"pgregory.net/rapid"

	"fairway/internal/door"
	"fairway/internal/source"
)

// TestTry: a trial hands on what the door hands on for the same batch once its grace is over, and leaves the door as it was.
func TestTry(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := newNext()
		d := door.New(door.Options{Grace: time.Hour}, n)
		d.Apply(everything(worldOf(t)))
		for range rapid.IntRange(1, 8).Draw(t, "batches") {
			slots := rapid.SliceOfNDistinct(rapid.SampledFrom(slots), 1, 3, rapid.ID).Draw(t, "slots")
			var b source.Batch
			for _, slot := range slots {
				add(&b, step{line(t, slot), rapid.IntRange(0, 2).Draw(t, "remove") == 0})
			}
			before := fmt.Sprint(waits(d), d.Size(), n.holds)
			shown := newNext()
			maps.Copy(shown.holds, n.holds)
			shown.Apply(d.Try(b))
			if after := fmt.Sprint(waits(d), d.Size(), n.holds); after != before {
				t.Fatalf("before the trial\n%s, after it\n%s", before, after)
			}
			if err := d.Check(); err != nil {
				t.Fatal(err)
			}
			d.Apply(b)
			d.Force(b)
			equal(t, n.holds, shown.holds)
		}
	})
}
