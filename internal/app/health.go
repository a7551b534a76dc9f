package app

import (
	"context"
	"time"
)

// awaitHealth marks, once, that every agent had the time to say how its application is, and to register its machine again.
func (d *Discovery) awaitHealth(ctx context.Context) error {
	select {
	case <-d.synced:
	case <-ctx.Done():
		return nil
	}
	defer d.proxies.Expire()
	if d.opts.HealthStart <= 0 { // marked before the first turn
		return nil
	}
	timer := time.NewTimer(d.opts.HealthStart)
	defer timer.Stop()
	select {
	case <-timer.C:
		d.graph.In.HealthHeard.Set(struct{}{}, true)
	case <-ctx.Done():
	}
	return nil
}
