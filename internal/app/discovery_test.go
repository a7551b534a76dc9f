package app_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"fairway/internal/admin/page"
	"fairway/internal/app"
	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/source"
	"fairway/internal/xds"
	"fairway/test/ads"
	"fairway/test/plane"
	"fairway/test/rig"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const reviews = `
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: reviews, namespace: shop}
spec:
  hosts: [reviews.shop.svc.cluster.local]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{number: 80, name: http, protocol: HTTP}]
  endpoints: [{address: 10.0.0.1}]
`

const hashed = `
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: reviews, namespace: shop}
spec:
  host: reviews
  trafficPolicy: {loadBalancer: {consistentHash: {httpHeaderName: x-user, maglev: {tableSize: SIZE}}}}
`

const mutual = `
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: mutual, namespace: %s}
spec:
  host: reviews.shop.svc.cluster.local
  exportTo: [.]
  trafficPolicy: {tls: {mode: ISTIO_MUTUAL}}
`

func bounded(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// late is a source that reports itself as synced only once told is closed.
type late struct{ told chan struct{} }

func (late) Name() string { return "late" }

func (s late) Run(ctx context.Context, sink source.Sink) error {
	select {
	case <-s.told:
		sink.Apply(source.Update{Synced: true})
		<-ctx.Done()
	case <-ctx.Done():
	}
	return nil
}

// limited is a source that says which memory limit was in force when it was first run.
type limited struct{ limit chan int64 }

func (limited) Name() string { return "limited" }

func (s limited) Run(ctx context.Context, sink source.Sink) error {
	s.limit <- debug.SetMemoryLimit(-1)
	sink.Apply(source.Update{Synced: true})
	<-ctx.Done()
	return nil
}

// TestMemoryIsLimitedBeforeSourcesAreRead: the first read often takes the most memory.
func TestMemoryIsLimitedBeforeSourcesAreRead(t *testing.T) {
	t.Setenv("GOMEMLIMIT", "")
	t.Setenv("FAIRWAY_MEMORY_LIMIT", "3000000000")
	s := limited{make(chan int64, 1)}
	plane.Run(t, plane.Options(), s)
	if got := <-s.limit; got != 2_700_000_000 {
		t.Errorf("while the first source is read the limit is %d", got)
	}
}

// TestReadyOnceEverySourceHasSynced: until then nothing is served, because proxies would get an incomplete configuration.
func TestReadyOnceEverySourceHasSynced(t *testing.T) {
	slow := late{make(chan struct{})}
	p := plane.Run(t, plane.Options(), slow)
	p.Apply(t, "rules.yaml", reviews) // the rows of one source are in force, but not sent yet
	for range 2 {
		if code, body := get(t, p.URL("/ready")); code != http.StatusServiceUnavailable ||
			!strings.Contains(body, "sources are still being read") {
			t.Errorf("/ready: %d %q, want 503 and why", code, body)
		}
	}
	if p.Discovery.Ready() == nil {
		t.Error("Ready says yes")
	}
	connected := make(chan *plane.Client, 1)
	go func() { connected <- p.Connect(t, plane.Proxy{Name: "web-1"}) }()
	close(slow.told)
	select {
	case <-p.Discovery.Synced():
	case <-bounded(t).Done():
		t.Fatal("does not sync")
	}
	if code, body := get(t, p.URL("/ready")); code != http.StatusOK {
		t.Errorf("/ready: %d %q, want 200", code, body)
	}
	c := <-connected
	if names := c.Names(ads.ClusterType); !slices.Contains(names, "outbound|80||reviews.shop.svc.cluster.local") {
		t.Errorf("the proxy that waited was told %q", names)
	}
}

// lines are a log's lines with a message.
func lines(t *testing.T, log *rig.Log, msg string) (out []map[string]any) {
	t.Helper()
	for line := range strings.Lines(log.String()) {
		var fields map[string]any
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if fields["msg"] == msg {
			out = append(out, fields)
		}
	}
	return out
}

// TestOneLogLineATurn: the line has the cause of the turn, its cost and its result.
func TestOneLogLineATurn(t *testing.T) {
	log := &rig.Log{}
	opts := plane.Options()
	opts.Log = slog.New(slog.NewJSONHandler(log, nil))
	p := plane.Start(t, opts)
	p.Apply(t, "rules.yaml", reviews)
	p.Connect(t, plane.Proxy{Name: "web-1"})
	before := lines(t, log, "turn")
	p.Apply(t, "rules.yaml", reviews)
	if idle := lines(t, log, "turn"); len(idle) != len(before) {
		t.Errorf("a batch that says nothing new is logged: %v", idle[len(before):])
	}
	p.Apply(t, "rules.yaml", strings.Replace(reviews, "10.0.0.1", "10.0.0.2", 1))
	turns := lines(t, log, "turn")
	if len(turns) != len(before)+1 {
		t.Fatalf("one change is %d lines, want 1", len(turns)-len(before))
	}
	for i, line := range turns {
		for _, key := range []string{"turn", "rows", "changed", "resources", "ms", "staged"} {
			if _, ok := line[key].(float64); !ok {
				t.Errorf("line %d has %s=%v, want a number", i, key, line[key])
			}
		}
		if i > 0 && line["turn"].(float64) <= turns[i-1]["turn"].(float64) {
			t.Errorf("turn %v follows turn %v", line["turn"], turns[i-1]["turn"])
		}
	}
	last := turns[len(turns)-1]
	if cause, _ := last["cause"].(string); !strings.Contains(cause, "shop/reviews") || last["resources"] != float64(1) ||
		last["rows"].(float64) < 1 {
		t.Errorf("got %v, want the ServiceEntry as cause and one resource", last)
	}
	if len(lines(t, log, "synced")) != 1 || len(lines(t, log, "listening")) != 1 {
		t.Error("want one line when it listens and one when it has synced")
	}
}

// recomputed returns the sum of the tables' counts of recomputed rows since the start.
func recomputed(t *testing.T, p *plane.Plane) (sum uint64) {
	t.Helper()
	_, body := get(t, p.URL("/debug/tablez"))
	var tables []page.TableInfo
	if err := json.Unmarshal([]byte(body), &tables); err != nil {
		t.Fatal(err)
	}
	for _, table := range tables {
		sum += table.Recomputed
	}
	return sum
}

// TestReconnectRecomputesNothing: a proxy that blinks finds its rows as they were, and is sent nothing.
func TestReconnectRecomputesNothing(t *testing.T) {
	p := plane.Start(t, plane.Options())
	p.Apply(t, "rules.yaml", reviews)
	c := p.Connect(t, plane.Proxy{Name: "web-1"})
	turn, rows := p.Discovery.LastTurn().Version, recomputed(t, p)
	c.TakeTotals()
	c.Disconnect()
	withoutStreams(t, p)
	c.Reconnect(t)
	if got := p.Discovery.LastTurn().Version; got != turn {
		t.Errorf("coming back made turn %d after %d", got, turn)
	}
	if got := recomputed(t, p); got != rows {
		t.Errorf("coming back recomputed %d rows", got-rows)
	}
	if got := c.TakeTotals(); got.Resources != 0 || got.Removed != 0 {
		t.Errorf("coming back was sent %+v, want no resource", got)
	}
}

func withoutStreams(t *testing.T, p *plane.Plane) {
	t.Helper()
	if err := p.Discovery.Streams().WaitUntil(bounded(t), func(all []xds.ProxyStatus) bool { return len(all) == 0 }); err != nil {
		t.Fatal(err)
	}
}

// TestProxyLeavesForGood: after its linger a proxy's rows go.
func TestProxyLeavesForGood(t *testing.T) {
	opts := plane.Options()
	opts.ProxyLinger = time.Millisecond
	p := plane.Start(t, opts)
	c := p.Connect(t, plane.Proxy{Name: "web-1"})
	turn := p.Discovery.LastTurn().Version
	c.Disconnect()
	if err := p.Discovery.AfterTurn(bounded(t), turn); err != nil {
		t.Fatal(err)
	}
	if last := p.Discovery.LastTurn(); len(last.Inputs) != 1 || !strings.HasPrefix(last.Inputs[0], "proxies ") {
		t.Errorf("the turn's cause is %q, want the proxy", last.Inputs)
	}
	c.Reconnect(t)
}

// TestTwoStreamsOfOneProxy: the end of one does not take the configuration from the other.
func TestTwoStreamsOfOneProxy(t *testing.T) {
	p := plane.Start(t, plane.Options())
	first := p.Connect(t, plane.Proxy{Name: "web-1"})
	second := p.Connect(t, plane.Proxy{Name: "web-1"})
	first.Disconnect()
	p.Apply(t, "rules.yaml", reviews)
	if names := second.Names(ads.ClusterType); !slices.Contains(names, "outbound|80||reviews.shop.svc.cluster.local") {
		t.Errorf("the stream that stayed was told %q", names)
	}
}

// TestDrain: at a graceful stop each stream ends with Unavailable, which has Envoy go elsewhere, and all sockets are free again.
func TestDrain(t *testing.T) {
	opts := plane.Options()
	opts.Shutdown = 50 * time.Millisecond
	opts.MonitorAddr = "127.0.0.1:0"
	p := plane.Start(t, opts)
	p.Apply(t, "rules.yaml", reviews)
	var clients []*plane.Client
	for _, x := range []plane.Proxy{{Name: "web-1"}, {Name: "web-2", IP: "10.0.0.8"}, {Name: "web-3", IP: "10.0.0.7", SotW: true}} {
		clients = append(clients, p.Connect(t, x))
	}
	grpcAddr, httpAddr := p.Discovery.GRPCAddr(), p.Discovery.HTTPAddr()
	begun := time.Now()
	if err := p.Stop(); err != nil {
		t.Fatalf("ended with %v", err)
	}
	if took := time.Since(begun); took > opts.Shutdown+5*time.Second {
		t.Errorf("took %v", took)
	}
	for i, c := range clients {
		<-c.Ended()
		if status.Code(c.Err()) != codes.Unavailable {
			t.Errorf("stream %d ended with %v, want Unavailable", i, c.Err())
		}
	}
	for _, addr := range []string{grpcAddr, httpAddr} {
		if conn, err := net.Dial("tcp", addr); err == nil {
			conn.Close()
			t.Errorf("%s still listens", addr)
		}
	}
}

// TestTakenPort: the start fails at once, names the flag, and closes the sockets that it had opened.
func TestTakenPort(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	free.Close()
	opts := plane.Options()
	opts.GRPCAddr, opts.HTTPAddr = free.Addr().String(), taken.Addr().String()
	if _, err := app.NewDiscovery(opts); err == nil || !strings.Contains(err.Error(), "--httpAddr") || errors.Is(err, app.ErrFailed) {
		t.Errorf("error %v, want one about --httpAddr that is a mistake in the flags", err)
	}
	again, err := net.Listen("tcp", free.Addr().String())
	if err != nil {
		t.Fatalf("the other port was not let go: %v", err)
	}
	again.Close()
}

// TestSourceThatFails: the program ends with the source's error.
func TestSourceThatFails(t *testing.T) {
	broken := failing{errors.New("the disk is on fire")}
	d, err := app.NewDiscovery(plane.Options(), broken)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Run(bounded(t)); !errors.Is(err, broken.err) || !errors.Is(err, app.ErrFailed) ||
		!strings.Contains(err.Error(), "source failing") {
		t.Errorf("ended with %v", err)
	}
}

type failing struct{ err error }

func (failing) Name() string { return "failing" }

func (f failing) Run(context.Context, source.Sink) error { return f.err }

// TestHeldBackResourceKeepsWhatProxiesHave: a rule that Envoy would reject is not sent. The Problem names it, and the previous
// configuration stays in force.
func TestHeldBackResourceKeepsWhatProxiesHave(t *testing.T) {
	const cluster = "outbound|80||reviews.shop.svc.cluster.local"
	p := plane.Start(t, plane.Options())
	p.Apply(t, "rules.yaml", reviews)
	p.Apply(t, "hash.yaml", strings.Replace(hashed, "SIZE", "5003", 1))
	c := p.Connect(t, plane.Proxy{Name: "web-1"})
	c.TakeTotals()

	p.Apply(t, "hash.yaml", strings.Replace(hashed, "SIZE", "99999999", 1)) // Envoy: at most 5000011
	if got := c.TakeTotals(); got.Responses != 0 {
		t.Errorf("the proxy was sent %+v, want nothing", got)
	}
	if !slices.Contains(c.Names(ads.ClusterType), cluster) {
		t.Error("the proxy lost the cluster")
	}
	i := slices.IndexFunc(p.Discovery.Problems(),
		func(q mesh.Problem) bool { return q.Object.Kind == "DestinationRule" && q.Severity == mesh.Error })
	if i < 0 {
		t.Fatalf("no problem names the rule: %v", p.Discovery.Problems())
	}
	if q := p.Discovery.Problems()[i]; q.Object.Name != "reviews" || q.Object.File != "hash.yaml" {
		t.Errorf("got %v", q)
	}

	late := p.Connect(t, plane.Proxy{Name: "web-2", IP: "10.0.0.8"})
	if !slices.Contains(late.Names(ads.ClusterType), cluster) {
		t.Error("a proxy that comes later is not given the last good version")
	}
	p.Apply(t, "hash.yaml", strings.Replace(hashed, "SIZE", "5009", 1))
	if got := c.TakeTotals(); got.Resources == 0 {
		t.Error("the corrected rule was not sent")
	}
	if problems := p.Discovery.Problems(); len(problems) > 0 {
		t.Errorf("problems stay: %v", problems)
	}
}

// TestWithheldClusterIsTakenAway: if a cluster cannot be sent to a proxy as its rule demands, it is removed from the proxy. Neither
// its older version nor the cluster of other namespaces replaces it, because both would be plaintext. Proxies that connect later
// see the same.
func TestWithheldClusterIsTakenAway(t *testing.T) {
	const cluster = "outbound|80||reviews.shop.svc.cluster.local"
	for _, namespace := range []string{"shop", "bank"} { // its own, and one for which all others see another rule
		t.Run(namespace, func(t *testing.T) {
			p := plane.Start(t, plane.Options())
			p.Apply(t, "rules.yaml", reviews)
			x := plane.Proxy{Name: "web-1", Namespace: namespace, Plain: true}
			c, other := p.Connect(t, x), p.Connect(t, plane.Proxy{Name: "web-2", Namespace: "other", IP: "10.0.0.8", Plain: true})
			if !slices.Contains(c.Names(ads.ClusterType), cluster) {
				t.Fatal("there is no cluster to take away")
			}

			p.Apply(t, "mutual.yaml", fmt.Sprintf(mutual, namespace))
			x.Name, x.IP = "web-3", "10.0.0.7"
			late := p.Connect(t, x)
			for who, x := range map[string]*plane.Client{"the proxy": c, "one that came later": late} {
				if slices.Contains(x.Names(ads.ClusterType), cluster) {
					t.Errorf("%s has the cluster, in the clear", who)
				}
			}
			if !slices.Contains(other.Names(ads.ClusterType), cluster) {
				t.Error("a proxy that the rule does not hold for lost the cluster")
			}

			p.Delete(t, config.DestinationRule, namespace, "mutual")
			if !slices.Contains(c.Names(ads.ClusterType), cluster) {
				t.Error("the cluster did not come back when the rule went")
			}
		})
	}
}

// TestMeshConfigKeepsLastGood: while it runs, a mesh configuration that is wrong is a problem, and the one before stays in force.
func TestMeshConfigKeepsLastGood(t *testing.T) {
	dir := t.TempDir()
	opts := plane.Options()
	opts.MeshConfig = filepath.Join(dir, "mesh.yaml")
	place := func(text string) {
		t.Helper()
		tmp := filepath.Join(dir, ".tmp")
		if err := os.WriteFile(tmp, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(tmp, opts.MeshConfig); err != nil {
			t.Fatal(err)
		}
	}
	place("outboundTrafficPolicy: {mode: REGISTRY_ONLY}\n")
	p := plane.Start(t, opts)
	p.Apply(t, "rules.yaml", reviews)
	c := p.Connect(t, plane.Proxy{Name: "web-1"})
	change := func(text string) ads.Totals {
		t.Helper()
		turn := p.Discovery.LastTurn().Version
		c.TakeTotals()
		place(text)
		if err := p.Discovery.AfterTurn(bounded(t), turn); err != nil {
			t.Fatal(err)
		}
		p.Settle(t)
		return c.TakeTotals()
	}
	if got := change("outboundTrafficPolicy:\n  mode: ALLOW_NONE\n"); got.Resources != 0 {
		t.Errorf("a wrong mesh configuration sent %+v", got)
	}
	problems := p.Discovery.Problems()
	if len(problems) != 1 || problems[0].Object.Kind != "MeshConfig" || problems[0].Object.File != opts.MeshConfig ||
		problems[0].Line != 2 ||
		problems[0].Field != "outboundTrafficPolicy.mode" {
		t.Fatalf("problems: %v, want one with file, line and field", problems)
	}
	if got := change("outboundTrafficPolicy: {mode: ALLOW_ANY}\n"); got.Resources == 0 {
		t.Error("the corrected mesh configuration sent nothing")
	}
	if problems := p.Discovery.Problems(); len(problems) > 0 {
		t.Errorf("problems stay: %v", problems)
	}
}
