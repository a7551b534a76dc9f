package app

import (
	"context"
	"log/slog"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"fairway/internal/resident"
)

// The collector's settings. A start, like a storm of proxies, allocates much that soon dies and much that stays:
// collecting seldom meanwhile, and giving back what died once it is over, costs a fraction of collecting often, and
// leaves less resident (docs/performance.md has the figures).
const (
	startPercent = 200      // GOGC until the first quiet moment, or for startTicks
	startTicks   = 10       // seconds after which a program that is never quiet has started: three times what it holds is too much to stay
	quietTicks   = 2        // seconds without work that make a quiet moment
	worthwhile   = 16 << 20 // bytes allocated since memory was last given back that make it worth doing so again
	allocated    = "/gc/heap/allocs:bytes"
)

// memory gives back to the system what a burst of work has left, once the burst is over. GOGC in the environment is
// respected, as GOMEMLIMIT is by the runtime.
type memory struct {
	work func() uint64 // grows with whatever the program does
	log  *slog.Logger
}

// run tends memory until ctx ends.
func (m memory) run(ctx context.Context) error {
	ours := os.Getenv("GOGC") == "" // nobody else has set it
	if ours {
		before := debug.SetGCPercent(startPercent)
		defer debug.SetGCPercent(before)
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	var work, trimmed uint64
	quiet := 0
	started := func() {
		if ours {
			debug.SetGCPercent(100)
		}
	}
	for ticks := 1; ; ticks++ {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		if ticks == startTicks {
			started()
		}
		if now := m.work(); now != work {
			work, quiet = now, 0
			continue
		}
		if quiet++; quiet != quietTicks || totalAllocated()-trimmed < worthwhile {
			continue
		}
		started()
		if err := resident.GiveBack(); err != nil {
			m.log.Debug("the program's pages stay in memory", "error", err)
		}
		trimmed = totalAllocated()
	}
}

func totalAllocated() uint64 {
	sample := []metrics.Sample{{Name: allocated}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
