package table

import (
	"fmt"
	"slices"
	"strings"

	"fairway/internal/table/cells"
)

// Ref names a row, Explanation what it was made from, and Divergence is a row that differs from the result of its reads.
type (
	Ref         = cells.Ref
	Explanation = cells.Explanation
	Divergence  = cells.Divergence
)

// Explain describes the row with a printed key: what it was made from and what depends on it, at most so many of each. It returns false if
// there is no such row and no row has looked for it. It fails if there is no such table. It looks at all keys of the table.
func (s *Store) Explain(tx *Tx, table, key string, most int) (Explanation, bool, error) {
	tx.check(s)
	n := s.byName[table]
	if n == nil {
		return Explanation{}, false, fmt.Errorf("explain a row of table %q: there is no such table", table)
	}
	out := Explanation{Ref: Ref{Table: table, Key: key}}
	var found *cells.Cell
	n.meta().Visit(func(c *cells.Cell, printed string, value any) {
		if printed != key {
			return
		}
		if found = c; c.Has {
			out.Value = cells.Columns(value)
		}
	})
	if found == nil {
		return out, false, nil
	}
	if found.Has {
		tx.made(found, func(c *cells.Cell) bool {
			ref := Ref{Table: c.Table.Name, Key: c.Table.Text(c)}
			switch {
			case len(out.Reads)+len(out.Absent) >= most:
				out.More++
			case c.Has:
				out.Reads = append(out.Reads, ref)
			default:
				out.Absent = append(out.Absent, ref)
			}
			return true
		})
	}
	for _, e := range found.Readers {
		if len(out.Readers) >= most {
			out.More += len(found.Readers) - most
			break
		}
		out.Readers = append(out.Readers, readerRef(e.Reader))
	}
	slices.SortFunc(out.Readers, func(a, b Ref) int { return strings.Compare(a.String(), b.String()) })
	return out, true, nil
}

// readerRef names the table that a maker makes rows of, and the key of its source row.
func readerRef(m *cells.Maker) Ref {
	return Ref{Table: m.Queue.Of.Name, Key: m.From.Table.Text(m.From)}
}
