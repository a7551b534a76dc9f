package agent

import (
	"context"
	"time"

	"fairway/internal/resident"
)

// What the agent takes is taken once for each workload of a machine. gcPercent trades a little of the processor, of
// which an agent needs next to none, for memory.
const gcPercent = 50

// The first look is when the start is over; later ones find what a burst of changes has left.
const (
	firstSlimming = 3 * time.Second
	slimming      = time.Minute
)

// slim gives back memory that was needed for a while: the heap's, and pages of the program itself, most of which only
// its start reads. They come back from the system's cache where they are needed again.
func (a *agent) slim(ctx context.Context, up func()) error {
	up()
	timer := time.NewTimer(firstSlimming)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
			if err := resident.GiveBack(); err != nil {
				a.log.Debug("the program's pages stay in memory", "error", err)
			}
			timer.Reset(slimming)
		}
	}
}
