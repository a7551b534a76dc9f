package scenario

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/rogpeppe/go-internal/testscript"
	"google.golang.org/protobuf/types/known/structpb"

	"fairway/internal/app"
	"fairway/internal/config"
	"fairway/internal/source/memory"
	"fairway/test/ads"
)

type worldKey struct{}

// world is the state of one script.
type world struct {
	env     *testscript.Env
	decoder *config.Decoder
	out     *strings.Builder // what a command shows: the script's stdout

	source    *memory.Source
	discovery *app.Discovery
	stopped   chan error
	cancel    context.CancelFunc
	host      string // the control plane listens at this address
	address   string
	clients   map[string]*client
}

// client is one connected proxy and what it received since the last got.
type client struct {
	*ads.Client
	more chan struct{} // holds a token when something has arrived
	mu   sync.Mutex
	sent []string
	err  error
}

// worlds counts worlds: each has an address of its own, so that no other one takes its port while its control plane is away.
var worlds atomic.Uint32

func newWorld(env *testscript.Env) *world {
	n := worlds.Add(1)
	w := &world{env: env, clients: map[string]*client{}, host: fmt.Sprintf("127.77.%d.%d", n/256, n%256)}
	env.Defer(func() {
		if err := w.end(); err != nil {
			env.T().Fatal(err)
		}
	})
	return w
}

// command makes a script's command of a method. A command that fails where the script does not expect it ends the script.
func command(f func(w *world, args []string) error) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, neg bool, args []string) {
		w := ts.Value(worldKey{}).(*world)
		w.out = &strings.Builder{}
		err := f(w, args)
		fmt.Fprint(ts.Stdout(), w.out.String())
		switch {
		case err != nil && neg:
			fmt.Fprintln(ts.Stderr(), err)
		case err != nil:
			ts.Fatalf("%v", err)
		case neg:
			ts.Fatalf("unexpected success")
		}
	}
}

func (w *world) path(name string) string { return filepath.Join(w.env.WorkDir, name) }

// bounded limits how long a command may wait.
func bounded() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), 30*time.Second)
}

// mesh [flag=value…]: start a control plane. dir=rules reads that folder; grace=10s sets the door's grace; heard makes
// the control plane not wait for reports of agents. After shutdown, mesh starts a new one on the same address, with
// the rules that apply had set; clients come back by connect.
func (w *world) mesh(args []string) error {
	if w.discovery != nil {
		return errors.New("the mesh runs already")
	}
	opts := app.DefaultOptions()
	opts.GRPCAddr, opts.HTTPAddr, opts.MonitorAddr = w.host+":0", "", ""
	opts.MeshConfig, opts.Networks = w.path("mesh.yaml"), ""
	opts.Shutdown = time.Millisecond
	if w.address != "" {
		opts.GRPCAddr = w.address
	}
	for _, a := range args {
		name, value, _ := strings.Cut(a, "=")
		switch name {
		case "dir":
			opts.ConfigDir = w.path(value)
		case "grace":
			d, err := time.ParseDuration(value)
			if err != nil {
				return err
			}
			opts.Grace = d
		case "heard": // every agent had the time to say how its application is
			opts.HealthStart = 0
		default:
			return fmt.Errorf("mesh has no option %q", name)
		}
	}
	var err error
	if w.decoder == nil {
		if w.decoder, err = config.NewDecoder(config.Options{}); err != nil {
			return err
		}
		w.source = memory.New("memory")
	}
	if w.discovery, err = app.NewDiscovery(opts, w.source); err != nil {
		return err
	}
	w.address = w.discovery.GRPCAddr()
	ctx, cancel := context.WithCancel(context.Background())
	w.cancel, w.stopped = cancel, make(chan error, 1)
	go func(d *app.Discovery) { w.stopped <- d.Run(ctx) }(w.discovery)
	wait, done := bounded()
	defer done()
	select {
	case <-w.discovery.Synced():
		return nil
	case <-wait.Done():
		return errors.New("the mesh does not sync")
	}
}

