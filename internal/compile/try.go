package compile

import (
	"fairway/internal/jwks"
	"fairway/internal/source"
	"fairway/internal/table"
)

// Try calls look with the tables as a turn with a batch would make them, and with the differences (table.Changes, ProblemChanges), and
// then restores them (table.Store.Try). Only the owner of the turns may call it, between turns. It takes twice as long as the turn with the
// batch, plus the time of look, and readers wait meanwhile. Answers from outside that the batch would ask for are missing: Secrets that
// nothing names now, keys of new issuers, addresses of new gateways' names.
func (g *Graph) Try(b source.Batch, look func(table.Turn, *table.Tx)) { g.TryAnswered(b, nil, look) }

// TryAnswered is Try with answers of issuers of keys, which replace those that are known.
func (g *Graph) TryAnswered(b source.Batch, answers map[jwks.Source]jwks.Answer, look func(table.Turn, *table.Tx)) {
	g.Store.Try(func(tr *table.Trial) {
		g.In.Try(tr, b)
		for from, a := range answers {
			g.In.KeySets.Try(tr, from, a)
		}
	}, look)
}
