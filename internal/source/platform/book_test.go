package platform_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"fairway/internal/mesh"
	"fairway/internal/source"
	"fairway/internal/source/budget"
	"fairway/internal/source/platform"
)

// item is an instance of the services that its text names: "a b" of version 1.
type item struct {
	id, services string
	port, odd    int // odd makes no difference for rows
}

func (i *item) Key() string { return i.id }

func (i *item) Services() (out []platform.ServiceName) {
	for name := range strings.FieldsSeq(i.services) {
		out = append(out, platform.ServiceName{Name: name})
	}
	return out
}

func (i *item) Bytes() int64 { return 100 }

func (i *item) Same(o *item) bool { return i.services == o.services && i.port == o.port }

type book = platform.Book[string, *item]

// bookOf returns an empty book that counts its listed records.
func bookOf(a *budget.Account, limits platform.Limits, keep time.Duration, listed *int) *book {
	b := &book{
		Registry: "Test/one", Rows: platform.NewTranslator("Test/one", platform.Naming{}, "{name}.test"), Limits: limits, Keep: keep,
		Place: "missing", Compare: cmp.Compare[string], Count: func(_ *item, n int) { *listed += n },
		Service: func(name platform.ServiceName, all []*item) (*platform.Service, []mesh.Problem) {
			out := &platform.Service{Name: name.Name}
			for _, i := range all {
				out.Instances = append(out.Instances, at(i.id, "10.0.0.1", uint32(i.port)))
			}
			return out, nil
		},
	}
	return b.Open(a)
}

// flush puts what a book says into what it said before: instances by service.
func flush(b *book, said map[string]string) map[string][]mesh.Problem {
	shards, problems := b.Flush()
	for _, s := range shards {
		text := shownInstances(s)
		if said[s.Key.Part] = text; text == "" {
			delete(said, s.Key.Part)
		}
	}
	return problems
}

func shownInstances(s source.Shard) string {
	var out []string
	for _, slice := range s.Rows.Slices {
		for _, e := range slice.Endpoints {
			out = append(out, fmt.Sprintf("%s %s", e.ID, e.Ports))
		}
	}
	return strings.Join(out, ", ")
}

// plain is what a Book is held against: it keeps everything in the simplest way, without bounds.
type plain struct {
	keep    time.Duration
	listed  map[string]item
	missing map[string]item
	since   map[string]time.Time
}

func (p *plain) put(i item) {
	delete(p.missing, i.id)
	p.listed[i.id] = i
}

func (p *plain) remove(id string) {
	delete(p.listed, id)
	delete(p.missing, id)
}

func (p *plain) replace(all []item, lost bool, now time.Time) {
	next := map[string]item{}
	for _, i := range all {
		next[i.id] = i
	}
	var gone []string
	for id := range p.listed {
		if _, is := next[id]; !is {
			gone = append(gone, id)
		}
	}
	if len(gone) > 1 && len(gone) > len(p.listed)/2 {
		lost = true
	}
	for _, id := range gone {
		if lost && p.keep > 0 {
			p.missing[id], p.since[id] = p.listed[id], now
		}
		delete(p.listed, id)
	}
	for _, i := range all {
		p.put(i)
	}
}

func (p *plain) expire(now time.Time) {
	maps.DeleteFunc(p.missing, func(id string, _ item) bool { return now.Sub(p.since[id]) >= p.keep })
}

// said returns the expected instances by service.
func (p *plain) said() map[string]string {
	by := map[string][]*item{}
	for _, all := range []map[string]item{p.listed, p.missing} {
		for _, i := range all {
			for _, name := range i.Services() {
				by[name.Name] = append(by[name.Name], &i)
			}
		}
	}
	out := map[string]string{}
	for name, all := range by {
		slices.SortFunc(all, func(a, b *item) int { return cmp.Compare(a.id, b.id) })
		service := &platform.Service{Name: name}
		for _, i := range all {
			service.Instances = append(service.Instances, at(i.id, "10.0.0.1", uint32(i.port)))
		}
		shard, _ := platform.NewTranslator("Test/one", platform.Naming{}, "{name}.test").Rows(service)
		out[shard.Key.Part] = shownInstances(shard)
	}
	return out
}

