package proxy

import (
	"context"
	"time"

	"fairway/internal/resident"
)

// firstLook is when the start is over; nextLooks find what a burst of changes has left.
const (
	firstLook = 3 * time.Second
	nextLooks = time.Minute
)

// giveBackMemory gives back memory that was needed for a while: the heap's, and the program's own pages, which mostly only its
// start reads. Pages that are needed again come from the system's cache.
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
