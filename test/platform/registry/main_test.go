package registry_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime/pprof"
	"sync/atomic"
	"testing"

	"fairway/test/platform/registry/mcpserver"
	"fairway/test/rig"
)

// discovery is the control plane, as a program.
var discovery = rig.Program{Name: "pilot-discovery"}

func TestMain(m *testing.M) {
	if mcpserver.Asked() { // this process is the other one of a test
		os.Exit(mcpserver.Main())
	}
	flag.Parse()
	if flag.Lookup("test.parallel").Value.String() == flag.Lookup("test.parallel").DefValue {
		// tests wait for servers and for time rather than for a processor
		if err := flag.Set("test.parallel", "12"); err != nil {
			panic(err)
		}
	}
	os.Exit(rig.Main(m, &discovery))
}

var apartCount atomic.Int64

// apart runs something in a goroutine of its own until the test ends, or stop is called. No goroutine that it started goes on then.
func apart(t testing.TB, run func(context.Context) error) (stop func()) {
	t.Helper()
	label := fmt.Sprint(apartCount.Add(1))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	pprof.Do(ctx, pprof.Labels("apart", label), func(ctx context.Context) {
		go func() { ended <- run(ctx) }()
	})
	var once atomic.Bool // t may end within, so that a sync.OnceFunc would panic
	stop = func() {
		if once.Swap(true) {
			return
		}
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("it ended: %v", err)
		}
		rig.Eventually(t, func() error {
			if left := goroutines(label); left != "" {
				return errors.New("goroutines go on:\n" + left)
			}
			return nil
		})
	}
	t.Cleanup(stop)
	return stop
}
