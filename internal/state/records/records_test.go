package records_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"fairway/internal/state"
	"fairway/internal/state/records"
	"fairway/internal/state/statetest"
)

// sharer is one control plane's part of the records, and the records of others that it has read.
type sharer struct {
	*records.Records
	client *statetest.Client
	stop   func()

	mu     sync.Mutex
	others map[string]string // values by the control plane's first name, and name
	clocks map[string]int64
	reason string
}

const speed = 20

// share shares records as a control plane does, until the test ends or stop is called.
func share(t *testing.T, in *statetest.Memory, name string) *sharer {
	t.Helper()
	s := &sharer{client: in.Client(), others: map[string]string{}, clocks: map[string]int64{}}
	log := slog.New(slog.DiscardHandler)
	of := state.New(s.client, state.Sealer{}, name, log)
	of.SetTimes(state.Times{
		Within: time.Second, Looks: 20 * time.Millisecond,
		Lasts: time.Second, Leads: 700 * time.Millisecond, Renews: 20 * time.Millisecond,
	})
	s.Records = records.New(records.Options{
		Shared: of, Writer: name, Log: log, Speed: speed,
		Change: func(all []records.Change) {
			s.mu.Lock()
			defer s.mu.Unlock()
			for _, c := range all {
				if c.Gone {
					delete(s.others, c.Writer+" "+c.Name)
				} else {
					s.others[c.Writer+" "+c.Name] = string(c.Value)
					s.clocks[c.Name+" "+string(c.Value)] = c.Clock
				}
			}
		},
		Tell: func(reason string) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.reason = reason
		},
	})
	ctx, cancel := context.WithCancel(t.Context())
	var g sync.WaitGroup
	g.Go(func() { _ = of.Run(ctx) })
	g.Go(func() { s.Run(ctx) })
	s.stop = func() { cancel(); g.Wait() }
	t.Cleanup(s.stop)
	return s
}

// held returns the records of others, without how often these have begun anew.
func (s *sharer) held() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]string{}
	for name, value := range s.others {
		writer, name, _ := strings.Cut(name, " ")
		writer, _, _ = strings.Cut(writer, "~")
		out[writer+" "+name] = value
	}
	return out
}

func eventually(t *testing.T, check func() error) {
	t.Helper()
	over := time.Now().Add(time.Minute)
	for err := check(); err != nil; err = check() {
		if time.Now().After(over) {
			t.Fatal(err)
		}
		<-time.After(2 * time.Millisecond)
	}
}

func (s *sharer) await(t *testing.T, want map[string]string) {
	t.Helper()
	eventually(t, func() error {
		if got := s.held(); !maps.Equal(got, want) {
			return fmt.Errorf("it has %v, want %v", got, want)
		}
		return nil
	})
}

// TestRecordsAreShared: records of one control plane reach another one, change and go. Those of one that has died are removed, with all
// that the store had of it.
func TestRecordsAreShared(t *testing.T) {
	in := statetest.New()
	one := share(t, in, "one")
	one.Set("a", []byte("1"))
	one.Set("b", []byte("2"))
	two := share(t, in, "two")
	two.Set("c", []byte("3"))
	two.await(t, map[string]string{"one a": "1", "one b": "2"})
	one.await(t, map[string]string{"two c": "3"})
	one.Set("a", []byte("4"))
	one.Set("b", nil)
	two.await(t, map[string]string{"one a": "4"})
	one.stop()
	if len(one.held()) > 0 {
		t.Errorf("one that has ended has %v", one.held())
	}
	two.await(t, nil)
	eventually(t, func() error {
		for _, name := range in.Names("members/") {
			if strings.Contains(name, "/one~") {
				return fmt.Errorf("the store still has %s", name)
			}
		}
		return nil
	})
}

