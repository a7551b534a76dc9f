package reached

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"fairway/internal/config"
	"fairway/internal/xds"
	"fairway/internal/xds/library"
	"fairway/internal/xds/protocol"
	"fairway/internal/xdstype"
)

// streams are proxies that lack what a test says.
type streams struct {
	mu      sync.Mutex
	lags    []protocol.Lag
	warming xds.Warming
	silent  int
	warms   bool
	spares  []uint64 // turns that do not concern the proxy
	looks   int
}

// Lags has refusals of a turn only for that turn and earlier ones, as streams do.
func (s *streams) Lags(turn uint64, _ func(library.ProxyID) bool) xds.Lags {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looks++
	lags := slices.DeleteFunc(slices.Clone(s.lags), func(l protocol.Lag) bool { return l.State == protocol.Refused && l.Since < turn })
	out := xds.Lags{Asked: 3, Silent: s.silent}
	if len(lags) > 0 || !s.warming.None() {
		out.Behind = []xds.ProxyLag{{Proxy: "web-1", Connection: 7, Lags: lags, Warming: s.warming, Warms: time.Unix(60, 0)}}
	}
	return out
}

func (s *streams) Refusing() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]int{}
	for _, l := range s.lags {
		if l.State == protocol.Refused {
			out["cds"]++
		}
	}
	return out
}

func (s *streams) LastTurn() uint64                     { return 9 }
func (s *streams) Published(uint64) bool                { return true }
func (s *streams) Changed(uint64, string) bool          { return true }
func (s *streams) PublishedAt(uint64) (time.Time, bool) { return time.Unix(0, 0), true }

func (s *streams) Concerned(turn uint64, _ func(string) bool, list []uint64) []uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.Contains(s.spares, turn) {
		return nil
	}
	return list
}

func (s *streams) Warms(uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.warms
}

func (s *streams) set(change func(*streams)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

func (s *streams) lack(lags ...protocol.Lag) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lags = lags
}

func key(name string) config.Key {
	return config.Key{Kind: config.VirtualService, Namespace: "shop", Name: name}
}

// world is a tracker that runs with the clock of a synctest bubble.
type world struct {
	*Tracker
	*streams
	mu      sync.Mutex
	changed []string
	texts   []string
}

// looked returns how often the streams were looked at, once the tracker waits.
func (w *world) looked() int {
	synctest.Wait()
	w.streams.mu.Lock()
	defer w.streams.mu.Unlock()
	return w.looks
}

// told returns the objects with another outcome, and what was shared, once the tracker waits.
func (w *world) told() (changed, texts []string) {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.changed), slices.Clone(w.texts)
}

func start(t *testing.T) *world {
	w := &world{streams: &streams{}}
	w.Tracker = New(func(k config.Key) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.changed = append(w.changed, k.Name)
	}, func(text string) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.texts = append(w.texts, text)
	})
	ctx, stop := context.WithCancel(t.Context())
	synced := make(chan struct{})
	close(synced)
	done := make(chan struct{})
	go func() { defer close(done); w.Run(ctx, synced, w.streams, w.streams) }()
	t.Cleanup(func() { stop(); <-done })
	return w
}

func (w *world) after(t *testing.T, d time.Duration, name string, want Outcome) {
	t.Helper()
	time.Sleep(d) // of the bubble
	synctest.Wait()
	if got, _ := w.Outcome(key(name), 1); got != want {
		t.Errorf("%s is %d, want %d", name, got, want)
	}
}

