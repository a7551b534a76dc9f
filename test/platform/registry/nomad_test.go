package registry_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"fairway/internal/source"
	"fairway/internal/source/nomad"
	"fairway/internal/source/platform"
	"fairway/test/platform/registry/nomadstandin"
)

// nomadSink tells each update that has shards, and keeps none.
type nomadSink struct {
	synced  chan struct{}
	changes chan source.Update
}

func (s *nomadSink) Apply(u source.Update) {
	switch {
	case u.Synced:
		close(s.synced)
	case len(u.Shards) > 0:
		s.changes <- u
	}
}

// TestNomadLoad: of 5,000 services of 10 instances one changed instance is one shard, soon; the figures are logged.
func TestNomadLoad(t *testing.T) {
	if testing.Short() {
		t.Skip("50,000 instances take seconds")
	}
	const services, instances, changes = 5000, 10, 200
	server := nomadstandin.Start(t, nomadstandin.Options{Heartbeat: 100 * time.Millisecond})
	instance := func(i, j int, tags ...string) *api.ServiceRegistration {
		return &api.ServiceRegistration{
			ID:          fmt.Sprintf("_nomad-task-%08d-%04d-redis-service-db", i, j),
			ServiceName: fmt.Sprintf("service-%d", i), Namespace: "default",
			NodeID: fmt.Sprintf("node-%d", j), Datacenter: "dc1", JobID: fmt.Sprintf("job-%d", i), AllocID: fmt.Sprintf("%08d-%04d", i, j),
			Address: fmt.Sprintf("10.%d.%d.%d", j, i/250, 1+i%250), Port: 20000 + j, Tags: append(tags, "version=v1", "zone=a"),
		}
	}
	for i := range services {
		var all []*api.ServiceRegistration
		for j := range instances {
			all = append(all, instance(i, j))
		}
		server.Register(all...)
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	begun := time.Now()
	s, err := nomad.New("Nomad/test", nomad.Options{Reach: platform.Reach{URLs: []string{server.URL()}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	sink := &nomadSink{make(chan struct{}), make(chan source.Update, changes)}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- s.Run(ctx, sink) }()
	defer func() {
		stop()
		if err := errors.Join(<-done); err != nil {
			t.Error(err)
		}
	}()
	<-sink.synced
	t.Logf("synced in %s", time.Since(begun))
	runtime.GC()
	runtime.ReadMemStats(&after)
	t.Logf("beside the rows it holds %d MiB", (after.HeapAlloc-before.HeapAlloc)>>20)
	var took []time.Duration
	for n := range changes {
		at := time.Now()
		server.Register(instance(n*7, n%instances, fmt.Sprintf("round=%d", n)))
		u := <-sink.changes
		took = append(took, time.Since(at))
		if want := fmt.Sprintf("default/service-%d", n*7); len(u.Shards) != 1 || u.Shards[0].Key.Part != want {
			t.Fatalf("it handed over %d shards, want %s alone", len(u.Shards), want)
		}
	}
	slices.Sort(took)
	t.Logf("from a change to its update: median %s, p99 %s, most %s", took[changes/2], took[changes*99/100], took[changes-1])
	if got := s.Stats().Objects; got != services {
		t.Errorf("%d services, want %d", got, services)
	}
}