// cost returns the expected charge, without the bytes of ports, which the Book learns when it makes rows.
func (p *plain) cost() (out budget.Cost) {
	instances, ports := map[string]int{}, map[string]map[int]bool{}
	for _, all := range []map[string]item{p.listed, p.missing} {
		for _, i := range all {
			for _, name := range i.Services() {
				if instances[name.Name]++; ports[name.Name] == nil {
					ports[name.Name] = map[int]bool{}
				}
				ports[name.Name][i.port] = true
			}
		}
	}
	for name, n := range instances {
		out = out.And(platform.Cost(n, int64(n)*(&item{}).Bytes(), 0)).And(budget.Cost{Ports: len(ports[name]) - 1})
	}
	return out
}

func items(r *rapid.T, most int) (out []item) {
	for range rapid.IntRange(0, most).Draw(r, "items") {
		out = append(out, one(r))
	}
	return out
}

func one(r *rapid.T) item {
	return item{
		id:       rapid.SampledFrom([]string{"1", "2", "3", "4", "5", "6", "7", "8"}).Draw(r, "id"),
		services: rapid.SampledFrom([]string{"a", "b", "a b", "c a"}).Draw(r, "services"),
		port:     rapid.IntRange(80, 82).Draw(r, "port"), odd: rapid.IntRange(0, 1).Draw(r, "odd"),
	}
}

// TestBookIsPlain: after any calls a book has said what a plain map has, and charges what that costs.
func TestBookIsPlain(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		const keep = time.Minute
		now, listed, said := time.Unix(1e9, 0), 0, map[string]string{}
		account := platform.Limits{}.Account("Test/one")
		b := bookOf(account, platform.Limits{}, keep, &listed)
		p := &plain{keep, map[string]item{}, map[string]item{}, map[string]time.Time{}}
		for range rapid.IntRange(1, 40).Draw(r, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 40).Draw(r, "seconds")) * time.Second)
			switch rapid.IntRange(0, 5).Draw(r, "step") {
			case 0, 1:
				i := one(r)
				p.put(i)
				b.Put(&i)
			case 2:
				id := one(r).id
				p.remove(id)
				b.Remove(id)
			case 3, 4:
				all, lost, drop := items(r, 10), rapid.Bool().Draw(r, "lost"), rapid.Bool().Draw(r, "drop")
				l := b.List()
				for _, i := range all {
					l.Add(&i)
				}
				if drop {
					l.Drop()
					break
				}
				p.replace(all, lost, now)
				b.Replace(l, lost, now)
			case 5:
				if rapid.Bool().Draw(r, "flush") {
					flush(b, said)
				}
			}
			if wait := b.Wait(now); len(p.missing) > 0 && wait > keep || wait < 0 {
				r.Fatalf("%d are missing, and it waits %s", len(p.missing), wait)
			}
			p.expire(now)
			b.Expire(now)
		}
		problems := flush(b, said)
		if diff := gocmp.Diff(p.said(), said); diff != "" {
			r.Fatalf("-want +got:\n%s", diff)
		}
		if len(p.listed) != listed || len(p.missing) > 0 != (len(problems["missing"]) > 0) || b.Len() != len(said) {
			r.Fatalf("it lists %d, want %d; %d are missing, and it says %v; %d services, want %d",
				listed, len(p.listed), len(p.missing), problems["missing"], b.Len(), len(said))
		}
		if account.Used() != p.cost() || account.Left() != 0 {
			r.Fatalf("it charges %+v, want %+v; %d are left out", account.Used(), p.cost(), account.Left())
		}
	})
}

