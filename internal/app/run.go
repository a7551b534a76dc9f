package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"fairway"
	"fairway/internal/admin"
	"fairway/internal/app/injection"
	"fairway/internal/app/memory"
	"fairway/internal/resident"
	"fairway/internal/source"
	"fairway/internal/source/shards"
	"fairway/internal/web"
	"fairway/internal/webhook"
)

// joined is a source with the sink that is its own.
type joined struct {
	source.Source
	sink source.Sink
}

// join gives each source a sink. If several sources have a row of one key, the first source's row counts.
func join(all *shards.Set, sources []source.Source) (out []joined, err error) {
	for _, s := range sources {
		sink, err := all.Join(s.Name(), 0)
		if err != nil {
			return nil, err
		}
		out = append(out, joined{s, sink})
	}
	return out, nil
}

// part is one that runs until its context ends.
type part struct {
	name string
	run  func(context.Context) error
}

// parts are the goroutines of the control plane, except those that listen.
func (d *Discovery) parts() []part {
	out := []part{{"clusters", d.others.Run}, {"config sources", d.named.RunSources}, {"registries", d.registered.Run}}
	for _, s := range d.sources {
		out = append(out, part{"source " + s.Name(), func(ctx context.Context) error { return s.Run(ctx, s.sink) }})
	}
	if d.names != nil {
		out = append(out, part{"gateways' names", d.names.Run})
	}
	synced := d.clock.Synced()
	out = append(out, []part{
		{"keys", d.keys.Run},
		{"pace", d.pacer.Run},
		{"door", d.door.Run},
		{"turns", d.loop.Run},
		{"history", d.history.Run},
		{"proxies", d.proxies.Run},
		{"health", func(ctx context.Context) error { return d.proxies.AwaitReports(ctx, synced, d.setup.opts.HealthStart) }},
		{"machines", d.machines.Run},
		{"memory", memory.Trimmer{Work: d.setup.metrics.Work, Synced: synced, Drop: resident.DropProgram, Log: d.setup.opts.Log}.Run},
	}...)
	if d.cluster != nil {
		out = append(out, part{"writes", func(ctx context.Context) error { return d.cluster.RunAfter(ctx, synced, d.server, d.history) }})
	}
	return out
}

// Run serves until ctx ends, then drains the streams over the configured window. It returns once every goroutine it started has ended.
func (d *Discovery) Run(ctx context.Context) error {
	opts, log := d.setup.opts, d.setup.opts.Log
	defer d.setup.claim.Release()
	defer d.sockets.Close()
	defer memory.Limit(os.Getenv)() // before sources read their rows, which may be large
	log.Info("listening", "version", fairway.Version, "grpc", d.GRPCAddr(), "secure", d.SecureAddr(), "http", d.HTTPAddr(),
		"https", d.HTTPSAddr(), "monitoring", d.sockets.MonitoringAddr())
	if d.setup.reach == nil && containsFold(opts.Registries, kubernetes) {
		log.Info("no Kubernetes is read: this is not a pod of a cluster, and --kubeconfig names none")
	}
	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx)) // outlives ctx by the drain
	defer stopServing()
	var g errgroup.Group
	failed := make(chan struct{})
	var once sync.Once
	run := func(name string, f func() error) {
		g.Go(func() error {
			if err := f(); err != nil {
				once.Do(func() { close(failed) })
				return fmt.Errorf("%w: %s: %w", ErrFailed, name, err)
			}
			return nil
		})
	}
	for _, p := range d.parts() {
		run(p.name, func() error { return p.run(serving) })
	}
	pages := d.pages().Handler()
	d.setup.desk.Open(pages)
	stopPages := d.sockets.Serve(run, pages, injection.WithHooks(d.hooks, pages),
		web.Options{Log: log, Panicked: d.setup.metrics.Panicked, Open: admin.Open(), Apart: webhook.Paths()})
	run("xds", d.serveXDS)
	d.setup.secure.Run(serving, d.graph.In.Bundles, run)

	select {
	case <-ctx.Done():
	case <-failed:
	}
	d.shutdown()
	stopServing()
	stopPages()
	return g.Wait()
}

// serveXDS serves at once, for callers that push configuration that is needed at the start. Proxies wait: see serving.Patient.
func (d *Discovery) serveXDS() error {
	if d.sockets.GRPC() == nil {
		return nil
	}
	if err := d.grpc.Serve(d.sockets.GRPC()); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return err
	}
	return nil
}

// shutdown moves proxies to other replicas over a short window, then ends the remaining streams.
func (d *Discovery) shutdown() {
	window := d.setup.opts.Shutdown
	drained, cancel := context.WithTimeout(context.Background(), window+5*time.Second)
	defer cancel()
	close(d.leaving)
	if err := d.server.Drain(drained, window); err != nil {
		d.setup.opts.Log.Warn("not every stream had ended when the window was over", "error", err)
	}
	d.grpc.Stop()
	d.setup.secure.Stop()
}
