package table

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"pgregory.net/rapid"
)

// This file holds a random graph of tables in two forms: as tables of this package, and as a plain evaluation of every row from scratch
// that shares no code with it. Keys and values are small integers, so that rows collide.

const (
	modelKeys   = 6
	modelValues = 8
	modelNamed  = 3 // the value of a row of keys
)

// plan is a table of the random graph.
type plan struct {
	kind  Kind
	from  int // index of the source table
	with  int // of a join: index of the other one; of keys: of the table whose rows make them wanted, 0: they always are
	emits int // which rows a derivation emits
	part  int // which rows a derivation computes from; see where
	reads []planRead
	trap  bool // panics while the trigger of its key is set
}

// planRead is one read of a derivation: of a table above, at a key that depends
// on the row.
type planRead struct {
	table  int
	byVal  bool
	shift  int
	has    bool
	onlyIf int // read only if the value so far is divisible by it
}

// world is the view of a derivation of the random graph, in either form.
type world struct {
	get  func(table, k int) (int, bool)
	has  func(table, k int) bool
	note func(n any)
	emit func(k, v int)
}

// run is the derivation that a plan describes. Table 0 holds the triggers.
func (p plan) run(w world, k, v int) {
	sum := v
	if p.trap {
		if on, _ := w.get(0, k%modelKeys); on > modelValues/2 {
			w.note("about to panic")
			w.emit(k, -1)
			panic(fmt.Sprint("trap ", k))
		}
	}
	for _, rd := range p.reads {
		if rd.onlyIf > 0 && sum%rd.onlyIf != 0 {
			continue
		}
		at := k
		if rd.byVal {
			at = v
		}
		at = (at + rd.shift) % modelKeys
		if rd.has {
			if w.has(rd.table, at) {
				sum += 3
			}
		} else if got, ok := w.get(rd.table, at); ok {
			sum += got + 1
		}
	}
	sum %= 1 << 20
	if sum%5 == 0 {
		w.note(fmt.Sprint("note ", sum))
	}
	switch p.emits {
	case 0:
		w.emit(k, sum)
	case 1: // keys collide
		w.emit(sum%modelKeys, k)
	case 2: // equal values stop
		w.emit(k, sum%2)
	case 3: // two rows, also of the same key
		w.emit(k, sum)
		w.emit((k+sum)%modelKeys, sum+1)
	case 4: // sometimes nothing
		if sum%3 != 0 {
			w.emit(v%modelKeys, sum%7)
		}
	}
}

// where is which rows a derivation computes from.
func (p plan) where(v int) bool { return p.part == 0 || v%(p.part+1) != 1 }

// drawPlans draws a graph: the triggers, some inputs, and tables above them.
func drawPlans(t *rapid.T, traps bool) []plan {
	inputs := rapid.IntRange(2, 3).Draw(t, "inputs")
	plans := make([]plan, inputs, inputs+8)
	for i := range plans {
		plans[i] = plan{kind: KindInput}
	}
	for range rapid.IntRange(1, 7).Draw(t, "tables") {
		plans = append(plans, drawPlan(t, len(plans), traps))
	}
	return plans
}

func drawPlan(t *rapid.T, above int, traps bool) plan {
	p := plan{kind: KindDerived, from: rapid.IntRange(1, above-1).Draw(t, "from")}
	switch rapid.IntRange(0, 6).Draw(t, "kind") {
	case 6:
		p.kind = KindNotes
	case 5:
		p.kind = KindKeys
		p.with = rapid.IntRange(0, above-1).Draw(t, "with") // 0: always
	case 0:
		p.kind = KindGroup
	case 1:
		p.kind = KindJoin
		p.with = rapid.IntRange(1, above-1).Draw(t, "with")
	case 2:
		p.kind = KindUnion
		p.with = rapid.IntRange(1, above-1).Draw(t, "with")
	}
	p.emits = rapid.IntRange(0, 4).Draw(t, "emits")
	for range rapid.IntRange(0, 3).Draw(t, "reads") {
		p.reads = append(p.reads, planRead{
			table:  rapid.IntRange(0, above-1).Draw(t, "table"),
			byVal:  rapid.Bool().Draw(t, "byVal"),
			shift:  rapid.IntRange(0, 2).Draw(t, "shift"),
			has:    rapid.IntRange(0, 2).Draw(t, "has") == 0,
			onlyIf: rapid.IntRange(0, 2).Draw(t, "onlyIf"),
		})
	}
	p.part = rapid.IntRange(0, 2).Draw(t, "part")
	p.trap = traps && rapid.IntRange(0, 2).Draw(t, "trap") == 0
	return p
}

