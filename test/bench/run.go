package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"fairway/test/ads"
)

// result is all that is measured at one shape. Durations are in milliseconds, CPU in seconds, memory in MB (2^20),
// bytes as received inside the discovery responses.
type result struct {
	Shape     shape    `json:"shape"`
	Objects   int      `json:"objects"`
	ReadyMS   float64  `json:"ready_ms"`
	FirstMS   float64  `json:"cold_start_to_first_synced_client_ms"`
	FirstMB   float64  `json:"memory_after_first_client_mb"`
	SyncMS    float64  `json:"all_clients_synced_ms"`
	SyncCPU   float64  `json:"sync_cpu_s"`
	TotalCPU  float64  `json:"cpu_since_start_s"`
	SyncBytes int      `json:"sync_bytes_per_client"`
	RSS       float64  `json:"memory_after_sync_mb"`
	File      float64  `json:"memory_after_sync_of_files_mb"` // of RSS: pages of the program's file, which the system may take back
	Peak      float64  `json:"memory_peak_mb"`
	Changes   []change `json:"changes"`
	Restart   *restart `json:"restart,omitempty"`
	Against   *result  `json:"against,omitempty"` // another program's, where one is measured beside it
}

// change is one kind of change, done several times.
type change struct {
	Name      string  `json:"name"`
	Times     int     `json:"times"`
	LastMS    float64 `json:"last_ms_median"`
	LastP99   float64 `json:"last_ms_p99"`
	CPU       float64 `json:"cpu_s_per_change_median"`
	Bytes     float64 `json:"bytes_per_client_median"`
	Resources float64 `json:"resources_per_client_median"`
	Rows      float64 `json:"rows_recomputed_median"`
	Untouched int     `json:"clients_that_got_nothing"`
}

type restart struct {
	SyncMS    float64 `json:"all_clients_back_ms"`
	CPU       float64 `json:"cpu_s"`
	Resources int     `json:"resources_sent"`
	Bytes     int     `json:"bytes_sent"`
}

// bench runs one shape.
type bench struct {
	binary   string
	scratch  string
	rounds   int
	rules    rules
	server   *server
	profiles string // folder for profiles; empty: none are taken
	reader   *ads.Reader
	clients  []*ads.Client
	index    map[*ads.Client]int
	hosts    []int // how many services each client sees
	events   chan ads.Event
}

func (b *bench) run(ctx context.Context) (res result, err error) {
	res.Shape = b.rules.shape
	if err := os.MkdirAll(b.rules.dir, 0o755); err != nil {
		return res, err
	}
	if res.Objects, err = b.rules.write(); err != nil {
		return res, err
	}
	logPath := filepath.Join(b.scratch, "pilot-discovery.log")
	if b.server, err = startServer(b.binary, b.rules.dir, logPath); err != nil {
		return res, err
	}
	defer func() {
		for _, c := range b.clients {
			c.Disconnect()
		}
		if stopErr := b.server.stop(); err == nil && stopErr != nil {
			err = fmt.Errorf("stop server: %w", stopErr)
		}
	}()
	b.reader = ads.NewReader()
	b.index = map[*ads.Client]int{}
	b.events = make(chan ads.Event, 1<<16)
	for i := range b.rules.shape.Clients {
		c := ads.New(node(i, b.rules.namespace(i)), b.reader, func(ev ads.Event) { b.events <- ev })
		b.index[c] = i
		b.clients = append(b.clients, c)
		b.hosts = append(b.hosts, b.rules.hosts(i))
	}
	if err := b.first(ctx, &res); err != nil {
		return res, err
	}
	if err := b.sync(ctx, &res, logPath); err != nil {
		return res, err
	}
	if err := b.changes(ctx, &res); err != nil {
		return res, err
	}
	if res.Restart, err = b.restart(ctx, logPath); err != nil {
		return res, err
	}
	return res, nil
}

