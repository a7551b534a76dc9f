package compile_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"text/tabwriter"

	"fairway/internal/compile/compiletest"
	"fairway/internal/golden"
	"fairway/internal/table"
)

// footprint is what the tables hold at one moment.
type footprint struct {
	tables []table.Info
	bytes  int64 // of the live heap
}

func footprintOf(w *compiletest.World) footprint {
	w.Settle()
	w.Store.Forget()
	runtime.GC()
	runtime.GC() // what the first one found to finalize
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return footprint{w.Store.Tables(), int64(m.HeapAlloc)}
}

// growth is what n more of one thing added.
type growth struct {
	of            string
	n             int
	before, after footprint
	mostBytes     int64 // live bytes that one of it may add: some 10 % more than it does
}

// each returns what one of the n added to a table: rows, places of absent rows, and reads.
func (g growth) each(i int) (rows, absent, reads float64) {
	was, is, n := g.before.tables[i], g.after.tables[i], float64(g.n)
	return float64(is.Rows-was.Rows) / n, float64(is.Absent-was.Absent) / n, float64(is.Edges-was.Edges) / n
}

// bytes returns what one of the n added to the live heap.
func (g growth) bytes() int64 { return (g.after.bytes - g.before.bytes) / int64(g.n) }

// TestUnusedFeaturesCostNothing counts what a mesh of ServiceEntries, VirtualServices and DestinationRules holds, a service, a pair of
// rules and a proxy at a time. A feature that no object uses must add no row, no read and no byte to it. Rows and reads are in the golden
// file, by table; a table that is not in it gained nothing.
func TestUnusedFeaturesCostNothing(t *testing.T) {
	const services, proxies = 1500, 1200 // more than what tables keep room for between turns
	w := compiletest.Large(t)
	apply := func(from, to int, one func(i int) string) {
		var text strings.Builder
		for i := from; i < to; i++ {
			text.WriteString(one(i))
		}
		w.Apply(text.String())
	}
	plain := func(i int) string { return service(i, "") }
	rules := func(i int) string { return virtualService(i, 90) + destinationRule(i, 100) }
	connect := func(from, to int) {
		for i := from; i < to; i++ {
			w.Connect(compiletest.Sidecar(fmt.Sprintf("p%d", i), fmt.Sprintf("ns%d", i%5), fmt.Sprintf("10.250.%d.%d", i/200, i%200+1)))
		}
	}
	apply(0, services, plain)
	apply(0, 10, rules)
	connect(0, 10)
	at := []footprint{footprintOf(w)}
	for _, more := range []func(){
		func() { apply(services, 2*services, plain) },
		func() { apply(services, 2*services, rules) },
		func() { connect(10, 10+proxies) },
	} {
		more()
		at = append(at, footprintOf(w))
	}
	runtime.KeepAlive(w)
	grown := []growth{
		{"a service", services, at[0], at[1], 37_500},
		{"a VirtualService and a DestinationRule", services, at[1], at[2], 25_000},
		{"a proxy", proxies, at[2], at[3], 11_800},
	}
	golden.File(t, "testdata/footprint.txt", listed(grown))
	for _, g := range grown {
		t.Logf("%s: %d bytes", g.of, g.bytes())
		if g.bytes() > g.mostBytes {
			t.Errorf("%s adds %d bytes to the live heap, want at most %d", g.of, g.bytes(), g.mostBytes)
		}
	}
}

// listed prints the rows that were added to each table.
func listed(grown []growth) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 2, 8, 2, ' ', 0)
	for _, g := range grown {
		var lines strings.Builder
		var sum [3]float64
		for i, info := range g.after.tables {
			rows, absent, reads := g.each(i)
			if rows != 0 || absent != 0 || reads != 0 {
				fmt.Fprintf(&lines, "  %s\t%.4g\t%.4g\t%.4g\n", info.Name, rows, absent, reads)
			}
			for j, n := range [...]float64{rows, absent, reads} {
				sum[j] += n
			}
		}
		fmt.Fprintf(w, "%s adds\trows\tabsent\treads\n%s  all\t%.5g\t%.5g\t%.5g\n\n", g.of, lines.String(), sum[0], sum[1], sum[2])
		w.Flush()
	}
	return b.String()
}