// TestRecordsOutliveOutages: while one control plane is cut off, the others remove what it shares; once it is back, all have all. If
// the store loses everything, all write it again, and nothing goes meanwhile.
func TestRecordsOutliveOutages(t *testing.T) {
	in := statetest.New()
	one, two, three := share(t, in, "one"), share(t, in, "two"), share(t, in, "three")
	one.Set("a", []byte("1"))
	two.Set("b", []byte("2"))
	three.await(t, map[string]string{"one a": "1", "two b": "2"})
	one.await(t, map[string]string{"two b": "2"})
	one.client.Cut()
	three.await(t, map[string]string{"two b": "2"})
	one.Set("a", []byte("3"))
	if got := one.held(); !maps.Equal(got, map[string]string{"two b": "2"}) {
		t.Errorf("one that is cut off has %v", got)
	}
	one.client.Mend()
	for _, s := range []*sharer{two, three} {
		eventually(t, func() error {
			if got := s.held(); got["one a"] != "3" {
				return fmt.Errorf("it has %v", got)
			}
			return nil
		})
	}
	for i := range 3 {
		in.Empty()
		one.Set("c", fmt.Append(nil, i))
		three.await(t, map[string]string{"one a": "3", "one c": fmt.Sprint(i), "two b": "2"})
	}
}

// TestOneThatRuns: no control plane that runs is taken for dead, however the lease moves.
func TestOneThatRuns(t *testing.T) {
	in := statetest.New()
	one := share(t, in, "one")
	one.Set("a", []byte("1"))
	for range 3 {
		leader := share(t, in, "leader")
		leader.await(t, map[string]string{"one a": "1"})
		<-time.After(1200 * time.Millisecond / 2)
		if got := leader.held(); got["one a"] != "1" {
			t.Fatalf("it has %v", got)
		}
		leader.stop()
	}
	if names := in.Names("members/index/one"); len(names) != 1 || names[0] != "members/index/one~0" {
		t.Errorf("it has begun anew: %v", names)
	}
}

// TestLaterIsLater: a control plane that has read another one's record gives its own a later time.
func TestLaterIsLater(t *testing.T) {
	in := statetest.New()
	one, two, seer := share(t, in, "one"), share(t, in, "two"), share(t, in, "seer")
	for i := range 10 {
		from, to, value := one, two, fmt.Sprint(i)
		if i%2 == 1 {
			from, to = two, one
		}
		from.Set("x", []byte(value))
		for _, s := range []*sharer{to, seer} {
			eventually(t, func() error {
				s.mu.Lock()
				defer s.mu.Unlock()
				if s.clocks["x "+value] == 0 {
					return fmt.Errorf("it has %v", s.others)
				}
				return nil
			})
		}
		if i > 0 && seer.clocks["x "+value] <= seer.clocks["x "+fmt.Sprint(i-1)] {
			t.Fatalf("%v", seer.clocks)
		}
	}
}

// TestChangesCostTheSame: a change reads and writes as much with thousands of records as with one.
func TestChangesCostTheSame(t *testing.T) {
	cost := func(n int) int {
		in := statetest.New()
		one, two := share(t, in, "one"), share(t, in, "two")
		for i := range n {
			one.Set(fmt.Sprint("r", i), []byte("1"))
		}
		eventually(t, func() error {
			if got := len(two.held()); got != n {
				return fmt.Errorf("it has %d of %d", got, n)
			}
			return nil
		})
		before := in.Calls()
		one.Set("r0", []byte("2"))
		eventually(t, func() error {
			if two.held()["one r0"] != "2" {
				return fmt.Errorf("not yet")
			}
			return nil
		})
		one.stop()
		two.stop()
		return in.Calls() - before
	}
	few, many := cost(1), cost(5000)
	if many > 4*few+100 { // the numbers that both raise are in it
		t.Errorf("%d calls with 1 record, %d with 5000", few, many)
	}
}

