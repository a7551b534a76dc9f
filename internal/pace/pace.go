package pace

import (
	"context"
	"sync"
	"time"

	"fairway/internal/config"
	"fairway/internal/source"
)

// Rows is how many rows go on in one piece.
const Rows = source.PieceRows

// wait bounds the wait for the turn of a piece: there is no turn if a piece changes nothing.
const wait = 100 * time.Millisecond

// busy is how many times longer the turn of a piece that weighs more than Rows may take on a machine that is busy. Without it, the next
// such piece would go on before that turn has ended, and both would be in one.
const busy = 8

// rest is the longest pause after the turn of one piece that weighs more than Rows.
const rest = time.Second

// Pacer splits large batches. Its methods may be called from any goroutine.
type Pacer struct {
	next   source.Keeper
	turned func() <-chan struct{}
	wake   chan struct{}

	mu      sync.Mutex // guards everything below, and the order of calls of next
	synced  bool
	pending pending
}

var _ source.Keeper = (*Pacer)(nil)

// New returns a pacer in front of next. turned returns a channel that is closed when the next turn ends. Large batches go on only while
// Run runs.
func New(next source.Keeper, turned func() <-chan struct{}) *Pacer {
	return &Pacer{next: next, turned: turned, wake: make(chan struct{}, 1), pending: newPending()}
}

// Apply hands a small batch on at once, and begins to hand on a large one.
func (p *Pacer) Apply(b source.Batch) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.synced {
		p.synced = b.Synced
		p.next.Apply(b)
		return
	}
	p.pending.supersede(b)
	if b.Produces() <= Rows {
		p.next.Apply(b)
		return
	}
	p.pending.add(b)
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// Has reports whether the pacer was given some version of an object that was not removed, whether it waits or not.
func (p *Pacer) Has(k config.Key) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if set, known := p.pending.has(k); known {
		return set
	}
	return p.next.Has(k)
}

// Waits returns how many rows have not been handed on yet.
func (p *Pacer) Waits() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pending.len()
}

// Run hands large batches on, one piece for each turn, until ctx ends; then it returns nil. Only one Run may run at a time.
func (p *Pacer) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-p.wake:
		}
		for p.step(ctx) {
		}
	}
}

// step hands one piece on and waits for its turn; false: nothing waits. After a piece of one object that weighs more than Rows it also
// waits as long as that turn took, so that such objects take at most half of the time, and changes that arrive meanwhile overtake them.
func (p *Pacer) step(ctx context.Context) bool {
	turned, began := p.turned(), time.Now()
	p.mu.Lock()
	b, weight := p.pending.take(Rows)
	if weight > 0 {
		p.next.Apply(b)
	}
	p.mu.Unlock()
	if weight == 0 {
		return false
	}
	most := wait * time.Duration(1+weight/Rows)
	if weight > Rows {
		most *= busy
	}
	if !await(ctx, turned, most) {
		return false
	}
	return weight <= Rows || await(ctx, nil, min(time.Since(began), rest))
}

// await waits until a channel is closed, at most so long, and reports whether ctx goes on.
func await(ctx context.Context, closed <-chan struct{}, most time.Duration) bool {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-closed:
	case <-timer.C:
	case <-ctx.Done():
		return false
	}
	return true
}
