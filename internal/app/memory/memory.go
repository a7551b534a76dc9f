package memory

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
	startTicks   = 10       // seconds until a busy program counts as started: three times the live memory is too much to keep
	quietTicks   = 2        // seconds without work that make a quiet moment
	worthwhile   = 16 << 20 // bytes allocated since memory was last given back that make it worth doing so again
	allocated    = "/gc/heap/allocs:bytes"
)

// Trimmer gives memory back to the system once a burst of work is over. GOGC in the environment is
// respected, as GOMEMLIMIT is by the runtime. All fields are required.
type Trimmer struct {
	Work   func() uint64   // grows with whatever the program does
	Synced <-chan struct{} // closed when the sources have been read: the program's start is over
	Drop   func() error    // gives back the pages of the program's file
	Log    *slog.Logger
}

// Run gives memory back until ctx ends.
func (m Trimmer) Run(ctx context.Context) error {
	ours := os.Getenv("GOGC") == "" // nobody else has set it
	if ours {
		before := debug.SetGCPercent(startPercent)
		defer debug.SetGCPercent(before)
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	synced := m.Synced
	var work, trimmed uint64
	quiet, ticks := 0, 0
	started := func() {
		if ours {
			debug.SetGCPercent(100)
		}
	}
	for {
		select {
		case <-tick.C:
			ticks++
		case <-synced:
			synced = nil
			m.warn(m.Drop()) // before proxies connect: their first sync is the peak
			continue
		case <-ctx.Done():
			return nil
		}
		if ticks == startTicks {
			started()
		}
		if now := m.Work(); now != work {
			work, quiet = now, 0
			continue
		}
		if quiet++; quiet != quietTicks || totalAllocated()-trimmed < worthwhile {
			continue
		}
		started()
		m.warn(resident.GiveBack())
		trimmed = totalAllocated()
	}
}

// warn logs why pages of the program's file were not given back.
func (m Trimmer) warn(err error) {
	if err != nil {
		m.Log.Debug("the program's pages stay in memory", "error", err)
	}
}

func totalAllocated() uint64 {
	sample := []metrics.Sample{{Name: allocated}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
