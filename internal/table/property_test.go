package table

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"fairway/internal/table/cells"
)

// Law 10: after any history the rows, the notes, the recorded reads and the
// absent keys kept for them are those of an evaluation from scratch.
func TestLaw10IncrementalIsFromScratch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		plans := drawPlans(t, false)
		l := newLive(plans, rapid.IntRange(1, 3).Draw(t, "workers"))
		inputs := emptyInputs(l)
		for range rapid.IntRange(1, 8).Draw(t, "turns") {
			before := l.values()
			stageSome(t, l, inputs)
			l.s.Settle()
			l.agree(t, inputs)
			l.changesAre(t, before)
		}
	})
}

// The same with derivations that panic: while they do, the bookkeeping stays
// sound; once they stop, nothing is left of it.
func TestLaw10WithPanics(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := newLive(drawPlans(t, true), rapid.IntRange(1, 3).Draw(t, "workers"))
		inputs := emptyInputs(l)
		for range rapid.IntRange(1, 6).Draw(t, "turns") {
			stageSome(t, l, inputs)
			l.s.Settle()
			l.sound(t)
		}
		for k := range inputs[0] {
			l.inputs[0].Delete(k)
		}
		clear(inputs[0])
		l.s.Settle()
		l.agree(t, inputs)
	})
}

func emptyInputs(l *live) []map[int]int {
	inputs := make([]map[int]int, len(l.inputs))
	for i := range inputs {
		inputs[i] = map[int]int{}
	}
	return inputs
}

// stageSome stages random changes, and makes them in inputs too.
func stageSome(t *rapid.T, l *live, inputs []map[int]int) {
	for range rapid.IntRange(1, 6).Draw(t, "changes") {
		i := rapid.IntRange(0, len(inputs)-1).Draw(t, "input")
		k := rapid.IntRange(0, modelKeys-1).Draw(t, "key")
		if rapid.IntRange(0, 3).Draw(t, "delete") == 0 {
			l.inputs[i].Delete(k)
			delete(inputs[i], k)
			continue
		}
		v := rapid.IntRange(0, modelValues-1).Draw(t, "value")
		l.inputs[i].Set(k, v)
		inputs[i][k] = v
	}
}

// agree fails unless the tables equal the oracle's results for the inputs.
func (l *live) agree(t *rapid.T, inputs []map[int]int) {
	l.sound(t)
	want, got := evaluate(l.plans, inputs).state(), l.state()
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(state{})); diff != "" {
		t.Fatalf("from scratch (-) and incremental (+) differ:\n%s", diff)
	}
}

// values returns the rows of every table, in print.
func (l *live) values() map[string]map[string]string {
	rows := map[string]map[string]string{}
	for i := range l.plans {
		name, m := fmt.Sprintf("t%d", i), map[string]string{}
		switch {
		case l.ints[i] != nil:
			for c := range l.ints[i].core.Cells.All {
				m[fmt.Sprint(cells.KeyOf[int](c))] = fmt.Sprint(cells.ValueOf[int, int](c))
			}
		case l.keys[i] != nil:
			for c := range l.keys[i].core.Cells.All {
				m[fmt.Sprint(cells.KeyOf[int](c))] = fmt.Sprint(modelNamed)
			}
		default:
			for c := range l.groups[i].core.Cells.All {
				m[fmt.Sprint(cells.KeyOf[int](c))] = fmt.Sprint(digest(cells.ValueOf[int, Rows[int, int]](c).All()))
			}
		}
		rows[name] = m
	}
	return rows
}

// changesAre fails unless Changes tells exactly how the rows differ from before.
func (l *live) changesAre(t *rapid.T, before map[string]map[string]string) {
	for i, in := range l.ints {
		name := fmt.Sprintf("t%d", i)
		var told []string
		switch {
		case in != nil:
			for c := range Changes(in) {
				told = append(told, tell(c.Key, c.Old, c.Had, c.New, c.Has))
			}
		case l.keys[i] != nil:
			for c := range Changes(l.keys[i]) {
				told = append(told, tell(c.Key, modelNamed, c.Had, modelNamed, c.Has))
			}
		default:
			for c := range Changes(l.groups[i]) {
				told = append(told, tell(c.Key, digest(c.Old.All()), c.Had, digest(c.New.All()), c.Has))
			}
		}
		if diff := cmp.Diff(changesBetween(before[name], l.values()[name]), told); diff != "" {
			t.Fatalf("changes of %s:\n%s", name, diff)
		}
	}
}

func tell(k, before int, had bool, after int, has bool) string {
	s := fmt.Sprint(k, ":")
	if had {
		s += fmt.Sprint(" was ", before)
	}
	if has {
		s += fmt.Sprint(" is ", after)
	}
	return s
}

func changesBetween(before, after map[string]string) (told []string) {
	keys := maps.Clone(before)
	maps.Copy(keys, after)
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		old, had := before[k]
		now, has := after[k]
		if had == has && old == now {
			continue
		}
		s := k + " :"
		if had {
			s += " was " + old
		}
		if has {
			s += " is " + now
		}
		told = append(told, strings.Replace(s, " :", ":", 1))
	}
	return told
}

// rowLines are the rows that the live graph holds, in the oracle's words.
func (l *live) rowLines() (rows []string) {
	values := l.values()
	for i := range l.plans {
		name := fmt.Sprintf("t%d", i)
		for _, k := range slices.Sorted(maps.Keys(values[name])) {
			rows = append(rows, fmt.Sprintf("%s %s = %s", name, k, values[name][k]))
		}
	}
	return rows
}