func (b *bench) first(ctx context.Context, res *result) error {
	if err := b.clients[0].Connect(ctx, b.server.grpcAddr); err != nil {
		return err
	}
	if err := b.await(ctx, b.clients[:1]); err != nil {
		return err
	}
	res.FirstMS = ms(time.Since(b.server.started))
	now, err := b.server.memory()
	res.FirstMB = mb(now.rss)
	if err != nil {
		return err
	}
	if err := b.server.ready(ctx); err != nil {
		return err
	}
	res.ReadyMS = ms(time.Since(b.server.started))
	return nil
}

// sync starts a new server and connects all clients, which hold nothing, once it is ready. So the reading and
// validating of the files, which cold start measures, is not counted here, but all work that clients cause is.
func (b *bench) sync(ctx context.Context, res *result, logPath string) error {
	if err := b.replaceServer(ctx, logPath); err != nil {
		return err
	}
	for i, c := range b.clients {
		b.clients[i] = b.blank(c)
	}
	profiled := b.profile(ctx, "sync")
	before, err := b.server.cpu()
	if err != nil {
		return err
	}
	start := time.Now()
	for _, c := range b.clients {
		if err := c.Connect(ctx, b.server.grpcAddr); err != nil {
			return err
		}
	}
	if err := b.await(ctx, b.clients); err != nil {
		return err
	}
	res.SyncMS = ms(time.Since(start))
	if err := b.quiet(ctx); err != nil {
		return err
	}
	after, err := b.server.cpu()
	if err != nil {
		return err
	}
	if err := <-profiled; err != nil {
		return err
	}
	res.SyncCPU, res.TotalCPU = (after - before).Seconds(), after.Seconds()
	if err := b.settleMemory(ctx); err != nil {
		return err
	}
	now, err := b.server.memory()
	res.RSS, res.File, res.Peak = mb(now.rss), mb(now.file), mb(now.peak)
	for _, c := range b.clients {
		res.SyncBytes += c.TakeTotals().Bytes
	}
	res.SyncBytes /= len(b.clients)
	return errors.Join(err, b.save("heap", "/debug/pprof/heap?gc=1"))
}

