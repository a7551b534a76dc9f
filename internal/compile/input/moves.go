package input

import (
	"iter"
	"maps"
	"slices"

	"fairway/internal/config"
	"fairway/internal/table"
)

// Move is an object that a turn set or removed.
type Move struct {
	Key  config.Key
	Gone bool
	Old  bool // there was a version of it before
	Same bool // only its place is another one: nothing was computed from it
}

// Moves yields the objects that users wrote and the last turn set or removed, in order of kind and key within each kind. Only the owner of
// the turns may call it, before the turn's changes are forgotten.
func (t *Tables) Moves() iter.Seq[Move] {
	return func(yield func(Move) bool) {
		content := map[config.Key]bool{}
		for _, kind := range slices.Sorted(maps.Keys(t.inputs)) {
			for c := range table.Changes(t.inputs[kind].Table) {
				content[c.Key] = true
				if !yield(Move{Key: c.Key, Gone: !c.Has, Old: c.Had}) {
					return
				}
			}
		}
		for c := range table.Changes(t.Written.Table) {
			if !content[c.Key] && !yield(Move{Key: c.Key, Gone: !c.Has, Old: c.Had, Same: true}) {
				return
			}
		}
	}
}
