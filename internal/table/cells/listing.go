package cells

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// Listing is a table in print: its columns, and its rows in key order.
type Listing struct {
	Table  string     `json:"table"`
	Header []string   `json:"header"`
	Rows   [][]string `json:"rows"`
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

// Copy takes the rows as they are, and returns a function that renders the rows with filter in some column, also after a turn.
func (t *Table) Copy() func(filter string) Listing {
	type shown struct {
		cell *Cell
		val  any
	}
	rows := make([]shown, 0, t.Cells.Len)
	for c := range t.Cells.All {
		rows = append(rows, shown{c, t.Values.Show(c.Val())})
	}
	return func(filter string) Listing {
		slices.SortFunc(rows, func(a, b shown) int { return t.Keys.Compare(a.cell, b.cell) })
		keys := Header(t.Keys.zero, "KEY")
		l := Listing{Table: t.Name, Header: slices.Concat(keys, Header(t.Values.zero, "VALUE"))}
		for _, r := range rows {
			row := slices.Concat(Fit(Columns(t.Keys.Show(r.cell)), len(keys)), Columns(r.val))
			if slices.ContainsFunc(row, func(s string) bool { return strings.Contains(s, filter) }) {
				l.Rows = append(l.Rows, row)
			}
		}
		return l
	}
}
