package rig_test

import (
	"runtime"
	"sync"
	"testing"

	"fairway/test/netns"
	"fairway/test/rig"
)

// TestProcessesOutliveThreads: a process lives as long as its test, whatever becomes of the threads that the test had when it
// started it.
func TestProcessesOutliveThreads(t *testing.T) {
	busy := make(chan struct{}) // so that goroutines change threads when they wait
	defer close(busy)
	for range 4 * runtime.GOMAXPROCS(0) {
		go func() {
			for {
				select {
				case <-busy:
					return
				default:
					runtime.Gosched()
				}
			}
		}()
	}
	var all []*rig.Process
	for range 30 {
		all = append(all, rig.Launch(t, rig.Command{Name: "sleep", Path: "/bin/sleep", Args: []string{"600"}, Dir: t.TempDir()}))
	}
	for range 20 {
		var group sync.WaitGroup
		for range 100 { // each takes a thread along when it ends
			group.Go(func() { netns.Alone(func() {}) })
		}
		group.Wait()
	}
	for _, p := range all {
		p.Running(t)
	}
}
