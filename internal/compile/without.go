package compile

import (
	"fairway/internal/config"
	"fairway/internal/table"
)

// Without shows look the tables as they would be without an object, and how these differ from those that are (table.Changes), and takes
// that back (table.Store.Try). False: there is no such object. Only the owner of the turns calls it, between turns; it takes as long as
// deleting the object and setting it again would, and readers wait meanwhile.
func (g *Graph) Without(k config.Key, look func(tx *table.Tx)) bool {
	has := false
	g.Store.Read(func(tx *table.Tx) { has = g.In.Has(tx, k) })
	if has {
		g.Store.Try(func(tr *table.Trial) { g.In.TryWithout(tr, k) }, func(_ table.Turn, tx *table.Tx) { look(tx) })
	}
	return has
}
