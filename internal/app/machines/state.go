package machines

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"fairway/internal/source"
	"fairway/internal/state"
	stored "fairway/internal/state/records"
	"fairway/internal/store/shared"
)

// stateSource names the store of shared state among those that machines are shared through.
const stateSource = "shared machines"

// startWithin is how long the start waits for the machines of other control planes.
const startWithin = 3 * time.Second

// State returns the source that shares machines through the state of the control planes; none: m is nil, or the state is in files.
func (m *Machines) State(in *state.Shared, log *slog.Logger) []source.Source {
	if m == nil || in == nil {
		return nil
	}
	s := &throughState{machines: m}
	s.records = stored.New(stored.Options{
		Shared: in, Writer: m.writer, Log: log,
		Change: func(all []stored.Change) {
			out := make([]shared.Change, 0, len(all))
			for _, c := range all {
				id := shared.ID{Writer: c.Writer, Name: c.Name}
				out = append(out, shared.Change{ID: id, Value: c.Value, Revision: c.Clock, Gone: c.Gone})
			}
			m.take(stateSource, out)
		},
		Tell: func(reason string) { m.tell(stateSource, func(s *share) { s.reason = reason }) },
	})
	return []source.Source{s}
}

// throughState shares machines through the state. It has no rows: it is a source so that proxies are served once the machines of other
// control planes are known.
type throughState struct {
	machines *Machines
	records  *stored.Records
}

// Name implements source.Source.
func (*throughState) Name() string { return stateSource }

// Run implements source.Source.
func (s *throughState) Run(ctx context.Context, sink source.Sink) error {
	var wait sync.WaitGroup
	defer wait.Wait()
	wait.Go(func() { s.machines.Run(ctx, s.Name(), s.records) })
	late := time.NewTimer(startWithin)
	defer late.Stop()
	select {
	case <-s.records.Tried():
	case <-late.C: // the store is away: a problem says so
	case <-ctx.Done():
		return nil
	}
	sink.Apply(source.Update{Synced: true})
	<-ctx.Done()
	return nil
}
