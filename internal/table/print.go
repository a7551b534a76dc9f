package table

import (
	"fmt"
	"io"

	"fairway/internal/table/cells"
)

// Rower is implemented by keys and values that print as several columns, Headed by those that name the columns; a Listing is a table in
// print.
type (
	Rower   = cells.Rower
	Headed  = cells.Headed
	Listing = cells.Listing
)

// Info describes one table.
type Info struct {
	Name string
	Kind Kind
	From string // the table it is made from, "" for an input
	Rows int
	// Absent is how many keys without a row are kept because a row read them.
	Absent int
	// Edges is how many reads are recorded for the rows of this table; to be made from a source row is one of them.
	Edges int
	// Recomputed counts runs of the derivation since the store began.
	Recomputed uint64
}

// Tables describes every table in order of declaration. Inside a Read, use Tx.Tables.
func (s *Store) Tables() (infos []Info) {
	s.Read(func(tx *Tx) { infos = tx.Tables() })
	return infos
}

// Tables describes every table in order of declaration.
func (tx *Tx) Tables() []Info {
	s := tx.store
	tx.check(s)
	infos := make([]Info, len(s.nodes))
	for i, n := range s.nodes {
		b := n.meta()
		infos[i] = Info{Name: b.Name, Kind: b.kind, From: b.from, Edges: b.Edges, Recomputed: b.recomputed}
		infos[i].Rows, infos[i].Absent = b.Cells.Len, b.AbsentKeys.Len
	}
	return infos
}

// Copy takes the rows of a table as they are in tx. It returns a function that renders, in key order, the rows with filter in some column.
// Call that function once, after tx, so that a long text delays no turn. Copy fails if there is no such table.
func (s *Store) Copy(tx *Tx, table string) (func(filter string) Listing, error) {
	tx.check(s)
	n := s.byName[table]
	if n == nil {
		return nil, fmt.Errorf("print table %q: there is no such table", table)
	}
	return n.meta().Copy(), nil
}

// List is Copy and rendering in one.
func (s *Store) List(tx *Tx, table, filter string) (Listing, error) {
	render, err := s.Copy(tx, table)
	if err != nil {
		return Listing{}, err
	}
	return render(filter), nil
}

// Print writes a table as List renders it, in aligned columns. Give it a buffer: no turn starts until tx is over.
func (s *Store) Print(w io.Writer, tx *Tx, table, filter string) error {
	l, err := s.List(tx, table, filter)
	if err != nil {
		return err
	}
	return l.Write(w)
}
