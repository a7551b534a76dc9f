package door_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"fairway/internal/config"
	"fairway/internal/door"
	"fairway/internal/mesh"
	"fairway/internal/source"
	"fairway/internal/source/shards"
)

// world is the state of all objects: lines of scripts by key.
type world map[string]string

// The names of a small world, few enough that they often meet.
var (
	slots  = []string{"VS v0", "VS v1", "VS v2", "DR d0", "DR d1", "DR d2", "SE s0", "SE s1", "SE s2", "GW g0", "GW g1", "SV a.x", "SV b.x"}
	needs  = []string{"a.x", "b.x", "c", "a.x:v1", "a.x:v2", "b.x:v1", "c:v1", "c:v2", "@g0", "@g1", "@mesh", ">v2"}
	places = []string{"a.x", "b.x", "c", "*.x", "*"}
)

// line draws a version of an object.
func line(t *rapid.T, slot string) string {
	some := func(of []string, most int) string {
		return strings.Join(rapid.SliceOfNDistinct(rapid.SampledFrom(of), 1, most, rapid.ID).Draw(t, "words"), " ")
	}
	switch slot[:2] {
	case "VS":
		return slot + " " + some(needs, 3)
	case "DR":
		return slot + " " + rapid.SampledFrom(places).Draw(t, "host") + " " + some([]string{"v1", "v2"}, 2)
	case "SE":
		return slot + " " + some(places, 2)
	}
	return slot
}

// keyOf returns the key in next for a line.
func keyOf(line string) string {
	if strings.HasPrefix(line, "SV") {
		return line
	}
	return object(line).String()
}

func worldOf(t *rapid.T) world {
	w := world{}
	for _, slot := range slots {
		if rapid.Bool().Draw(t, "there") {
			l := line(t, slot)
			w[keyOf(l)] = l
		}
	}
	return w
}

// hanging lists the references of a world to names that no object in it gives, by a simple search.
func (w world) hanging() map[string][]string {
	out := map[string][]string{}
	for key, l := range w {
		f := strings.Fields(l)
		if f[0] != "VS" {
			continue
		}
		for _, need := range f[2:] {
			if !w.gives(need) {
				out[key] = append(out[key], need)
			}
		}
	}
	return out
}

func (w world) gives(need string) bool {
	switch need[0] {
	case '@':
		return need == "@mesh" || w["Gateway default/"+need[1:]] != ""
	case '>':
		return w["VirtualService default/"+need[1:]] != ""
	}
	host, subset, _ := strings.Cut(need, ":")
	there, hasSubset := false, subset == ""
	for _, l := range w {
		f := strings.Fields(l)
		switch f[0] {
		case "SV":
			there = there || f[1] == host
		case "SE":
			there = there || slices.ContainsFunc(f[2:], func(h string) bool { return covers(h, host) })
		case "DR":
			hasSubset = hasSubset || covers(f[2], host) && slices.Contains(f[3:], subset)
		}
	}
	return there && hasSubset
}

func covers(pattern, host string) bool { return full(pattern).Matches(full(host)) }

func full(host string) mesh.Host {
	if host == "c" {
		host = "c.default.svc.cluster.local"
	}
	return mesh.Host(host)
}

// settled removes rules with hanging references until none hangs.
func (w world) settled() world {
	for bad := w.hanging(); len(bad) > 0; bad = w.hanging() {
		for key := range bad {
			delete(w, key)
		}
	}
	return w
}

// step is one write of one object.
type step struct {
	line   string
	remove bool
}

// steps returns writes that lead from one world to another, in any order, with other edits in between.
func steps(t *rapid.T, from, to world) []step {
	var last, between []step
	for _, slot := range slots {
		key := keyOf(slot)
		if rapid.IntRange(0, 3).Draw(t, "detour") == 0 {
			between = append(between, step{line(t, slot), rapid.Bool().Draw(t, "remove")})
		} else if from[key] == to[key] {
			continue
		}
		if to[key] == "" {
			last = append(last, step{slot, true})
			continue
		}
		last = append(last, step{to[key], false})
	}
	return append(rapid.Permutation(between).Draw(t, "between"), rapid.Permutation(last).Draw(t, "last")...)
}

// batches draws a division of steps into batches; one batch holds a key once.
func batches(t *rapid.T, steps []step) []source.Batch {
	var out []source.Batch
	keys := map[string]bool{}
	for i, s := range steps {
		if key := keyOf(s.line); i == 0 || keys[key] || rapid.Bool().Draw(t, "new batch") {
			out = append(out, source.Batch{})
			keys = map[string]bool{}
		}
		keys[keyOf(s.line)] = true
		add(&out[len(out)-1], s)
	}
	return out
}

func add(b *source.Batch, s step) {
	switch isService := strings.HasPrefix(s.line, "SV"); {
	case isService && s.remove:
		b.Gone.Services = append(b.Gone.Services, service(s.line).Key)
	case isService:
		b.Set.Services = append(b.Set.Services, service(s.line))
	case s.remove:
		b.Gone.Objects = append(b.Gone.Objects, object(s.line).Key)
	default:
		b.Set.Objects = append(b.Set.Objects, object(s.line))
	}
}