// groupsOf is the group function: none, one, or two groups, with repeats.
func groupsOf(k, v int) []int {
	switch v % 4 {
	case 0:
		return nil
	case 1:
		return []int{k % 3}
	}
	return []int{v % 3, k % 3}
}

// rightTerms returns the terms of the right side of a join; the terms of its left side are its groups.
func rightTerms(k, v int) []int { return groupsOf(v, k) }

// pairKey and pairValue compute the key and value that a derivation of the random graph emits for a pair. Keys collide.
func pairKey(left, right int) int   { return (left + 2*right) % modelKeys }
func pairValue(left, right int) int { return (left*7 + right*13) % (1 << 20) }

// unionKey, unionKeyOf and unionValue make the second part of a union: its rows have other keys and other values. unionLost makes the note
// for a value that is not taken.
func unionKey(k int) int           { return (k + 1) % modelKeys }
func unionKeyOf(k int) (int, bool) { return (k + modelKeys - 1) % modelKeys, k < modelKeys }
func unionValue(k, v int) int      { return v + k + 1 }
func unionLost(k, winner, loser int) any {
	if winner == loser {
		return nil
	}
	return fmt.Sprint(k, ": ", winner, " and not ", loser)
}

// notedKey is the row of a table of notes that a note makes; 0: none. Notes collide.
func notedKey(note string) (sum int) {
	for _, b := range []byte(note) {
		sum += int(b)
	}
	return sum % modelKeys
}

// digest returns a number for a group that depends on each member and their order (the factor is a prime, so that unequal groups do not
// look equal).
func digest(members func(yield func(k, v int) bool)) int {
	sum := 1
	for k, v := range members {
		sum = (sum*1000003 + (k+1)*7919 + v*104729) % (1<<31 - 1)
	}
	return sum
}

// live is the graph in tables of this package.
type live struct {
	s      *Store
	plans  []plan
	inputs []*Input[int, int]
	ints   []*Table[int, int]            // nil if the table is a group or one of keys
	groups []*Table[int, Rows[int, int]] // nil if it is no group
	keys   []*Table[int, struct{}]       // nil if it is none of keys or notes
}

func newLive(plans []plan, workers int) *live {
	l := &live{s: New(Options{Workers: workers}), plans: plans}
	if workers > 1 {
		l.s.parallel = 1
	}
	for i, p := range plans {
		l.declare(fmt.Sprintf("t%d", i), p)
	}
	return l
}

