package reading

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"
)

// SmallAnswer is how many bytes of an answer are read at the same time as others. Beyond that the answer waits for its turn.
const SmallAnswer = 4 << 20

// mostTurn is how long a turn may last while another source waits for one.
const mostTurn = 30 * time.Second

// errOverdue reports that an answer took too long while others waited.
var errOverdue = errors.New("the answer is large and was still being read after 30s, while other sources waited to read theirs")

// errNoTurn reports that an answer was large, and that other answers took all of its time.
var errNoTurn = errors.New("the answer is large, and other large answers were read all the time that it had")

// line is the queue of lanes: one large answer is read at a time in the process.
type line struct {
	seat chan struct{} // holds a token while a turn lasts

	mu      sync.Mutex
	waiting int
}

var process = &line{seat: make(chan struct{}, 1)}

// Lane is the queue of the large answers of one source. Sources take turns, whatever the number of their answers.
type Lane struct {
	own  chan struct{} // holds a token while an answer of the source waits, or has its turn
	line *line
	most time.Duration
}

// NewLane returns the lane of one source.
func NewLane() *Lane { return &Lane{make(chan struct{}, 1), process, mostTurn} }

// Turn is the turn of one answer. Only one goroutine at a time uses it.
type Turn struct {
	lane   *Lane
	active bool
	end    time.Time
}

// Begin returns the turn of an answer, which it does not have yet. The caller ends it.
func (l *Lane) Begin() *Turn { return &Turn{lane: l} }

// Take waits for the turn. Taking it again changes nothing. It fails once ctx ends.
func (t *Turn) Take(ctx context.Context) error {
	if t.active {
		return nil
	}
	l := t.lane
	select {
	case l.own <- struct{}{}:
	case <-ctx.Done():
		return errNoTurn
	}
	l.line.wait(1)
	defer l.line.wait(-1)
	select {
	case l.line.seat <- struct{}{}:
	case <-ctx.Done():
		<-l.own
		return errNoTurn
	}
	t.active, t.end = true, time.Now().Add(l.most)
	return nil
}

func (l *line) wait(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting += n
}

// Overdue returns an error if the turn has lasted too long and another source waits.
func (t *Turn) Overdue() error {
	if !t.active || time.Now().Before(t.end) {
		return nil
	}
	t.lane.line.mu.Lock()
	defer t.lane.line.mu.Unlock()
	if t.lane.line.waiting > 0 {
		return errOverdue
	}
	return nil
}

// End gives the turn back. Ending it again changes nothing.
func (t *Turn) End() {
	if t.active {
		t.active = false
		<-t.lane.line.seat
		<-t.lane.own
	}
}

// Reader returns a reader of r that takes the turn once SmallAnswer bytes were read, and fails if the turn is overdue. The caller decodes
// the bytes before the turn ends.
func (t *Turn) Reader(ctx context.Context, r io.Reader) io.Reader { return &reader{t, ctx, r, 0} }

type reader struct {
	turn *Turn
	ctx  context.Context
	from io.Reader
	read int
}

// Read is io.Reader's.
func (r *reader) Read(p []byte) (int, error) {
	if r.read >= SmallAnswer {
		if err := r.turn.Take(r.ctx); err != nil {
			return 0, err
		}
		if err := r.turn.Overdue(); err != nil {
			return 0, err
		}
	}
	if r.read < SmallAnswer && len(p) > SmallAnswer-r.read {
		p = p[:SmallAnswer-r.read]
	}
	n, err := r.from.Read(p)
	r.read += n
	return n, err
}

type turnKey struct{}

// With returns a context whose requests read their answers in one turn. The caller ends the turn once it has decoded them. Transports find
// it by From.
func (l *Lane) With(ctx context.Context) (context.Context, *Turn) {
	t := l.Begin()
	return context.WithValue(ctx, turnKey{}, t), t
}

// From returns the turn that With put into a context; nil: there is none.
func From(ctx context.Context) *Turn {
	t, _ := ctx.Value(turnKey{}).(*Turn)
	return t
}
