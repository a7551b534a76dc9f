package reached

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"fairway/internal/config"
	"fairway/internal/xds"
	"fairway/internal/xds/library"
	"fairway/internal/xds/protocol"
)

// Times of a Tracker.
const (
	firstStep = 250 * time.Millisecond // between two looks at the streams while something is pending; it doubles up to lastStep
	lastStep  = 5 * time.Second
	// settle is how long proxies may take to come back after the start: what was in force then is not live before.
	settle = 10 * time.Second
	late   = 10 * time.Second // after that an object that is pending is said not to be live
	// silence is how long the leader waits for other control planes to mention an object that is live here. They mention what changed; they
	// may have had an older object from their start.
	silence = 5 * time.Second
	// shareEvery is how often the text is shared at most.
	shareEvery = time.Second
)

// Streams says which proxies lack something. *xds.Server is one.
type Streams interface {
	Lags(turn uint64, ask func(library.ProxyID) bool) xds.Lags
	LastTurn() uint64
	Refusing() map[string]int // proxies that refuse something, by type
}

// Turns knows which turns streams see. *history.Log is one.
type Turns interface{ Published(turn uint64) bool }

// Outcome is how far the newest version of an object is.
type Outcome int

// The outcomes.
const (
	Unknown Outcome = iota // it is on its way
	Live
	Late    // some proxies have not acknowledged it for a while
	Refused // some proxies refuse it
)

// Tracker follows objects. Any goroutine may call its methods; Run runs once.
type Tracker struct {
	changed func(config.Key)
	share   func(text string)
	now     func() time.Time
	woken   chan struct{} // holds a token when something is pending that Run has not seen

	mu      sync.Mutex
	pending map[config.Key]*version
	here    map[config.Key]time.Time // live here; other control planes have the time of silence to mention them
	recent  []mention                // live here, the last of them, the oldest first
	peers   map[string]peer
	from    uint64    // the first turn after the start
	settled time.Time // when the objects of the first turn may be live
}

// version is one of an object that is not live here.
type version struct {
	generation    int64
	turn          uint64
	since         time.Time
	late, refused bool
}

func (v *version) outcome() Outcome {
	switch {
	case v.refused:
		return Refused
	case v.late:
		return Late
	}
	return Unknown
}

// New returns a tracker that knows no object. changed is called for objects with an outcome that may be another one, share with the text
// for the leader each time it changes.
func New(changed func(config.Key), share func(text string)) *Tracker {
	return &Tracker{
		changed: changed, share: share, now: time.Now, woken: make(chan struct{}, 1),
		pending: map[config.Key]*version{}, here: map[config.Key]time.Time{}, peers: map[string]peer{},
	}
}

// InForce notes that a turn brought a version of an object into force.
func (t *Tracker) InForce(k config.Key, generation int64, turn uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.from == 0 {
		t.from = turn
	}
	delete(t.here, k)
	t.pending[k] = &version{generation: generation, turn: turn, since: t.now()}
	t.wake()
}

// Gone notes that an object is not in force any more.
func (t *Tracker) Gone(k config.Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.pending, k)
	delete(t.here, k)
}

func (t *Tracker) wake() {
	select {
	case t.woken <- struct{}{}:
	default:
	}
}

// Outcome returns how far a version of an object is, on the proxies of all control planes.
func (t *Tracker) Outcome(k config.Key, generation int64) Outcome {
	t.mu.Lock()
	defer t.mu.Unlock()
	if v := t.pending[k]; v != nil {
		return v.outcome()
	}
	_, fresh := t.here[k]
	worst := Live
	for _, p := range t.peers {
		switch of, mentioned := p.of(k, generation); {
		case !mentioned && (fresh || p.more):
			return Unknown
		case mentioned && of == Unknown:
			return Unknown
		case mentioned && of != Live:
			worst = of
		}
	}
	return worst
}

// Run looks at the streams while something is pending, from the time when synced is closed until ctx ends.
func (t *Tracker) Run(ctx context.Context, synced <-chan struct{}, streams Streams, turns Turns) {
	select {
	case <-synced:
	case <-ctx.Done():
		return
	}
	t.mu.Lock()
	t.settled = t.now().Add(settle)
	t.mu.Unlock()
	step := firstStep
	timer := time.NewTimer(step)
	defer timer.Stop()
	shared, at := "", time.Time{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.woken:
			if step > firstStep { // something new
				step = firstStep
				timer.Reset(step)
			}
			continue
		case <-timer.C:
		}
		if t.waits() {
			t.look(streams, turns)
		}
		if text := t.text(); text != shared && t.now().Sub(at) >= shareEvery {
			t.share(text)
			shared, at = text, t.now()
		}
		step = min(2*step, lastStep)
		timer.Reset(step)
	}
}

