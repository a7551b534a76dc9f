package live

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"fairway/internal/app"
	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/source/memory"
	"fairway/internal/xds"
	"fairway/test/rig"
)

// Plane is a mesh's control plane. It can be stopped and started again on the same addresses, as a new program would be.
type Plane struct {
	Rules *memory.Source

	opts      app.Options
	log       *rig.Log
	discovery *app.Discovery
	stop      func(testing.TB)
	mayRefuse bool // Options.MayRefuse
}

func startPlane(t testing.TB, m *Mesh, o Options) *Plane {
	t.Helper()
	opts := app.DefaultOptions()
	opts.MeshConfig, opts.Networks, opts.MonitorAddr = "", "", ""
	opts.Registries = []string{"Memory"}
	opts.ConfigDir = m.Folder
	opts.GRPCAddr, opts.HTTPAddr = m.IP("plane")+":15010", m.IP("plane")+":8080"
	opts.Shutdown = 50 * time.Millisecond
	opts.KeysBarred = nil // issuers of tests are of this machine
	opts.Variants = 1000  // and so are proxies, each with patches of its own
	if o.Grace != 0 {
		opts.Grace = o.Grace
	}
	p := &Plane{opts: opts, log: &rig.Log{}, Rules: memory.New("Memory"), mayRefuse: o.MayRefuse}
	p.opts.Log = slog.New(slog.NewTextHandler(p.log, nil))
	if o.MeshConfig == "" {
		p.Rules.Set(allowLoopback(config.DefaultMesh()))
	} else {
		m.setMeshConfig(t, p, o.MeshConfig)
	}
	if o.Networks != "" {
		m.setNetworks(t, p, o.Networks)
	}
	p.Start(t)
	t.Cleanup(func() { p.Stop(t) })
	return p
}

// Start starts the control plane and waits until it has read everything.
func (p *Plane) Start(t testing.TB) {
	t.Helper()
	d, err := app.NewDiscovery(p.opts, p.Rules)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	p.discovery = d
	p.stop = func(t testing.TB) {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the control plane ended with: %v\n%s", err, p.log)
		}
	}
	select {
	case <-d.Synced():
	case err := <-done:
		done <- err
		t.Fatalf("the control plane ended at start: %v\n%s", err, p.log)
	case <-time.After(rig.Bound):
		t.Fatalf("the control plane has not synced after %s\n%s", rig.Bound, p.log)
	}
}

// Stop stops the control plane gracefully and waits until it has ended. Stopping a stopped one does nothing.
func (p *Plane) Stop(t testing.TB) {
	t.Helper()
	if p.stop == nil {
		return
	}
	p.check(t)
	p.stop(t)
	p.stop = nil
}

// Restart stops the control plane and starts a new one in its place, with the same rules on the same addresses.
func (p *Plane) Restart(t testing.TB) {
	t.Helper()
	p.Stop(t)
	p.Start(t)
}

// Problems are those in force, as text.
func (p *Plane) Problems() []mesh.Problem { return p.discovery.Problems() }

// Log is what the control plane has logged.
func (p *Plane) Log() string { return p.log.String() }

// AwaitStreams waits until exactly n streams are connected.
func (p *Plane) AwaitStreams(t testing.TB, n int) {
	t.Helper()
	rig.Eventually(t, func() error {
		if got := len(p.discovery.Streams().Status()); got != n {
			return fmt.Errorf("%d streams are connected, want %d", got, n)
		}
		return nil
	})
}

// Sent is how many resources (removals too) this run of the control plane has sent, by type ("cds", "vhds").
func (p *Plane) Sent(t testing.TB) map[string]float64 {
	t.Helper()
	return p.metric(t, "fairway_xds_sent_resources_total")
}

// metric reads a counter by the value of its only label, or under "" where it has none.
func (p *Plane) metric(t testing.TB, name string) map[string]float64 {
	t.Helper()
	text := get(t, "http://"+p.discovery.HTTPAddr()+"/metrics")
	out := map[string]float64{}
	for line := range strings.Lines(text) {
		rest, ok := strings.CutPrefix(line, name)
		if !ok || (rest[0] != '{' && rest[0] != ' ') {
			continue
		}
		label := ""
		if i := strings.IndexByte(rest, '"'); i >= 0 {
			label, _, _ = strings.Cut(rest[i+1:], `"`)
		}
		var v float64
		if _, err := fmt.Sscan(rest[strings.LastIndexByte(strings.TrimSpace(rest), ' ')+1:], &v); err != nil {
			t.Fatalf("metric %s: %q: %v", name, line, err)
		}
		out[label] = v
	}
	return out
}

// Streams are the states of the connected proxies' streams.
func (p *Plane) Streams() []xds.ProxyStatus { return p.discovery.Streams().Status() }

// describe returns the streams and problems that a mesh waits for if it does not settle.
func (m *Mesh) describe() string {
	var b strings.Builder
	for _, s := range m.Plane.Streams() {
		fmt.Fprintf(&b, "%s turn %d synced %t\n", s.Proxy, s.Turn, s.Synced)
		for _, typ := range slices.Sorted(maps.Keys(s.Types)) {
			st := s.Types[typ]
			fmt.Fprintf(&b, "  %s sent %d acked %d held %d pending %d rejected %q\n", typ, st.Sent.Turn, st.Acked.Turn,
				len(m.Plane.discovery.Streams().ClientResources(s.Proxy, typ)), st.Pending, st.Rejected)
		}
	}
	for _, p := range m.Plane.Problems() {
		fmt.Fprintf(&b, "%s\n", p)
	}
	return b.String()
}
