package table

import (
	"cmp"
	"fmt"
	"runtime"
	"strings"
	"testing"
)

func same[T comparable](a, b T) bool { return a == b }

// endpoint and friends make a graph of the shape that the program has.
type (
	endpoint struct{ service, addr string }
	want     struct{ view, service string }
)

func compareWant(a, b want) int {
	return cmp.Or(strings.Compare(a.view, b.view), strings.Compare(a.service, b.service))
}

// mesh is endpoints → by service → a load row for each view that wants it.
type mesh struct {
	*Store
	services  *Input[string, string]
	endpoints *Input[string, endpoint]
	wanted    *Input[want, bool]
	defaults  *Input[string, int]
	byService *Table[string, Rows[string, endpoint]]
	load      *Table[want, string]
}

func newMesh(o Options) *mesh {
	s := New(o)
	m := &mesh{Store: s}
	m.services = NewInput(s, "services", strings.Compare, same[string])
	m.endpoints = NewInput(s, "endpoints", strings.Compare, same[endpoint])
	m.wanted = NewInput(s, "wanted", compareWant, same[bool])
	m.defaults = NewInput(s, "defaults", strings.Compare, same[int])
	m.byService = Group(m.endpoints.Table, "endpoints by service", strings.Compare,
		func(_ string, e endpoint) []string { return []string{e.service} })
	m.load = Derive(m.wanted.Table, "load", compareWant, same[string],
		func(r *Reader, w want, _ bool, emit func(want, string)) {
			policy, ok := Get(r, m.services.Table, w.service)
			if !ok {
				return
			}
			limit, _ := Get(r, m.defaults.Table, "limit")
			eps, _ := Get(r, m.byService, w.service)
			var b strings.Builder
			fmt.Fprint(&b, policy, limit)
			for _, e := range eps.All() {
				b.WriteString(e.addr)
			}
			emit(w, b.String())
		})
	return m
}

func (m *mesh) fill(services, perService, views int) *mesh {
	for i := range services {
		name := fmt.Sprint("s", i)
		m.services.Set(name, "p")
		for e := range perService {
			m.endpoints.Set(fmt.Sprint(name, "-", e), endpoint{name, fmt.Sprint("10.0.0.", e)})
		}
		for v := range views {
			m.wanted.Set(want{fmt.Sprint("v", v), name}, true)
		}
	}
	return m
}

// One endpoint changes; ten views want its service. The cost must not depend on
// how many services there are.
func BenchmarkOneRow(b *testing.B) {
	for _, services := range []int{100, 1_000, 10_000} {
		b.Run(fmt.Sprint("rows=", services*10), func(b *testing.B) {
			m := newMesh(Options{}).fill(services, 5, 10)
			m.Settle()
			b.ReportAllocs()
			recomputed, i := 0, 0
			for b.Loop() {
				i++
				m.endpoints.Set("s7-3", endpoint{"s7", fmt.Sprint("10.9.9.", i)})
				recomputed += m.Settle().Recomputed
			}
			b.ReportMetric(float64(recomputed)/float64(i), "rows/turn")
		})
	}
}

// One row goes through forty tables.
func BenchmarkFortyTables(b *testing.B) {
	for _, rows := range []int{1_000, 10_000} {
		b.Run(fmt.Sprint("rows=", rows), func(b *testing.B) {
			s := New(Options{})
			in := NewInput(s, "in", cmp.Compare[int], same[int])
			last := in.Table
			for i := range 40 {
				above := last
				last = Derive(in.Table, fmt.Sprint("t", i), cmp.Compare[int], same[int], func(r *Reader, k, v int, emit func(int, int)) {
					w, _ := Get(r, above, k)
					emit(k, v+w)
				})
			}
			for k := range rows {
				in.Set(k, k)
			}
			s.Settle()
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				i++
				in.Set(7, i)
				s.Settle()
			}
		})
	}
}

// The first turn of 100,000 derived rows, and one row that all of them read.
func BenchmarkFirstTurn(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		m := newMesh(Options{}).fill(10_000, 5, 10)
		b.StartTimer()
		m.Settle()
	}
}

func BenchmarkHotRow(b *testing.B) {
	m := newMesh(Options{}).fill(10_000, 1, 10)
	m.Settle()
	b.Run("change", func(b *testing.B) {
		i := 0
		for b.Loop() {
			i++
			m.defaults.Set("limit", i)
			m.Settle()
		}
	})
	b.Run("detach one reader of 100000", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			m.wanted.Delete(want{"v3", "s77"})
			m.Settle()
			m.wanted.Set(want{"v3", "s77"}, true)
			m.Settle()
		}
	})
}

// A group of 100,000 rows loses and gains a member.
func BenchmarkLargeGroup(b *testing.B) {
	s := New(Options{})
	in := NewInput(s, "in", cmp.Compare[int], same[int])
	Group(in.Table, "all", cmp.Compare[int], func(int, int) []int { return []int{0} })
	for k := range 100_000 {
		in.Set(k, k)
	}
	s.Settle()
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		i++
		in.Set(i%100_000, -i)
		s.Settle()
	}
}

// One of 100,000 rows stops naming a key that all of them name, and names it again.
func BenchmarkLargeKey(b *testing.B) {
	s := New(Options{})
	in := NewInput(s, "in", cmp.Compare[int], same[int])
	Keys(in.Table, "named", cmp.Compare[int], func(_, v int) []int {
		if v < 0 {
			return nil
		}
		return []int{0}
	})
	for k := range 100_000 {
		in.Set(k, k)
	}
	s.Settle()
	b.ReportAllocs()
	for b.Loop() {
		in.Set(7, -1)
		s.Settle()
		in.Set(7, 1)
		s.Settle()
	}
}

// heap is how much memory is live.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// edgeGraph is rows of one table that each read perRow rows of another.
func edgeGraph(rows, perRow int, read bool) *Store {
	s := New(Options{})
	values := NewInput(s, "values", cmp.Compare[int], same[int])
	keys := NewInput(s, "keys", cmp.Compare[int], same[int])
	Derive(keys.Table, "sums", cmp.Compare[int], same[int], func(r *Reader, k, v int, emit func(int, int)) {
		sum := v
		for i := range perRow {
			if read {
				got, _ := Get(r, values.Table, (k*7+i*13)%rows)
				sum += got
			}
		}
		emit(k, sum)
	})
	for k := range rows {
		values.Set(k, 1)
		keys.Set(k, 1)
	}
	s.Settle()
	s.Forget()
	return s
}

// Recorded reads cost at most 100 bytes each, at a million of them.
func TestEdgesAreSmall(t *testing.T) {
	const rows, perRow = 50_000, 20
	bare := func() uint64 {
		empty := heap()
		without := edgeGraph(rows, perRow, false)
		defer runtime.KeepAlive(without)
		return heap() - empty
	}()
	empty := heap()
	with := edgeGraph(rows, perRow, true)
	full := heap() - empty
	edges := with.Tables()[2].Edges - rows // the source rows are read either way
	each := float64(full-bare) / float64(edges)
	t.Logf("%d reads, %.1f bytes each; %.0f bytes a row without them", edges, each, float64(bare)/(3*rows))
	if each > 60 {
		t.Errorf("a recorded read takes %.1f bytes", each)
	}
	runtime.KeepAlive(with)
}
