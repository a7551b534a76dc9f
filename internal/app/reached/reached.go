package reached

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"fairway/internal/config"
	"fairway/internal/xds"
	"fairway/internal/xds/library"
)

// Times of a Tracker.
const (
	firstStep = 40 * time.Millisecond // from something new to a look at the streams; while it is pending, the time doubles up to lastStep
	lastStep  = 5 * time.Second
	rest      = 20 // firstStep is so many times longer than a look took, if that is more
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
	// Concerned returns those of the streams that a turn may have sent something; changed reports which types the turn changed.
	Concerned(turn uint64, changed func(typ string) bool, streams []uint64) []uint64
	PublishedAt(turn uint64) (time.Time, bool)
	LastTurn() uint64
	Refusing() map[string]int // proxies that refuse something, by type
}

// Turns knows what turns did. *history.Log is one.
type Turns interface {
	// Published reports whether streams see a turn.
	Published(turn uint64) bool
	// Changed reports whether a turn may have changed a resource of a type, which has a URL.
	Changed(turn uint64, typ string) bool
	// Warms reports whether a turn may have changed a resource that warms before proxies use it.
	Warms(turn uint64) bool
}

// Outcome is how far the newest version of an object is.
type Outcome int

// The outcomes.
const (
	Unknown Outcome = iota // it is on its way
	Live
	Late    // some proxies have not acknowledged it for a while, or do not use it yet
	Refused // some proxies refuse it
)

// Count says how many proxies have a version of an object. It is counted once for each outcome, and not again while the outcome stays.
type Count struct {
	Proxies int `json:"proxies,omitempty"` // connected
	Without int `json:"without,omitempty"` // those that lack the version, refuse it, or do not use it yet
	Silent  int `json:"silent,omitempty"`  // those that have it, without reports of what warms
	Warming int `json:"warming,omitempty"` // those of Without that only do not use it yet
	// First is the node id of one of Without, Since when, and What the matter is.
	First string    `json:"first,omitempty"`
	Since time.Time `json:"since,omitzero"`
	What  string    `json:"what,omitempty"`
}

// plus adds the count of another control plane. The first outcome is that of c, the second that of o; of the worse one is the sum.
func (c Count) plus(o Count, first, second Outcome) Count {
	if first != second {
		if second > first {
			c, o = o, c
		}
		c.Proxies += o.Proxies
		c.Silent += o.Silent
		return c
	}
	if c.First == "" || c.Warming == c.Without && o.Warming < o.Without {
		c.First, c.Since, c.What = o.First, o.Since, o.What
	}
	c.Proxies += o.Proxies
	c.Without += o.Without
	c.Silent += o.Silent
	c.Warming += o.Warming
	return c
}

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

	// Only Run uses these.
	holders map[uint64]map[uint64]bool // by pending turn: streams, and whether the turn concerns them
	judged  int                        // of the turns that some proxies lack for a while, so that each is judged in its turn
}

// version is one of an object that is not live here.
type version struct {
	generation int64
	turn       uint64
	since      time.Time
	outcome    Outcome // it only rises, so that the status of an object is written a few times at most
	count      Count   // of the outcome
}

// New returns a tracker that knows no object. changed is called for objects with an outcome that may be another one, share with the text
// for the leader each time it changes.
func New(changed func(config.Key), share func(text string)) *Tracker {
	return &Tracker{
		changed: changed, share: share, now: time.Now, woken: make(chan struct{}, 1),
		pending: map[config.Key]*version{}, here: map[config.Key]time.Time{},
		peers: map[string]peer{}, holders: map[uint64]map[uint64]bool{},
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
func (t *Tracker) Outcome(k config.Key, generation int64) (Outcome, Count) {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, fresh := t.here[k]
	worst, count := Live, Count{}
	if v := t.pending[k]; v != nil {
		if worst, count = v.outcome, v.count; worst == Unknown {
			return Unknown, Count{}
		}
	} else {
		count = t.counted(k, generation)
	}
	for _, p := range t.peers {
		of, said, mentioned := p.of(k, generation)
		switch {
		case worst == Live && (!mentioned && (fresh || p.more) || mentioned && of == Unknown):
			return Unknown, Count{}
		case mentioned && of != Unknown:
			worst, count = max(worst, of), count.plus(said, worst, of)
		}
	}
	return worst, count
}

// counted returns the count of an object that became live here, as long as that is remembered. mu is held.
func (t *Tracker) counted(k config.Key, generation int64) Count {
	name := nameOf(k)
	for _, m := range slices.Backward(t.recent) {
		if m.Object == name && m.Generation == generation {
			return m.Count
		}
	}
	return Count{}
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
	step, first := firstStep, firstStep
	timer := time.NewTimer(step)
	defer timer.Stop()
	shared, at := "", time.Time{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.woken:
			if step > first { // something new
				step = first
				timer.Reset(step)
			}
			continue
		case <-timer.C:
		}
		if t.waits() {
			begun := time.Now()
			t.look(streams, turns)
			first = max(firstStep, rest*time.Since(begun))
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