// state describes the live graph in the oracle's words.
func (l *live) state() state {
	var st state
	st.rows = join(l.rowLines())
	var notes []string
	l.s.Read(func(tx *Tx) {
		for n := range l.s.Notes(tx) {
			notes = append(notes, fmt.Sprintf("%s %s %v", n.Table, n.Key, n.Value))
		}
	})
	st.notes = join(notes)
	var reads, absent []string
	for _, n := range l.s.nodes {
		n.meta().Visit(func(c *cells.Cell, key string, _ any) {
			at := n.meta().Name + "/" + key
			if !c.Has {
				absent = append(absent, at)
			}
			for _, e := range c.Readers {
				kind := 2
				if e.At&cells.OnlyHas != 0 {
					kind = 1
				}
				reads = append(reads, fmt.Sprintf("%s -> %s %d", readerName(e.Reader), at, kind))
			}
		})
	}
	slices.Sort(reads)
	slices.Sort(absent)
	st.reads, st.absent = join(reads), join(absent)
	return st
}

// readerName names a maker by its table and source key.
func readerName(m *cells.Maker) string {
	return fmt.Sprint(m.Queue.Of.Name, "/", m.From.Table.Keys.Show(m.From))
}

// sound fails unless the two ends of each recorded read know each other, absent
// cells have readers, and nothing is queued or disputed without cause.
func (l *live) sound(t *rapid.T) {
	for _, n := range l.s.nodes {
		n.meta().Visit(func(c *cells.Cell, key string, _ any) {
			if !c.Has && len(c.Readers) == 0 {
				t.Fatalf("%s %s is absent and has no reader, but it is kept", n.meta().Name, key)
			}
			if c.Marked {
				t.Fatalf("%s %s is left marked", n.meta().Name, key)
			}
			for i, e := range c.Readers {
				d := e.Reader.Deps[e.At&^cells.OnlyHas]
				if d.Cell != c || d.At&^cells.OnlyHas != uint32(i) || d.At&cells.OnlyHas != e.At&cells.OnlyHas {
					t.Fatalf("%s %s: the ends of read %d by %s do not meet", n.meta().Name, key, i, readerName(e.Reader))
				}
				if e.Reader.Queued {
					t.Fatalf("%s is left queued", readerName(e.Reader))
				}
			}
			if (c.Owner != nil) != (c.Has && n.meta().kind == KindDerived) {
				t.Fatalf("%s %s: has %v, owner %v", n.meta().Name, key, c.Has, c.Owner)
			}
		})
	}
	l.edgesAddUp(t)
	for _, n := range l.s.nodes {
		switch n := n.(type) {
		case *derived:
			if err := n.contested(); err != nil {
				t.Fatal(err)
			}
		case *keys:
			if err := n.addsUp(); err != nil {
				t.Fatal(err)
			}
		case *distinct:
			if err := n.addsUp(l.s); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// contested fails unless all claimants of each contest emit its key, and the first of them owns it.
func (d *derived) contested() error {
	for c := range d.Cells.All {
		if ct := d.contests[c]; (ct != nil) != c.Contested {
			return fmt.Errorf("%s %s: disputed is %v", d.Name, d.Text(c), c.Contested)
		}
	}
	for c, ct := range d.contests {
		if len(ct.claims) < 2 || ct.listed || c.Owner != ct.claims[0].maker {
			return fmt.Errorf("%s %s: contest %+v", d.Name, d.Text(c), ct)
		}
		for _, cl := range ct.claims {
			if !slices.Contains(cl.maker.Outs, c) {
				return fmt.Errorf("%s %s: a claimant does not emit it", d.Name, d.Text(c))
			}
		}
	}
	return nil
}

// counted fails unless each key is counted as often as the rows of the source name it.
func (t *keys) addsUp() error {
	named := map[*cells.Cell]uint32{}
	var list []*cells.Cell
	for c := range t.names.Source.Cells.All {
		list, _ = t.names.Of(c, c.Val(), false, list)
		for _, k := range list {
			named[k]++
		}
	}
	for c := range t.Cells.All {
		if c.Named != named[c] || !c.Has {
			return fmt.Errorf("%s %s: counted %d times, named %d times", t.Name, t.Text(c), c.Named, named[c])
		}
	}
	return nil
}

// addsUp fails unless each note is counted once for each row above that has it.
func (t *distinct) addsUp(s *Store) error {
	named := map[*cells.Cell]uint32{}
	for _, n := range s.nodes[:t.Height] {
		remarks := map[any][]any{}
		switch n := n.(type) {
		case *derived:
			for m, notes := range n.remarks {
				remarks[m] = notes
			}
		case *union:
			for c, notes := range n.remarks {
				remarks[c] = notes
			}
		}
		for _, notes := range remarks {
			for _, c := range t.cellsOf(n.meta().Name, notes, false, nil) {
				named[c]++
			}
		}
	}
	for c := range t.Cells.All {
		if c.Named != named[c] || !c.Has {
			return fmt.Errorf("%s %s: counted %d times, noted %d times", t.Name, t.Text(c), c.Named, named[c])
		}
	}
	return nil
}

// edgesAddUp fails unless the number of counted reads equals the number that cells know of.
func (l *live) edgesAddUp(t *rapid.T) {
	counted, known := 0, 0
	for _, n := range l.s.nodes {
		counted += n.meta().Edges
		n.meta().Visit(func(c *cells.Cell, _ string, _ any) { known += len(c.Readers) })
	}
	if counted != known {
		t.Fatalf("%d reads are counted, cells know of %d", counted, known)
	}
}