func (l *live) declare(name string, p plan) {
	var ints *Table[int, int]
	var groups *Table[int, Rows[int, int]]
	var keys *Table[int, struct{}]
	switch {
	case p.kind == KindInput:
		in := NewInput(l.s, name, cmp.Compare[int], func(a, b int) bool { return a == b })
		l.inputs = append(l.inputs, in)
		ints = in.Table
	case p.kind == KindNotes:
		keys = Noted(l.s, name, cmp.Compare[int], func(_ string, note any) (int, bool) {
			text, ok := note.(string)
			return notedKey(text), ok && notedKey(text) > 0
		})
	case p.kind == KindKeys:
		from := l.numbers(p.from, name+" digests")
		if p.with > 0 {
			keys = KeysWhile(l.numbers(p.with, name+" wanted"), from, name, cmp.Compare[int], groupsOf)
		} else {
			keys = Keys(from, name, cmp.Compare[int], groupsOf)
		}
	case p.kind == KindGroup:
		groups = Group(l.numbers(p.from, name+" digests"), name, cmp.Compare[int], groupsOf)
	case p.kind == KindJoin:
		pairs := Join(l.numbers(p.from, name+" left"), groupsOf, l.numbers(p.with, name+" right"), rightTerms, name+" pairs")
		where := func(k Pair[int, int], v Both[int, int]) bool { return p.where(pairValue(v.Left, v.Right)) }
		ints = DeriveWhere(pairs, where, name, cmp.Compare[int], func(a, b int) bool { return a == b },
			func(r *Reader, k Pair[int, int], v Both[int, int], emit func(int, int)) {
				p.run(l.world(r, emit), pairKey(k.Left, k.Right), pairValue(v.Left, v.Right))
			})
	case p.kind == KindUnion:
		ints = Union(name, cmp.Compare[int], Same[int], unionLost,
			Whole(l.numbers(p.from, name+" left")), Keyed(l.numbers(p.with, name+" right"), unionKey, unionKeyOf, unionValue))
	case l.ints[p.from] != nil:
		where := func(_, v int) bool { return p.where(v) }
		ints = DeriveWhere(l.ints[p.from], where, name, cmp.Compare[int], func(a, b int) bool { return a == b },
			func(r *Reader, k, v int, emit func(int, int)) { p.run(l.world(r, emit), k, v) })
	case l.keys[p.from] != nil:
		where := func(int, struct{}) bool { return p.where(modelNamed) }
		ints = DeriveWhere(l.keys[p.from], where, name, cmp.Compare[int], func(a, b int) bool { return a == b },
			func(r *Reader, k int, _ struct{}, emit func(int, int)) { p.run(l.world(r, emit), k, modelNamed) })
	default:
		where := func(_ int, v Rows[int, int]) bool { return p.where(digest(v.All())) }
		ints = DeriveWhere(l.groups[p.from], where, name, cmp.Compare[int], func(a, b int) bool { return a == b },
			func(r *Reader, k int, v Rows[int, int], emit func(int, int)) {
				p.run(l.world(r, emit), k, digest(v.All()))
			})
	}
	l.ints, l.groups, l.keys = append(l.ints, ints), append(l.groups, groups), append(l.keys, keys)
}

// numbers returns a table of numbers: for a group, a table of its digests, and for keys, a table with a number for each key. It declares
// the latter two.
func (l *live) numbers(from int, name string) *Table[int, int] {
	if l.ints[from] != nil {
		return l.ints[from]
	}
	if l.keys[from] != nil {
		return Derive(l.keys[from], name, cmp.Compare[int], Same[int],
			func(_ *Reader, k int, _ struct{}, emit func(int, int)) { emit(k, modelNamed) })
	}
	return Derive(l.groups[from], name, cmp.Compare[int], func(a, b int) bool { return a == b },
		func(_ *Reader, k int, v Rows[int, int], emit func(int, int)) { emit(k, digest(v.All())) })
}

func (l *live) world(r *Reader, emit func(int, int)) world {
	return world{
		get: func(table, k int) (int, bool) {
			if t := l.ints[table]; t != nil {
				return Get(r, t, k)
			}
			if t := l.keys[table]; t != nil {
				_, ok := Get(r, t, k)
				return modelNamed, ok
			}
			rows, ok := Get(r, l.groups[table], k)
			return digest(rows.All()), ok
		},
		has: func(table, k int) bool {
			if t := l.ints[table]; t != nil {
				return Has(r, t, k)
			}
			if t := l.keys[table]; t != nil {
				return Has(r, t, k)
			}
			return Has(r, l.groups[table], k)
		},
		note: r.Note,
		emit: emit,
	}
}

// oracle is the graph evaluated from scratch, with plain maps.
type oracle struct {
	plans  []plan
	values []map[int]int
	notes  []string
	said   []string       // the notes that are no contests, without their rows
	reads  map[string]int // "reader table/key -> table/key" → 1 existence, 2 value
}