func everything(w world) source.Batch {
	b := source.Batch{Synced: true}
	for _, key := range slices.Sorted(maps.Keys(w)) {
		add(&b, step{w[key], false})
	}
	return b
}

// A working world replaces another one in any order and in any batches: no reference ever hangs, and after the last change nothing waits.
func TestNoReferenceHangsOnTheWay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		from, to := worldOf(t).settled(), worldOf(t).settled()
		n := newNext()
		n.watch = func(n *next) {
			if bad := world(n.holds).hanging(); len(bad) > 0 {
				t.Fatalf("after %q hangs %v", n.last, bad)
			}
		}
		d := door.New(door.Options{Grace: time.Hour}, n)
		d.Apply(everything(from))
		for _, b := range batches(t, steps(t, from, to)) {
			d.Apply(b)
			if err := d.Check(); err != nil {
				t.Fatal(err)
			}
		}
		equal(t, to, n.holds)
		if w := waits(d); w != "" {
			t.Fatalf("still waits: %s", w)
		}
	})
}

func equal(t *rapid.T, want, got world) {
	if !maps.Equal(want, got) {
		t.Fatalf("want %v\ngot  %v\nhangs %v", want, got, got.hanging())
	}
}

// Two sources write anything, also what never works: after the grace all of it is handed on, and the first source wins if both have an
// object. When everything is deleted the door keeps nothing.
func TestAllIsHandedOnAfterTheGrace(t *testing.T) {
	// rapid asks a *testing.T for its deadline, which a bubble has not
	synctest.Test(t, func(t *testing.T) { rapid.Check(struct{ testing.TB }{t}, anyHistory) })
}

// grace is short because rapid counts the bubble's time as its own.
const grace = 10 * time.Microsecond

func anyHistory(t *rapid.T) {
	n := newNext()
	d := door.New(door.Options{Grace: grace}, n)
	set, sinks := shards.New(d, nil), map[string]source.Sink{}
	for _, name := range []string{"a", "b"} {
		sinks[name], _ = set.Join(name, 0)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer synctest.Wait()
	defer cancel()
	go func() { _ = d.Run(ctx) }()
	written := map[string]world{"a": {}, "b": {}}
	write := func(from string, s step) {
		key := keyOf(s.line)
		delete(written[from], key)
		if !s.remove {
			written[from][key] = s.line
		}
		var b source.Batch
		add(&b, s)
		sinks[from].Apply(source.Update{Shards: []source.Shard{{Rows: b.Set, Gone: b.Gone}}, Synced: true})
	}
	check := func() {
		if err := d.Check(); err != nil {
			t.Fatal(err)
		}
	}
	for range rapid.IntRange(0, 40).Draw(t, "writes") {
		from := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "source")
		write(from, step{line(t, rapid.SampledFrom(slots).Draw(t, "slot")), rapid.IntRange(0, 2).Draw(t, "remove") == 0})
		time.Sleep(time.Duration(rapid.IntRange(0, 3).Draw(t, "pause")) * time.Microsecond)
		synctest.Wait()
		check()
	}
	time.Sleep(grace)
	synctest.Wait()
	check()
	merged := maps.Clone(written["b"])
	maps.Copy(merged, written["a"])
	equal(t, merged, n.holds)
	duplicatesTold(t, written, n)
	for _, from := range []string{"a", "b"} {
		for _, key := range slices.Sorted(maps.Keys(written[from])) {
			write(from, step{written[from][key], true})
		}
	}
	time.Sleep(grace)
	synctest.Wait()
	if size := d.Size(); size != 0 || len(n.holds) > 0 {
		t.Fatalf("%d things kept, next holds %v", size, n.holds)
	}
}

// duplicatesTold checks that the second source gets exactly the duplicates that the first has too.
func duplicatesTold(t *rapid.T, written map[string]world, n *next) {
	for _, slot := range slots {
		key := keyOf(slot)
		both := written["a"][key] != "" && written["b"][key] != ""
		file := key
		if strings.HasPrefix(slot, "SV") {
			file = config.Key{Kind: "Service", Name: slot[3:]}.String()
		}
		if told := len(n.problems[source.Place{Source: "b", Name: file}]) == 1; told != both {
			t.Fatalf("%s: in both is %v, told is %v: %v", key, both, told, n.problems)
		}
	}
}

// Changes come from several goroutines at once, and next gets each source's in order.
func TestSeveralGoroutines(t *testing.T) {
	const each = 200
	n := newNext()
	d := door.New(door.Options{Grace: time.Hour}, n)
	var all sync.WaitGroup
	for g := range 4 {
		name := fmt.Sprintf("s%d", g)
		all.Go(func() {
			for i := range each {
				d.Apply(setting(object(fmt.Sprintf("SE %s h%d.x", name, i)), object(fmt.Sprintf("VS %s h%d.x", name, i))))
				_ = d.Waiting()
			}
		})
	}
	all.Wait()
	for g := range 4 {
		name := fmt.Sprintf("s%d", g)
		same(t, name, fmt.Sprintf("VS %s h%d.x", name, each-1), n.holds["VirtualService default/"+name])
	}
	same(t, "nothing waits", "", waits(d))
}