// settleMemory gives the server a few seconds without load, as it has most of its life, before its memory is read. The server gives
// memory back within three seconds, and a busy machine takes longer.
func (b *bench) settleMemory(ctx context.Context) error {
	timer := time.NewTimer(5 * time.Second)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// blank is a client like c that holds nothing.
func (b *bench) blank(c *ads.Client) *ads.Client {
	fresh := ads.New(c.Node, b.reader, func(ev ads.Event) { b.events <- ev })
	b.index[fresh] = b.index[c]
	delete(b.index, c)
	return fresh
}

// replaceServer stops the server and starts a new one on the same files; it returns when that is ready. The clients are disconnected.
func (b *bench) replaceServer(ctx context.Context, logPath string) error {
	for _, c := range b.clients {
		c.Disconnect()
	}
	if err := b.server.stop(); err != nil {
		return err
	}
	next, err := startServer(b.binary, b.rules.dir, logPath)
	if err != nil {
		return err
	}
	b.server = next
	if err := b.server.ready(ctx); err != nil {
		return err
	}
	b.collect()
	for len(b.events) > 0 {
		<-b.events
	}
	return nil
}

// await waits until the clients are synced.
func (b *bench) await(ctx context.Context, clients []*ads.Client) error {
	synced := func(c *ads.Client) bool { return c.Synced(b.hosts[b.index[c]]) }
	left := map[*ads.Client]bool{}
	for _, c := range clients {
		if !synced(c) {
			left[c] = true
		}
	}
	for len(left) > 0 {
		select {
		case ev := <-b.events:
			if ev.Err != nil {
				return b.failed(ev)
			}
			if left[ev.Client] && synced(ev.Client) {
				delete(left, ev.Client)
			}
		case <-ctx.Done():
			for c := range left {
				return fmt.Errorf("%d clients not synced; client %d holds %s: %w", len(left), b.index[c], c.State(), ctx.Err())
			}
		}
	}
	return nil
}

// quiet waits until nothing has arrived for a while, so that late or needless responses are counted too.
func (b *bench) quiet(ctx context.Context) error {
	const still = 150 * time.Millisecond
	timer := time.NewTimer(still)
	defer timer.Stop()
	for {
		select {
		case ev := <-b.events:
			if ev.Err != nil {
				return b.failed(ev)
			}
			timer.Reset(still)
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// edit is one change of the mesh: the change on disk, its service, and the resources that each client that sees the
// service must have received when the change has reached it.
type edit struct {
	do     func() error
	of     int
	expect map[string]bool // "<type> <name>", present or removed
}

func (b *bench) failed(ev ads.Event) error {
	return fmt.Errorf("client %d: %w", b.index[ev.Client], ev.Err)
}

func key(typeURL, name string) string { return typeURL + " " + name }

func (b *bench) changes(ctx context.Context, res *result) error {
	r := b.rules
	vhost := func(i int) string { return key(ads.VirtualHostType, "80/"+r.host(i)+":80") }
	added := r.shape.Services
	for _, kind := range []struct {
		name string
		edit func(round int) edit
	}{
		{"one route changed", func(n int) edit {
			return edit{
				func() error { return replace(r.path("route", 0), r.virtualService(0, 10+n%80)) },
				0,
				map[string]bool{vhost(0): true},
			}
		}},
		{"one DestinationRule changed", func(n int) edit {
			want := map[string]bool{}
			for _, subset := range []string{"", "v1", "v2"} {
				name := "outbound|80|" + subset + "|" + r.host(0)
				want[key(ads.ClusterType, name)], want[key(ads.EndpointType, name)] = true, true
			}
			return edit{func() error { return replace(r.path("rule", 0), r.destinationRule(0, 2000+n)) }, 0, want}
		}},
		{"one service added", func(n int) edit {
			i := added + n
			name := "outbound|80||" + r.host(i)
			return edit{func() error { return replace(r.path("service", i), r.service(i, 0)) }, i,
				map[string]bool{vhost(i): true, key(ads.ClusterType, name): true, key(ads.EndpointType, name): true}}
		}},
		{"one endpoint changed", func(n int) edit {
			return edit{func() error { return replace(r.path("service", 1), r.service(1, 100+n%100)) }, 1,
				map[string]bool{key(ads.EndpointType, "outbound|80||"+r.host(1)): true}}
		}},
		{"one service removed", func(n int) edit {
			i := added + n
			return edit{func() error { return os.Remove(r.path("service", i)) }, i,
				map[string]bool{vhost(i): true, key(ads.ClusterType, "outbound|80||"+r.host(i)): true}}
		}},
	} {
		c, err := b.repeat(ctx, kind.name, kind.edit)
		if err != nil {
			return fmt.Errorf("%s: %w", kind.name, err)
		}
		res.Changes = append(res.Changes, c)
	}
	return nil
}

func (b *bench) repeat(ctx context.Context, name string, next func(round int) edit) (change, error) {
	var last, cpu, bytes, resources, rows []float64
	c := change{Name: name, Times: b.rounds, Untouched: -1}
	for n := range b.rounds {
		rows0, err := b.server.metric("fairway_rows_recomputed_total")
		if err != nil {
			return c, err
		}
		cpu0, err := b.server.cpu()
		if err != nil {
			return c, err
		}
		took, err := b.once(ctx, next(n))
		if err != nil {
			return c, err
		}
		if err := b.quiet(ctx); err != nil {
			return c, err
		}
		cpu1, err := b.server.cpu()
		if err != nil {
			return c, err
		}
		rows1, err := b.server.metric("fairway_rows_recomputed_total")
		if err != nil {
			return c, err
		}
		sumBytes, sumResources, untouched := b.collect()
		last = append(last, ms(took))
		cpu = append(cpu, (cpu1 - cpu0).Seconds())
		bytes = append(bytes, sumBytes)
		resources = append(resources, sumResources)
		rows = append(rows, rows1-rows0)
		c.Untouched = untouched
	}
	c.LastMS, c.LastP99 = quantile(last, 0.5), quantile(last, 0.99)
	c.CPU, c.Bytes, c.Resources, c.Rows = quantile(cpu, 0.5), quantile(bytes, 0.5), quantile(resources, 0.5), quantile(rows, 0.5)
	return c, nil
}

// once makes an edit and returns the time until the last client received all of it.
func (b *bench) once(ctx context.Context, e edit) (time.Duration, error) {
	left := make([]int, len(b.clients))
	seen := make([]map[string]bool, len(b.clients))
	waiting := 0
	for i := range left {
		if b.rules.sees(i, e.of) {
			left[i], seen[i] = len(e.expect), map[string]bool{}
			waiting++
		}
	}
	start := time.Now()
	if err := e.do(); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	end := start
	for waiting > 0 {
		select {
		case ev := <-b.events:
			if ev.Err != nil {
				return 0, b.failed(ev)
			}
			i := b.index[ev.Client]
			for _, name := range slices.Concat(ev.Names, ev.Removed) {
				k := key(ev.Type, name)
				if !e.expect[k] || left[i] == 0 || seen[i][k] {
					continue
				}
				seen[i][k] = true
				if left[i]--; left[i] == 0 {
					waiting--
					end = ev.At
				}
			}
		case <-ctx.Done():
			return 0, fmt.Errorf("%d clients did not hear of it: %w; %s", waiting, ctx.Err(), missing(e, seen))
		}
	}
	return end.Sub(start), nil
}

func missing(e edit, seen []map[string]bool) string {
	var b strings.Builder
	for i, have := range seen {
		if have != nil && len(have) < len(e.expect) {
			for k := range e.expect {
				if !have[k] {
					fmt.Fprintf(&b, "client %d lacks %s; ", i, k)
				}
			}
			break
		}
	}
	return b.String()
}

// collect averages what clients received since the last call.
func (b *bench) collect() (bytes, resources float64, untouched int) {
	for _, c := range b.clients {
		t := c.TakeTotals()
		bytes += float64(t.Bytes)
		resources += float64(t.Resources + t.Removed)
		if t.Responses == 0 {
			untouched++
		}
	}
	n := float64(len(b.clients))
	return bytes / n, resources / n, untouched
}

// restart replaces the server by a new one with nothing changed; the clients come back with all they hold.
func (b *bench) restart(ctx context.Context, logPath string) (*restart, error) {
	if err := b.replaceServer(ctx, logPath); err != nil {
		return nil, err
	}
	profiled := b.profile(ctx, "restart")
	before, err := b.server.cpu()
	if err != nil {
		return nil, err
	}
	start := time.Now()
	for _, c := range b.clients {
		if err := c.Connect(ctx, b.server.grpcAddr); err != nil {
			return nil, err
		}
	}
	if err := b.await(ctx, b.clients); err != nil {
		return nil, err
	}
	if err := b.quiet(ctx); err != nil {
		return nil, err
	}
	after, err := b.server.cpu()
	if err != nil {
		return nil, err
	}
	if err := <-profiled; err != nil {
		return nil, err
	}
	out := &restart{SyncMS: ms(time.Since(start)), CPU: (after - before).Seconds()}
	for _, c := range b.clients {
		t := c.TakeTotals()
		out.Resources += t.Resources
		out.Bytes += t.Bytes
	}
	return out, nil
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
func mb(n int64) float64         { return float64(n) / (1 << 20) }

// quantile returns the value below which the share q of the samples lies (nearest rank).
func quantile(samples []float64, q float64) float64 {
	if len(samples) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(samples))
	i := int(q*float64(len(s))+0.9999) - 1
	return s[min(max(i, 0), len(s)-1)]
}