func evaluate(plans []plan, inputs []map[int]int) *oracle {
	o := &oracle{plans: plans, reads: map[string]int{}}
	for i, p := range plans {
		switch p.kind {
		case KindInput:
			o.values = append(o.values, inputs[i])
		case KindGroup:
			o.values = append(o.values, o.group(i, p))
		case KindKeys:
			o.values = append(o.values, o.named(i, p))
		case KindNotes:
			noted := map[int]int{}
			for _, n := range o.said {
				if notedKey(n) > 0 {
					noted[notedKey(n)] = modelNamed
				}
			}
			o.values = append(o.values, noted)
		case KindUnion:
			o.values = append(o.values, o.unite(i, p))
		default:
			o.values = append(o.values, o.derive(i, p))
		}
	}
	return o
}

func (o *oracle) group(i int, p plan) map[int]int {
	members := map[int]map[int]int{}
	for k, v := range o.numbers(p.from, fmt.Sprintf("t%d digests", i)) {
		for _, g := range groupsOf(k, v) {
			if members[g] == nil {
				members[g] = map[int]int{}
			}
			members[g][k] = v
		}
	}
	digests := map[int]int{}
	for g, m := range members {
		digests[g] = digest(func(yield func(k, v int) bool) {
			for _, k := range slices.Sorted(maps.Keys(m)) {
				if !yield(k, m[k]) {
					return
				}
			}
		})
	}
	return digests
}

// named has a row for each key that some row names.
func (o *oracle) named(i int, p plan) map[int]int {
	out := map[int]int{}
	from := o.numbers(p.from, fmt.Sprintf("t%d digests", i))
	if p.with > 0 && len(o.numbers(p.with, fmt.Sprintf("t%d wanted", i))) == 0 {
		return out
	}
	for k, v := range from {
		for _, g := range groupsOf(k, v) {
			out[g] = modelNamed
		}
	}
	return out
}