// TestRecordsAreBounded: what is too large, has an odd name or is no index is left out and told, and the rest is read.
func TestRecordsAreBounded(t *testing.T) {
	in := statetest.New()
	one, two := share(t, in, "one"), share(t, in, "two")
	told := func(what string) {
		t.Helper()
		eventually(t, func() error {
			two.mu.Lock()
			defer two.mu.Unlock()
			if !strings.Contains(two.reason, what) {
				return fmt.Errorf("it says %q, want %q", two.reason, what)
			}
			return nil
		})
	}
	one.Set("large", make([]byte, 5<<10))
	one.Set("a", []byte("1"))
	two.await(t, map[string]string{"one a": "1"})
	told("the rest is not read")
	one.Set("c", []byte("1"))
	two.await(t, map[string]string{"one a": "1", "one c": "1"})
	told("the rest is not read")
	one.Set("c", nil)
	one.Set("large", nil)
	one.Set("odd\x01name", []byte("1"))
	one.Set("b", []byte("1"))
	two.await(t, map[string]string{"one a": "1", "one b": "1"})
	for name, text := range map[string]string{"members/index/x": "{", "members/index/y": `{"parts": {"7": 1, "-1": 2, "9999": 3}}`} {
		value, err := (state.Sealer{}).Seal(name, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := in.Client().Put(t.Context(), state.Write{Name: name, Value: value}); err != nil {
			t.Fatal(err)
		}
	}
	told("members/index/x cannot be read")
	two.await(t, map[string]string{"one a": "1", "one b": "1"})
}

// TestRecordsWaitForRoom: what there is no room for is read once other records have gone.
func TestRecordsWaitForRoom(t *testing.T) {
	in := statetest.New()
	one, two := share(t, in, "one"), share(t, in, "two")
	const each = 5000
	value := []byte(strings.Repeat("x", 4<<10))
	for i := range each {
		one.Set(fmt.Sprint("r", i), value)
		two.Set(fmt.Sprint("r", i), value)
	}
	three := share(t, in, "three")
	few := func() error {
		three.mu.Lock()
		defer three.mu.Unlock()
		if n := len(three.others); n < 7000 || n >= 2*each || !strings.Contains(three.reason, "the rest is not read") {
			return fmt.Errorf("it has %d records, and says %q", n, three.reason)
		}
		return nil
	}
	eventually(t, few)
	for i := range each / 2 {
		one.Set(fmt.Sprint("r", i), nil)
	}
	eventually(t, func() error {
		three.mu.Lock()
		defer three.mu.Unlock()
		if n := len(three.others); n != each+each/2 || three.reason != "" {
			return fmt.Errorf("it has %d records, and says %q", n, three.reason)
		}
		return nil
	})
}

// TestAnyHistory: after any history of records, cuts and losses, each control plane has what the others share.
func TestAnyHistory(t *testing.T) {
	for seed := range uint64(2) {
		random := rand.New(rand.NewPCG(seed, 3))
		in := statetest.New()
		names := []string{"one", "two", "three"}
		var all []*sharer
		want := map[string]map[string]string{}
		for _, name := range names {
			all = append(all, share(t, in, name))
			want[name] = map[string]string{}
		}
		cut := -1
		for range 150 {
			i := random.IntN(3)
			name := fmt.Sprint("r", random.IntN(40))
			switch n := random.IntN(30); {
			case n == 0:
				in.Empty()
			case n == 1 && cut < 0:
				cut = i
				all[i].client.Cut()
			case n < 5 && cut >= 0:
				all[cut].client.Mend()
				cut = -1
			case n < 12:
				all[i].Set(name, nil)
				delete(want[names[i]], name)
			default:
				value := fmt.Sprint(random.IntN(100))
				all[i].Set(name, []byte(value))
				want[names[i]][name] = value
			}
			if random.IntN(10) == 0 {
				<-time.After(time.Duration(random.IntN(100)) * time.Millisecond)
			}
		}
		if cut >= 0 {
			all[cut].client.Mend()
		}
		for i, s := range all {
			expect := map[string]string{}
			for j, other := range names {
				for name, value := range want[other] {
					if i != j {
						expect[other+" "+name] = value
					}
				}
			}
			s.await(t, expect)
		}
		for _, s := range all {
			s.stop()
		}
	}
}