// TestOutcomes: an object is live once every proxy has its turn; until then nothing is said, and after a while that it is late.
func TestOutcomes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t)
		w.InForce(key("first"), 1, 3)
		w.after(t, 2*time.Second, "first", Unknown) // proxies may come back
		w.after(t, 14*time.Second, "first", Live)
		w.lack(protocol.Lag{State: protocol.NotAcked, Since: 5}, protocol.Lag{State: protocol.NotSent, Since: 0})
		w.InForce(key("early"), 1, 4)
		w.InForce(key("web"), 1, 5)
		w.InForce(key("later"), 1, 6)
		w.after(t, 6*time.Second, "early", Live)
		w.after(t, 0, "web", Unknown)
		w.after(t, 0, "later", Unknown)
		w.after(t, 10*time.Second, "web", Late)
		w.lack(protocol.Lag{State: protocol.Refused, Since: 5})
		w.after(t, 6*time.Second, "web", Refused)
		w.after(t, 0, "later", Live)
		w.lack()
		w.after(t, 6*time.Second, "web", Live)
		if got, _ := w.Outcome(key("unheard of"), 1); got != Live {
			t.Errorf("an object without waiting control planes is %d", got)
		}
		changed, _ := w.told()
		for _, name := range []string{"first", "early", "web", "later"} {
			if !slices.Contains(changed, name) {
				t.Errorf("the status of %s is not looked at: %v", name, changed)
			}
		}
		time.Sleep(20 * time.Second)
		before := w.looked()
		time.Sleep(time.Hour)
		if after := w.looked(); after != before {
			t.Errorf("streams are looked at %d times while nothing is pending", after-before)
		}
		w.InForce(key("web"), 2, 8)
		w.Gone(key("web"))
		w.after(t, time.Second, "web", Live)
	})
}

// TestConcern: a proxy that never acknowledges holds up only what concerns it, and it is described once.
func TestConcern(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t)
		w.InForce(key("first"), 1, 3)
		time.Sleep(20 * time.Second)
		w.set(func(s *streams) { s.spares = []uint64{6} })
		w.lack(protocol.Lag{Type: xdstype.ClusterURL, State: protocol.NotAcked, Since: 5, Name: "a"})
		w.InForce(key("web"), 1, 5)
		w.InForce(key("other"), 1, 6)
		w.after(t, 6*time.Second, "other", Live)
		w.after(t, 10*time.Second, "web", Late)
		want := Count{Proxies: 3, Without: 1, First: "web-1", Since: time.Unix(0, 0).UTC(), What: "not acknowledged (cds a)"}
		check := func() {
			t.Helper()
			if _, got := w.Outcome(key("web"), 1); got != want {
				t.Errorf("web: %+v, want %+v", got, want)
			}
		}
		check()
		w.set(func(s *streams) { s.spares = []uint64{5, 6} }) // it was asked once, soon after the turn
		w.lack(protocol.Lag{Type: xdstype.ClusterURL, State: protocol.NotSent, Since: 5, Name: "b"})
		w.after(t, time.Minute, "web", Late)
		check()
		changed, _ := w.told()
		if n := slices.Index(changed[slices.Index(changed, "web")+1:], "web"); n >= 0 {
			t.Errorf("the status of web is written more than once while nothing changes: %v", changed)
		}
		for i := range 2 * mostTurns { // turns that it lacks do not keep others from being judged
			w.InForce(key(fmt.Sprint("more-", i)), 1, uint64(100+i))
		}
		w.after(t, 30*time.Second, "more-500", Late)
		w.set(func(s *streams) { s.spares = append(s.spares, 700) })
		w.InForce(key("spared"), 1, 700)
		w.after(t, 6*time.Second, "spared", Live)
		w.lack()
		w.after(t, 30*time.Second, "more-0", Live)
		w.after(t, 0, "more-500", Live)
	})
}

// TestWarming: a proxy that acknowledged a turn, and does not use it yet, holds it up; one without reports does not.
func TestWarming(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t)
		w.InForce(key("first"), 1, 3)
		time.Sleep(20 * time.Second)
		w.set(func(s *streams) {
			s.warming, s.silent, s.warms, s.spares = xds.Warming{Listeners: 2}, 1, true, []uint64{6}
		})
		w.InForce(key("web"), 1, 5)
		w.InForce(key("other"), 1, 6)
		w.after(t, time.Second, "web", Unknown)
		w.after(t, 0, "other", Live)
		if _, got := w.Outcome(key("other"), 1); got != (Count{Proxies: 3, Silent: 1}) {
			t.Errorf("other: %+v", got)
		}
		w.after(t, 14*time.Second, "web", Late)
		want := Count{
			Proxies: 3, Without: 1, Warming: 1, First: "web-1", Since: time.Unix(60, 0).UTC(), What: "2 listeners and 0 clusters warm",
		}
		if _, got := w.Outcome(key("web"), 1); got != want {
			t.Errorf("web: %+v, want %+v", got, want)
		}
		w.set(func(s *streams) { s.warming = xds.Warming{} })
		w.after(t, 6*time.Second, "web", Live)
	})
}