// unite takes the rows of one table, and the rows of the other table with free keys.
func (o *oracle) unite(i int, p plan) map[int]int {
	name := fmt.Sprintf("t%d", i)
	out := maps.Clone(o.numbers(p.from, name+" left"))
	right := o.numbers(p.with, name+" right")
	lost := map[int]string{}
	for k, v := range right {
		at := unionKey(k)
		if winner, taken := out[at]; !taken {
			out[at] = unionValue(k, v)
		} else if n := unionLost(at, winner, unionValue(k, v)); n != nil {
			lost[at] = n.(string)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(lost)) {
		o.notes = append(o.notes, fmt.Sprintf("%s %d %s", name, k, lost[k]))
		o.said = append(o.said, lost[k])
	}
	return out
}

// numbers returns the rows of a table of numbers; for a group or keys, the rows of the table that numbers makes of it.
func (o *oracle) numbers(from int, digests string) map[int]int {
	if kind := o.plans[from].kind; kind == KindGroup || kind == KindKeys || kind == KindNotes {
		for k := range o.values[from] {
			o.read(digests, fmt.Sprint(k), from, k, 2)
		}
	}
	return o.values[from]
}

func (o *oracle) read(reader, key string, table, k, kind int) {
	at := fmt.Sprintf("%s/%s -> t%d/%d", reader, key, table, k)
	o.reads[at] = max(o.reads[at], kind)
}

// runOf is the input of one run of a derivation: a row, or a pair of rows. reader is its name as
// a reader, shown its form in notes.
type runOf struct {
	reader, shown string
	key, val      int
}

// sources lists the inputs of a derivation, in order: rows, or pairs of rows that have a term in common.
func (o *oracle) sources(i int, p plan) (list []runOf) {
	name := fmt.Sprintf("t%d", i)
	if p.kind == KindDerived {
		for _, k := range slices.Sorted(maps.Keys(o.values[p.from])) {
			if !p.where(o.values[p.from][k]) {
				continue
			}
			o.read(name, fmt.Sprint(k), p.from, k, 2)
			list = append(list, runOf{fmt.Sprint(k), fmt.Sprint(k), k, o.values[p.from][k]})
		}
		return list
	}
	left, right := o.numbers(p.from, name+" left"), o.numbers(p.with, name+" right")
	for _, l := range slices.Sorted(maps.Keys(left)) {
		for _, r := range slices.Sorted(maps.Keys(right)) {
			if !slices.ContainsFunc(groupsOf(l, left[l]), func(term int) bool { return slices.Contains(rightTerms(r, right[r]), term) }) {
				continue
			}
			if !p.where(pairValue(left[l], right[r])) {
				continue
			}
			pair, shown := fmt.Sprint(Pair[int, int]{l, r}), fmt.Sprintf("%d %d", l, r)
			o.reads[fmt.Sprintf("%s/%s -> %s pairs/%s", name, pair, name, shown)] = 2
			list = append(list, runOf{pair, shown, pairKey(l, r), pairValue(left[l], right[r])})
		}
	}
	return list
}

func (o *oracle) derive(i int, p plan) map[int]int {
	out := map[int]int{}
	owner := map[int]string{} // the printed source of each row
	name := fmt.Sprintf("t%d", i)
	for _, from := range o.sources(i, p) {
		var own, lost []string
		seen, twice := map[int]bool{}, map[int]bool{}
		w := world{
			get: func(table, at int) (int, bool) {
				o.read(name, from.reader, table, at, 2)
				v, ok := o.values[table][at]
				if !ok && o.plans[table].kind == KindGroup {
					v = 1 // the digest of no members
				}
				return v, ok
			},
			has: func(table, at int) bool {
				o.read(name, from.reader, table, at, 1)
				_, ok := o.values[table][at]
				return ok
			},
			note: func(n any) { own = append(own, fmt.Sprint(n)) },
			emit: func(at, v int) {
				if seen[at] {
					if !twice[at] {
						lost = append(lost, conflictText(name, at, from.shown, from.shown))
					}
					twice[at] = true
					return
				}
				seen[at] = true
				if _, taken := owner[at]; taken {
					return
				}
				owner[at], out[at] = from.shown, v
			},
		}
		p.run(w, from.key, from.val)
		for _, at := range slices.Sorted(maps.Keys(seen)) {
			if owner[at] != from.shown {
				lost = append(lost, conflictText(name, at, owner[at], from.shown))
			}
		}
		o.said = append(o.said, own...)
		for _, n := range append(own, lost...) {
			o.notes = append(o.notes, fmt.Sprintf("%s %s %s", name, from.shown, n))
		}
	}
	return out
}

func conflictText(table string, key int, winner, loser string) string {
	return (&ConflictError{Table: table, Key: fmt.Sprint(key), Winner: winner, Loser: loser}).Error()
}

// state is all that must agree, as lines that read well in a failure.
type state struct{ rows, notes, reads, absent string }

func (o *oracle) state() state {
	var rows, absent []string
	for i, m := range o.values {
		for _, k := range slices.Sorted(maps.Keys(m)) {
			rows = append(rows, fmt.Sprintf("t%d %d = %d", i, k, m[k]))
		}
	}
	ghosts := map[string]bool{}
	for edge := range o.reads {
		target := edge[strings.LastIndex(edge, "-> ")+3:]
		var table, k int
		if strings.Contains(target, " pairs/") {
			continue // a pair counts as read only through the rows derived from it
		}
		if _, err := fmt.Sscanf(target, "t%d/%d", &table, &k); err != nil {
			panic(err)
		}
		if _, has := o.values[table][k]; !has {
			ghosts[target] = true
		}
	}
	absent = slices.Sorted(maps.Keys(ghosts))
	var reads []string
	for edge, kind := range o.reads {
		reads = append(reads, fmt.Sprint(edge, " ", kind))
	}
	slices.Sort(reads)
	return state{join(rows), join(o.notes), join(reads), join(absent)}
}

func join(lines []string) string { return strings.Join(lines, "\n") }
