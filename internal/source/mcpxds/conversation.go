package mcpxds

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// waiting is how many messages may wait to be sent. Each answer has one, and each kind that is asked for.
const waiting = 256

// conversation is a stream that is spoken on: one goroutine sends what waits, one receives. So neither side blocks the other if both have
// much to send.
type conversation struct {
	ctx       context.Context
	stream    stream
	patient   time.Duration // how long a message waits for its place among those that wait
	requests  chan func() error
	answers   chan *answer
	processed chan struct{} // an answer was; until then no other is received
	failed    chan error    // why it ended, from either goroutine
}

// converse speaks on a stream until ctx ends. both has the goroutines, which end once the stream has.
func converse(ctx context.Context, st stream, patient time.Duration, both *sync.WaitGroup) *conversation {
	c := &conversation{
		ctx: ctx, stream: st, patient: patient,
		requests: make(chan func() error, waiting), answers: make(chan *answer),
		processed: make(chan struct{}, 1), failed: make(chan error, 2),
	}
	both.Go(c.send)
	both.Go(c.receive)
	return c
}

// send sends the queue. If nothing can be sent any more because the stream has ended (io.EOF), its other goroutine finds out
// why.
func (c *conversation) send() {
	for {
		select {
		case say := <-c.requests:
			if err := say(); err != nil {
				if !errors.Is(err, io.EOF) {
					c.failed <- err
				}
				return
			}
		case <-c.ctx.Done():
			return
		}
	}
}

func (c *conversation) receive() {
	for {
		a, err := c.stream.receive()
		if err != nil {
			c.failed <- err
			return
		}
		select {
		case c.answers <- a:
		case <-c.ctx.Done():
			return
		}
		a = nil //nolint:ineffassign,wastedassign // it may be large, and is not held while the next one is waited for
		select {
		case <-c.processed:
		case <-c.ctx.Done():
			return
		}
	}
}

// ask asks the other side for everything of a type, and says which versions are held.
func (c *conversation) ask(typ string, held map[string]string) error {
	return c.queue(func() error { return c.stream.ask(typ, held) })
}

// ack has an answer acknowledged, or refused. The queue does not hold the answer itself: otherwise, if the other side does not read, many
// answers would be held.
func (c *conversation) ack(of *answer, refused string) error {
	a := &answer{typ: of.typ, version: of.version, nonce: of.nonce}
	return c.queue(func() error { return c.stream.ack(a, refused) })
}

// queue has something sent once its turn comes. It waits if too much waits already: meanwhile nothing more is taken from the other
// side, if that does not read.
func (c *conversation) queue(say func() error) error {
	select {
	case c.requests <- say:
		return nil
	default:
	}
	late := time.NewTimer(c.patient)
	defer late.Stop()
	select {
	case c.requests <- say:
		return nil
	case err := <-c.failed:
		return err
	case <-late.C:
		return fmt.Errorf("it has not read requests for %s", c.patient)
	case <-c.ctx.Done():
		return context.Cause(c.ctx)
	}
}
