package writes

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// TestShared: tasks run while a replica leads the cluster or its revision, and it writes what belongs to what it leads. They begin anew
// with each change, and have ended once the replica leads nothing.
func TestShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var began, running atomic.Int32
		s := &shared{tasks: []func(context.Context){func(ctx context.Context) {
			began.Add(1)
			running.Add(1)
			<-ctx.Done()
			running.Add(-1)
		}}}
		is := func(when string, wantBegan, wantRunning int32, cluster, revision bool) {
			t.Helper()
			synctest.Wait()
			if began.Load() != wantBegan || running.Load() != wantRunning || s.leads(false) != cluster || s.leads(true) != revision {
				t.Errorf("%s: %d began, %d run; it leads %v, %v", when, began.Load(), running.Load(), s.leads(false), s.leads(true))
			}
		}
		lead := func(what *atomic.Bool) (stop func()) {
			ctx, end := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() {
				defer close(done)
				s.lead(ctx, what)
			}()
			return func() { end(); <-done }
		}
		is("at first", 0, 0, false, false)
		ofCluster := lead(&s.cluster)
		is("it leads the cluster", 1, 1, true, false)
		ofRevision := lead(&s.revision)
		is("and its revision", 2, 1, true, true)
		ofCluster()
		is("its revision alone", 3, 1, false, true)
		ofRevision()
		is("nothing", 3, 0, false, false)
	})
}