// waits reports whether something is pending, or has to be mentioned by other control planes.
func (t *Tracker) waits() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.pending)+len(t.here) > 0
}

// look takes note of the turns that proxies have acknowledged.
func (t *Tracker) look(streams Streams, turns Turns) {
	oldest := oldestOf(streams.Lags(streams.LastTurn(), nil).Behind)
	now := t.now()
	refused := refusals(streams, t.acknowledged(oldest, turns, now))
	var moved []config.Key
	t.mu.Lock()
	for k, v := range t.pending {
		before := v.outcome()
		is, asked := refused[v.turn]
		if asked && !is {
			t.reached(k, v, now)
			moved = append(moved, k)
			continue
		}
		v.refused = is
		since := v.since
		if v.turn == t.from {
			since = t.settled
		}
		v.late = now.Sub(since) >= late
		if v.outcome() != before {
			moved = append(moved, k)
		}
	}
	for k, at := range t.here {
		if now.Sub(at) >= silence {
			delete(t.here, k)
			moved = append(moved, k)
		}
	}
	t.mu.Unlock()
	for _, k := range moved {
		t.changed(k)
	}
}

// acknowledged returns the turns of pending objects before oldest, those first that were not refused at the last look.
func (t *Tracker) acknowledged(oldest uint64, turns Turns, now time.Time) (out []uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	again := map[uint64]bool{}
	for _, v := range t.pending {
		if v.turn < oldest && (v.turn != t.from || now.After(t.settled)) && turns.Published(v.turn) {
			again[v.turn] = again[v.turn] || v.refused
		}
	}
	return slices.SortedFunc(maps.Keys(again), func(a, b uint64) int {
		switch {
		case again[a] == again[b]:
			return cmp.Compare(a, b)
		case again[a]:
			return 1
		}
		return -1
	})
}

// mostTurns is how many turns one look asks about while some proxy refuses something; the others wait for the next look.
const mostTurns = 8

// refusals returns for turns whether some proxy refuses a resource that the turn, or a later one, changed. Not all turns may be asked
// about.
func refusals(streams Streams, turns []uint64) map[uint64]bool {
	out := map[uint64]bool{}
	if len(streams.Refusing()) == 0 {
		for _, turn := range turns {
			out[turn] = false
		}
		return out
	}
	for _, turn := range turns[:min(len(turns), mostTurns)] {
		out[turn] = slices.ContainsFunc(streams.Lags(turn, nil).Behind, func(p xds.ProxyLag) bool {
			return slices.ContainsFunc(p.Lags, func(l protocol.Lag) bool { return l.State == protocol.Refused })
		})
	}
	return out
}

// reached notes that a version is live here. mu is held.
func (t *Tracker) reached(k config.Key, v *version, now time.Time) {
	delete(t.pending, k)
	t.here[k] = now
	if len(t.recent) == mostMentioned {
		t.recent = slices.Delete(t.recent, 0, 1)
	}
	t.recent = append(t.recent, mention{Object: nameOf(k), Generation: v.generation, Outcome: Live})
}

// oldestOf returns the oldest turn that some proxy has neither acknowledged nor refused. A proxy that has just connected lacks no turn: it
// is sent the newest version of everything.
func oldestOf(behind []xds.ProxyLag) uint64 {
	out := ^uint64(0)
	for _, p := range behind {
		for _, l := range p.Lags {
			if l.Since > 0 && l.State != protocol.Refused {
				out = min(out, l.Since)
			}
		}
	}
	return out
}

// Peer takes the text of another control plane; empty: it is gone. An error says that the text cannot be read.
func (t *Tracker) Peer(by, text string) error {
	p, err := parse(text)
	t.mu.Lock()
	if text == "" || err != nil {
		delete(t.peers, by)
	} else {
		t.peers[by] = p
	}
	keys := slices.Collect(maps.Keys(t.here))
	t.mu.Unlock()
	for _, k := range keys {
		t.changed(k)
	}
	for k := range p.mentions {
		t.changed(k)
	}
	return err
}
