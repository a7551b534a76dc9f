package table

import (
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"text/tabwriter"
)

// Rower is implemented by keys and values that print as several columns.
type Rower interface{ Row() []string }

// Headed is implemented by keys and values that name their columns. Header is
// called on the zero value.
type Headed interface{ Header() []string }

// Info describes one table.
type Info struct {
	Name string
	Kind Kind
	From string // the table it is made from, "" for an input
	Rows int
	// Absent is how many keys without a row are kept because a row read them.
	Absent int
	// Edges is how many reads are recorded for the rows of this table; to be
	// made from a source row is one of them.
	Edges int
	// Recomputed counts runs of the derivation since the store began.
	Recomputed uint64
}

// Tables describes every table in order of declaration. Inside a Read, use
// Tx.Tables.
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
		infos[i] = Info{Name: b.name, Kind: b.kind, From: b.from, Edges: b.edges, Recomputed: b.recomputed}
		infos[i].Rows, infos[i].Absent = b.cells.len, b.absentKeys.len
	}
	return infos
}

// Listing is a table in print.
type Listing struct {
	Table  string     `json:"table"`
	Header []string   `json:"header"`
	Rows   [][]string `json:"rows"`
}

// Copy takes the rows of a table as they are in tx. It returns a function that renders, in key order, the rows with filter in some column.
// Call that function once, after tx, so that a long text delays no turn. Copy fails if there is no such table.
func (s *Store) Copy(tx *Tx, table string) (func(filter string) Listing, error) {
	tx.check(s)
	n := s.byName[table]
	if n == nil {
		return nil, fmt.Errorf("print table %q: there is no such table", table)
	}
	return n.meta().copied(), nil
}

// List is Copy and rendering in one.
func (s *Store) List(tx *Tx, table, filter string) (Listing, error) {
	render, err := s.Copy(tx, table)
	if err != nil {
		return Listing{}, err
	}
	return render(filter), nil
}

// Print writes a table as List renders it, in aligned columns. Give it a buffer:
// no turn starts until tx is over.
func (s *Store) Print(w io.Writer, tx *Tx, table, filter string) error {
	l, err := s.List(tx, table, filter)
	if err != nil {
		return err
	}
	return l.Write(w)
}

// Write writes the listing in aligned columns, without spaces at line ends.
func (l Listing) Write(w io.Writer) error {
	var aligned strings.Builder
	columns := tabwriter.NewWriter(&aligned, 0, 0, 2, ' ', 0)
	for _, row := range append([][]string{l.Header}, l.Rows...) {
		// A strings.Builder takes every write.
		_, _ = fmt.Fprintln(columns, strings.Join(row, "\t"))
	}
	_ = columns.Flush()
	for line := range strings.Lines(aligned.String()) {
		if _, err := fmt.Fprintln(w, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}

// copied takes the rows as they are, and returns a function that renders the rows with filter in some column, also after a turn.
func (t *core) copied() func(filter string) Listing {
	rows := make([]snapped[any], 0, t.cells.len)
	for c := range t.cells.all {
		rows = append(rows, snapped[any]{c, t.values.show(c.val())})
	}
	return func(filter string) Listing {
		slices.SortFunc(rows, func(a, b snapped[any]) int { return t.keys.compare(a.cell, b.cell) })
		keys := header(t.keys.zero, "KEY")
		l := Listing{Table: t.name, Header: slices.Concat(keys, header(t.values.zero, "VALUE"))}
		for _, r := range rows {
			row := slices.Concat(fit(columns(t.keys.show(r.cell)), len(keys)), columns(r.val))
			if slices.ContainsFunc(row, func(s string) bool { return strings.Contains(s, filter) }) {
				l.Rows = append(l.Rows, row)
			}
		}
		return l
	}
}

// header names the columns of a type by its zero value.
func header(zero any, name string) []string {
	if h, ok := zero.(Headed); ok && !isNil(zero) {
		return h.Header()
	}
	return []string{name}
}

func isNil(v any) bool {
	return v == nil || reflect.ValueOf(v).Kind() == reflect.Pointer && reflect.ValueOf(v).IsNil()
}

// columns prints a value.
func columns(v any) []string {
	if r, ok := v.(Rower); ok && !isNil(v) {
		return r.Row()
	}
	return []string{text(v)}
}

// fit makes a key take the columns of its header.
func fit(row []string, n int) []string {
	if len(row) > n {
		return append(slices.Clone(row[:n-1]), strings.Join(row[n-1:], " "))
	}
	for len(row) < n {
		row = append(row, "")
	}
	return row
}

// text prints a key or value on one line.
func text(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case fmt.Stringer:
		return v.String()
	case Rower:
		return strings.Join(v.Row(), " ")
	}
	return strings.ReplaceAll(fmt.Sprint(v), "\n", " ")
}
