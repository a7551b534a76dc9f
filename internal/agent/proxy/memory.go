package proxy

import (
	"context"
	"time"

	"fairway/internal/resident"
)

// The first look is when the start is over; later ones find what a burst of changes has left.
const (
	firstLook = 3 * time.Second
	nextLooks = time.Minute
)

// giveBackMemory gives back memory that was needed for a while: the heap's, and pages of the program itself, most of which only
// its start reads. They come back from the system's cache where they are needed again.
func (a *agent) giveBackMemory(ctx context.Context, up func()) error {
	up()
	timer := time.NewTimer(firstLook)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
			if err := resident.GiveBack(); err != nil {
				a.log.Debug("the program's pages stay in memory", "error", err)
			}
			timer.Reset(nextLooks)
		}
	}
}