// shutdown ends the control plane; clients lose their streams and keep their resources.
func (w *world) shutdown([]string) error {
	for _, c := range w.clients {
		c.Disconnect()
	}
	w.cancel()
	err := <-w.stopped
	w.discovery = nil
	return err
}

func (w *world) end() error {
	if w.discovery == nil {
		return nil
	}
	return w.shutdown(nil)
}

// settle waits until every connected proxy has acknowledged everything.
func (w *world) settle() error {
	if w.discovery == nil {
		return nil
	}
	ctx, cancel := bounded()
	defer cancel()
	if err := w.discovery.Settled(ctx); err != nil {
		return fmt.Errorf("the mesh does not settle: %w", err)
	}
	for name, c := range w.clients {
		c.mu.Lock()
		err := c.err
		c.mu.Unlock()
		if err != nil {
			return fmt.Errorf("client %s: %w", name, err)
		}
	}
	return nil
}

// node describes a proxy by "key=value" arguments.
func node(name string, args map[string]string) *corev3.Node {
	get := func(key, def string) string {
		if v, ok := args[key]; ok {
			return v
		}
		return def
	}
	ns, ip := get("ns", "default"), get("ip", "10.0.0.1")
	labels := map[string]any{}
	for _, pair := range strings.Split(args["labels"], ",") {
		if k, v, ok := strings.Cut(pair, "="); ok {
			labels[k] = v
		}
	}
	meta, err := structpb.NewStruct(map[string]any{
		"NAMESPACE": ns, "LABELS": labels, "INSTANCE_IPS": ip, "INTERCEPTION_MODE": get("mode", "REDIRECT"), "ISTIO_VERSION": "1.31.1",
	})
	if err != nil {
		panic(err)
	}
	return &corev3.Node{Id: fmt.Sprintf("%s~%s~%s.%s~%s.svc.cluster.local", get("type", "sidecar"), ip, name, ns, ns), Metadata: meta}
}

// connect NAME [ns=… ip=… labels=a=b,c=d type=router mode=NONE sotw]: connect a proxy, and wait until it holds all. A
// proxy that was connected before comes back with its resources.
func (w *world) connect(args []string) error {
	name := args[0]
	c := w.clients[name]
	if c == nil {
		values := map[string]string{}
		for _, a := range args[1:] {
			k, v, _ := strings.Cut(a, "=")
			values[k] = v
		}
		c = &client{more: make(chan struct{}, 1)}
		c.Client = ads.New(node(name, values), ads.NewReader(), c.take)
		c.Bodies = true
		_, c.SotW = values["sotw"]
		w.clients[name] = c
	}
	if err := c.Connect(context.Background(), w.address); err != nil {
		return err
	}
	ctx, cancel := bounded()
	defer cancel()
	if err := c.await(ctx); err != nil {
		return fmt.Errorf("%s does not get through: %w; it holds %s", name, err, c.State())
	}
	if err := w.discovery.Connected(ctx, c.Node.Id, c.Asked()); err != nil {
		return fmt.Errorf("%s does not settle: %w", name, err)
	}
	return w.settle()
}

// await waits until the client holds all that it refers to.
func (c *client) await(ctx context.Context) error {
	for !c.Complete() {
		select {
		case <-c.more:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// leave NAME: the proxy's stream ends.
func (w *world) leave(args []string) error {
	w.clients[args[0]].Disconnect()
	return nil
}

func (c *client) take(ev ads.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case c.more <- struct{}{}:
	default:
	}
	if ev.Err != nil {
		c.err = ev.Err
		return
	}
	for _, n := range ev.Names {
		c.sent = append(c.sent, ads.Short(ev.Type)+" "+n)
	}
	for _, n := range ev.Removed {
		c.sent = append(c.sent, ads.Short(ev.Type)+" "+n+" removed")
	}
}

func sortedNames(m map[string]*client) []string { return slices.Sorted(maps.Keys(m)) }

func read(path string) (string, error) {
	text, err := os.ReadFile(path)
	return string(text), err
}
