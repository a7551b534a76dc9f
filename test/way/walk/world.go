package walk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/coverage"
	"time"

	"fairway/internal/app"
	"fairway/internal/source"
	"fairway/test/ads"
	"fairway/test/plane"
)

// world is a control plane that reads a folder, a cluster, a Consul and a source of code, and a sidecar that is connected to it.
type world struct {
	dir       string // of everything
	rules     string // the folder of rules
	registry  *registry
	cluster   *cluster
	consul    *consul
	discovery *app.Discovery
	proxy     *ads.Client
	events    chan ads.Event

	cancel context.CancelFunc
	ended  chan error
}

// start runs the mesh until stop. The proxy has its configuration.
func start(ctx context.Context) (_ *world, err error) {
	w := &world{
		registry: newRegistry(), cluster: newCluster(), consul: newConsul(), events: make(chan ads.Event, 1000), ended: make(chan error, 1),
	}
	if w.dir, err = os.MkdirTemp("", "fairway-way-"); err != nil {
		return nil, err
	}
	w.rules = filepath.Join(w.dir, "rules")
	if err := os.Mkdir(w.rules, 0o755); err != nil {
		return nil, err
	}
	opts, err := w.options()
	if err != nil {
		return nil, err
	}
	if w.discovery, err = app.NewDiscovery(opts, w.registry); err != nil {
		return nil, err
	}
	running, cancel := context.WithCancel(context.Background())
	w.cancel = cancel
	go func() { w.ended <- w.discovery.Run(running) }()
	if err := w.connect(ctx); err != nil {
		return nil, errors.Join(err, w.stop())
	}
	return w, nil
}

// options writes the files, and has the control plane read them.
func (w *world) options() (app.Options, error) {
	o := plane.Options()
	o.ConfigDir, o.Kubeconfig, o.RegistriesFile = w.rules, filepath.Join(w.dir, "kubeconfig"), filepath.Join(w.dir, "registries.yaml")
	o.Registries, o.HealthStart = []string{"Kubernetes"}, 0
	return o, errors.Join(
		os.WriteFile(filepath.Join(w.rules, "mesh.yaml"), []byte(written), 0o600),
		w.writeRoute("1s"),
		os.WriteFile(o.Kubeconfig, []byte(w.cluster.kubeconfig()), 0o600),
		os.WriteFile(o.RegistriesFile, []byte("registries:\n- consul: {urls: ["+w.consul.server.URL+"]}\n"), 0o600),
	)
}

// connect connects the sidecar, and waits until it has what it asks for.
func (w *world) connect(ctx context.Context) error {
	select {
	case <-w.discovery.Synced():
	case err := <-w.ended:
		w.ended <- err
		return fmt.Errorf("the control plane ended: %w", err)
	case <-ctx.Done():
		return fmt.Errorf("the control plane does not sync: %w", ctx.Err())
	}
	node := plane.Proxy{Name: "web-1", Labels: map[string]string{"app": "web"}}.Node()
	w.proxy = ads.New(node, ads.NewReader(), func(e ads.Event) { w.events <- e })
	w.proxy.Bodies = true
	if err := w.proxy.Connect(ctx, w.discovery.GRPCAddr()); err != nil {
		return err
	}
	for !w.proxy.Complete() {
		select {
		case e := <-w.events:
			if e.Err != nil {
				return e.Err
			}
		case <-ctx.Done():
			return fmt.Errorf("the proxy does not get what it asks for; it holds %s: %w", w.proxy.State(), ctx.Err())
		}
	}
	return w.discovery.Settled(ctx)
}

func (w *world) stop() error {
	if w.proxy != nil {
		w.proxy.Disconnect()
	}
	w.cancel()
	err := <-w.ended
	w.cluster.close()
	w.consul.close()
	return errors.Join(err, os.RemoveAll(w.dir))
}

// step is one change of the outside; it returns the type of the resource that it changes for the proxy.
type step func() (typ string, err error)

// follow makes a step and waits until the proxy has been sent it.
func (w *world) follow(ctx context.Context, do step) error {
	for len(w.events) > 0 {
		<-w.events
	}
	typ, err := do()
	if err != nil {
		return err
	}
	for {
		select {
		case e := <-w.events:
			if e.Err != nil {
				return e.Err
			}
			if e.Type == typ {
				return nil
			}
		case <-ctx.Done():
			return fmt.Errorf("the proxy is not sent a change of %s: %w", ads.Short(typ), ctx.Err())
		}
	}
}

// acknowledged reports whether the proxy has acknowledged everything.
func (w *world) acknowledged() bool {
	all := w.discovery.Streams().Status()
	for _, s := range all {
		if !s.Synced {
			return false
		}
	}
	return len(all) == 1
}

// The program is idle once its counters had nothing new in so many looks, one every pause.
const (
	looks = 10
	pause = 3 * time.Millisecond
)

// still waits until the program is idle. Asking the program would run its code, so it reads the counters instead.
func (w *world) still(ctx context.Context) error {
	next := time.NewTicker(pause)
	defer next.Stop()
	seen := map[[256]int]struct{}{}
	for same := 0; same < looks; {
		select {
		case <-next.C:
		case <-ctx.Done():
			return fmt.Errorf("the program does not stand still: %w", ctx.Err())
		}
		now, err := counters()
		if err != nil {
			return err
		}
		same++
		if _, already := seen[now]; !already {
			seen[now], same = struct{}{}, 0
		}
	}
	return nil
}

// counters returns how often each byte occurs in the encoded counters of the program. Counters only rise, so equal results mean that none
// rose. The program's arguments come before the counters in an order that differs each time; counting bytes mostly removes this difference.
func counters() (out [256]int, err error) {
	var now bytes.Buffer
	err = coverage.WriteCounters(&now)
	for _, b := range now.Bytes() {
		out[b]++
	}
	return out, err
}

// registry is a source of code: it hands over the rows of a change, so that no code of a source runs.
type registry struct{ sink chan source.Sink }

func newRegistry() *registry { return &registry{sink: make(chan source.Sink, 1)} }

func (*registry) Name() string { return "inventory" }

func (r *registry) Run(ctx context.Context, sink source.Sink) error {
	sink.Apply(source.Update{Shards: []source.Shard{{Whole: true, Rows: inventory("10.0.1.1")}}, Synced: true})
	r.sink <- sink
	<-ctx.Done()
	return nil
}

func (r *registry) apply(rows source.Rows) {
	sink := <-r.sink
	r.sink <- sink
	sink.Apply(source.Update{Shards: []source.Shard{{Rows: rows}}})
}