// TestPeers: the leader waits for every control plane that has read the object, and for those that have not mentioned it yet.
func TestPeers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t)
		w.InForce(key("old"), 1, 2)
		time.Sleep(20 * time.Second)
		peer := func(text string) {
			t.Helper()
			if err := w.Peer("istiod-2", text); err != nil {
				t.Fatal(err)
			}
		}
		says := func(generation int, o Outcome) string {
			return fmt.Sprintf(`{"objects":[{"object":"VirtualService/shop/web","generation":%d,"outcome":%d}]}`, generation, o)
		}
		peer(`{"objects":[]}`)
		w.after(t, 0, "old", Live)
		w.InForce(key("web"), 1, 5)
		w.after(t, time.Second, "web", Unknown) // it is live here, and not mentioned there
		peer(says(1, Unknown))
		w.after(t, 10*time.Second, "web", Unknown)
		peer(says(1, Late))
		w.after(t, 0, "web", Late)
		peer(`{"objects":[{"object":"VirtualService/shop/web","generation":1,"outcome":2,"count":{"proxies":4,"without":2,"first":"a\nb"}}]}`)
		w.after(t, 0, "web", Late)
		if _, got := w.Outcome(key("web"), 1); got.Proxies < 4 || got.Without != 2 || strings.Contains(got.First, "\n") {
			t.Errorf("the proxies of both are counted as %+v", got)
		}
		peer(says(1, Live))
		w.after(t, 0, "web", Live)
		if got, _ := w.Outcome(key("web"), 2); got != Unknown {
			t.Errorf("a generation that the other one has not read is %d", got)
		}
		peer("")
		w.after(t, 0, "web", Live)
		w.InForce(key("quiet"), 1, 6)
		peer(`{"objects":[]}`)
		w.after(t, time.Second, "quiet", Unknown)
		w.after(t, 12*time.Second, "quiet", Live) // it had the object from its start
		peer(`{"objects":[],"more":true}`)
		w.after(t, 0, "quiet", Unknown)
		count := Count{Proxies: 1, Without: 1, First: "a"}
		if got, want := count.plus(Count{Proxies: 3, Without: 2, First: "b"}, Late, Refused), (Count{
			Proxies: 4, Without: 2, First: "b",
		}); got != want {
			t.Errorf("proxies that refuse and others are counted as %+v", got)
		}
		for _, bad := range []string{
			"x", `{"objects":[{"object":"a/b"}]}`, `{"objects":[{"object":"a/b/c","outcome":9}]}`,
			`{"objects":[{"object":"a/b/c","count":{"proxies":-1}}]}`, strings.Repeat(" ", mostText+1),
			`{"objects":[` + strings.Repeat(`{"object":"a/b/c"},`, 2*mostMentioned) + `{"object":"a/b/c"}]}`,
		} {
			if err := w.Peer("istiod-2", bad); err == nil {
				t.Errorf("%.50s is taken", bad)
			}
		}
	})
}

// TestTextIsShared: what one control plane shares another one reads.
func TestTextIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t)
		w.InForce(key("old"), 1, 2)
		time.Sleep(20 * time.Second)
		w.lack(protocol.Lag{State: protocol.NotAcked, Since: 6})
		w.InForce(key("web"), 7, 5)
		w.InForce(key("late"), 8, 6)
		for i := range mostMentioned + 5 {
			w.InForce(key(fmt.Sprint("more-", i)), 1, 7)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		_, texts := w.told()
		p, err := parse(texts[len(texts)-1])
		if err != nil || !p.more || len(p.mentions) > 2*mostMentioned {
			t.Fatalf("%+v %v", p, err)
		}
		if of, _, is := p.of(key("web"), 7); !is || of != Live {
			t.Errorf("web: %v %v", of, is)
		}
		if of, _, is := p.of(key("late"), 8); !is || of != Unknown {
			t.Errorf("late: %v %v", of, is)
		}
	})
}
