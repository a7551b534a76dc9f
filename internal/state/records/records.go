package records

import (
	"context"
	"fmt"
	"hash/fnv"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"fairway/internal/servers"
	"fairway/internal/state"
)

// Limits on the records of others.
const (
	MostRecords = 40_000
	mostBytes   = 32 << 20 // of names and values
	mostValue   = 4 << 10  // bytes of a record
	mostName    = 1024     // bytes of its name
	mostWriters = 64
	mostPart    = 4 << 20  // bytes of a part
	mostIndex   = 64 << 10 // bytes of an index
	parts       = 256
)

// Times of writers.
const (
	beatEvery = 5 * time.Second
	// deadAfter is how long a control plane may not raise its number before its records are removed.
	deadAfter = 20 * time.Second
	// missingFor is how long records stay that are missing: an index is, for a moment, if the store has lost its data.
	missingFor = 10 * time.Second
)

// Change is a record of another control plane that is new, is another, or is gone.
type Change struct {
	Writer, Name string
	Value        []byte
	Clock        int64 // orders the changes of all control planes, as far as they know of each other
	Gone         bool
}

// Options of New. All fields but Speed are required.
type Options struct {
	Shared *state.Shared
	Writer string              // this control plane, unlike any other one; no slash
	Change func(all []Change)  // takes changes of others' records, in order. It must not block
	Tell   func(reason string) // why some are not read or written; empty: all are. The state's own problem reports an outage
	Log    *slog.Logger
	Speed  int // divides all times, for tests; 0: 1
}

// Records are those of this control plane, and those of others as they were read last. Make it with New.
type Records struct {
	o     Options
	retry servers.Retry

	mu      sync.Mutex
	own     [parts]map[string]entry
	changed map[int]bool  // parts that the store does not have yet
	some    chan struct{} // holds a token once there are some
	clock   int64         // of the last change, here or elsewhere
	reasons map[string]string
	told    string

	tried chan struct{} // closed once others' records have been read, or cannot be
	once  sync.Once

	// The goroutine that writes has these.
	life     int         // how often this control plane has begun anew under another name
	versions map[int]int // of own parts, as the index is to say
	indexed  bool        // the store has the index
	beats    int
	beaten   time.Time
	dead     map[string]pulse // by writer
	swept    time.Time

	// The goroutine that reads has these.
	others map[string]*writer
	count  int
	bytes  int
	drops  int // how many of others' records have gone
}

// entry is a record of this control plane.
type entry struct {
	value []byte
	clock int64
}

// New returns records that are shared once Run is called.
func New(o Options) *Records {
	o.Speed = max(o.Speed, 1)
	return &Records{
		o: o, retry: servers.Retry{Base: 100 * time.Millisecond, Max: 5 * time.Second},
		changed: map[int]bool{}, some: make(chan struct{}, 1), reasons: map[string]string{}, tried: make(chan struct{}),
		versions: map[int]int{}, dead: map[string]pulse{}, others: map[string]*writer{},
	}
}

// Tried returns a channel that is closed once the records of others have been read for the first time, or could not be.
func (r *Records) Tried() <-chan struct{} { return r.tried }

// Set shares a record of this control plane; a nil value ends that. It does not block. Any goroutine may call it.
func (r *Records) Set(name string, value []byte) {
	n := partOf(name)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clock = max(r.clock+1, time.Now().UnixMilli())
	if value == nil {
		delete(r.own[n], name)
	} else {
		if r.own[n] == nil {
			r.own[n] = map[string]entry{}
		}
		r.own[n][name] = entry{value, r.clock}
	}
	r.changed[n] = true
	r.wake()
}

func (r *Records) wake() {
	select {
	case r.some <- struct{}{}:
	default:
	}
}

func partOf(name string) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(name)) // never fails
	return int(h.Sum32() % parts)
}

// name is what this control plane writes under.
func (r *Records) name() string { return fmt.Sprintf("%s~%d", r.o.Writer, r.life) }

// Run shares records until ctx ends. Then the records of others are removed here. Those of this control plane stay until another one
// finds that it has died, so that the machines they describe can move meanwhile.
func (r *Records) Run(ctx context.Context) {
	ctx, end := context.WithCancel(ctx)
	defer end()
	looks := make(chan struct{}, 1) // holds a token if there may be something to read
	looks <- struct{}{}
	var g sync.WaitGroup
	g.Go(func() {
		r.o.Shared.Follow(ctx, indexOf, func() {
			select {
			case looks <- struct{}{}:
			default:
			}
		})
	})
	g.Go(func() { r.write(ctx) })
	r.read(ctx, looks)
	g.Wait()
	var out []Change
	for _, w := range slices.Sorted(maps.Keys(r.others)) {
		out = append(out, r.drop(w)...)
	}
	if len(out) > 0 {
		r.o.Change(out)
	}
}

// tell sets one of the reasons why some records are not shared; empty: it has ended.
func (r *Records) tell(of, reason string) {
	r.mu.Lock()
	if reason == "" {
		delete(r.reasons, of)
	} else {
		r.reasons[of] = reason
	}
	out := ""
	for _, k := range slices.Sorted(maps.Keys(r.reasons)) {
		out = r.reasons[k]
		break
	}
	changed := out != r.told
	r.told = out
	r.mu.Unlock()
	if changed {
		r.o.Tell(out)
	}
}

// every divides a time by the speed of a test.
func (r *Records) every(d time.Duration) time.Duration { return d / time.Duration(r.o.Speed) }
