package compile

import (
	"fairway/internal/config"
	"fairway/internal/table"
)

// Without calls look with the tables as they would be without an object, and with the differences (table.Changes), and then restores them
// (table.Store.Try). False: there is no such object. Only the owner of the turns may call it, between turns. It takes as long as deleting
// and setting the object, and readers wait meanwhile.
func (g *Graph) Without(k config.Key, look func(tx *table.Tx)) bool {
	has := false
	g.Store.Read(func(tx *table.Tx) { has = g.In.Has(tx, k) })
	if has {
		g.Store.Try(func(tr *table.Trial) { g.In.TryWithout(tr, k) }, func(_ table.Turn, tx *table.Tx) { look(tx) })
	}
	return has
}