// TestMissingInstances: instances that may be lost stay for their time, those that come back meanwhile were never away, and the problem
// counts the others.
func TestMissingInstances(t *testing.T) {
	listed, said, now := 0, map[string]string{}, time.Unix(1e9, 0)
	b := bookOf(platform.Limits{}.Account("Test/one"), platform.Limits{}, time.Minute, &listed)
	i := func(id string) *item { return &item{id: id, services: id, port: 80} }
	list := func(lost bool, ids ...string) {
		l := b.List()
		for _, id := range ids {
			l.Add(i(id))
		}
		b.Replace(l, lost, now)
	}
	check := func(want, problem string) {
		t.Helper()
		b.Expire(now)
		problems := flush(b, said)["missing"]
		got := strings.Join(slices.Sorted(maps.Keys(said)), " ")
		if got != want || (problem == "") != (len(problems) == 0) || problem != "" && !strings.Contains(problems[0].Message, problem) {
			t.Errorf("there is %q, want %q; it says %v, want %q", got, want, problems, problem)
		}
	}
	list(false, "1", "2", "3", "4")
	check("/1 /2 /3 /4", "")
	list(false, "1", "2")
	check("/1 /2", "") // half of them left
	list(false, "1", "2", "3", "4")
	check("/1 /2 /3 /4", "")
	list(false, "4")
	check("/1 /2 /3 /4", "(3)")
	now = now.Add(30 * time.Second)
	b.Put(i("1"))
	check("/1 /2 /3 /4", "(2)")
	list(true, "1", "2")
	check("/1 /2 /3 /4", "(2)") // 3 since the first list, 4 since this one
	b.Remove("4")
	check("/1 /2 /3", "(1)")
	b.Put(i("4"))
	list(true, "1", "2")
	if wait := b.Wait(now); wait != 30*time.Second {
		t.Errorf("it waits %s until the first goes", wait)
	}
	now = now.Add(30 * time.Second)
	check("/1 /2 /4", "(1)")
	if wait := b.Wait(now); wait != 30*time.Second {
		t.Errorf("it waits %s until the next goes", wait)
	}
	now = now.Add(30 * time.Second)
	check("/1 /2", "")
	if wait := b.Wait(now); wait != time.Hour || listed != 2 {
		t.Errorf("it waits %s where none is missing, and %d are listed", wait, listed)
	}
	list(false, "1")
	check("/1", "") // one alone is never doubtful
}

// TestBookIsBounded: whatever comes, no more is charged than may be, and all of it is given back.
func TestBookIsBounded(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		limits := platform.Limits{MaxServices: 2, MaxInstances: 4, MaxPorts: 1}
		account, said := limits.Account("Test/one"), map[string]string{}
		b := bookOf(account, limits, time.Hour, new(int))
		for range rapid.IntRange(1, 20).Draw(r, "steps") {
			if rapid.Bool().Draw(r, "list") {
				l := b.List()
				for _, i := range items(r, 8) {
					l.Add(&i)
				}
				b.Replace(l, rapid.Bool().Draw(r, "lost"), time.Now())
			} else if i := one(r); rapid.Bool().Draw(r, "put") {
				b.Put(&i)
			} else {
				b.Remove(i.id)
			}
			flush(b, said)
			instances := 0
			for _, text := range said {
				instances += 1 + strings.Count(text, ",")
			}
			used := account.Used()
			if used.Things > 2 || used.Endpoints > 4 || used.Ports > 1 || len(said) > 2 || instances > used.Endpoints {
				r.Fatalf("it charges %+v, and has %v", used, said)
			}
		}
		for _, id := range []string{"1", "2", "3", "4", "5", "6", "7", "8"} {
			b.Remove(id)
		}
		flush(b, said)
		if used := account.Used(); used != (budget.Cost{}) || len(said) > 0 || b.Len() > 0 {
			r.Fatalf("once all have left it charges %+v, and has %v", used, said)
		}
	})
}

// TestBookManyOfOneService: a whole list of one large service takes no time that grows with the square of its instances.
func TestBookManyOfOneService(t *testing.T) {
	if testing.Short() {
		t.Skip("it reads 200,000 instances")
	}
	listed := 0
	limits := platform.Limits{MaxBytes: 1 << 30}
	b := bookOf(limits.Account("Test/one"), limits, time.Hour, &listed)
	b.Service = func(name platform.ServiceName, all []*item) (*platform.Service, []mesh.Problem) {
		if !slices.IsSortedFunc(all, func(x, y *item) int { return cmp.Compare(x.id, y.id) }) {
			t.Error("instances are in no order")
		}
		return &platform.Service{Name: name.Name}, nil
	}
	const many = 100_000
	for range 2 {
		l := b.List()
		for i := range many {
			l.Add(&item{id: fmt.Sprint(i), services: "a"})
		}
		begun := time.Now()
		b.Replace(l, false, begun)
		b.Flush()
		if took := time.Since(begun); took > 5*time.Second {
			t.Errorf("it takes %s", took)
		}
		empty := b.List()
		b.Keep = 0
		b.Replace(empty, false, begun)
		b.Flush()
	}
	if listed != 0 || b.Len() != 0 {
		t.Errorf("%d are listed in %d services", listed, b.Len())
	}
}
