package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"fairway/test/ads"
)

// asking is what questions to a large control plane cost: its time for each, and how much later routes come while many are asked.
type asking struct {
	Shape     shape      `json:"shape"`
	SyncMS    float64    `json:"all_clients_back_ms"`
	RSS       float64    `json:"memory_mb"`
	Questions []question `json:"questions"`
	Changes   []delayed  `json:"changes"`
}

// question is one question, asked several times: as a user does, with pilotctl, or a page alone.
type question struct {
	Name  string  `json:"name"`
	MS    float64 `json:"ms_median"`
	MaxMS float64 `json:"ms_max"`
	CPU   float64 `json:"server_cpu_s_median"`
}

// delayed is one kind of change, made without questions and beside them: milliseconds until clients were sent it.
type delayed struct {
	Name    string `json:"name"`
	Clients int    `json:"clients"`
	Alone   delays `json:"alone"`
	Beside  delays `json:"beside_questions"`
	Asked   int    `json:"questions_asked"`
}

// delays are of the first client, the middle one and the last.
type delays struct {
	First, Middle, Last figures
}

type figures struct{ Median, P99, Max float64 }

// interrogation asks questions of a server under a fleet.
type interrogation struct {
	*bench
	pilotctl string
	clients  int // of the fleet; the bench has one real client a namespace
	fleet    *fleet
}

// interrogate measures questions at a shape.
func (o options) interrogate(ctx context.Context, s shape) (res asking, err error) {
	dir, err := os.MkdirTemp(o.scratch, "questions-")
	if err != nil {
		return res, err
	}
	ctx, cancel := context.WithTimeout(ctx, o.limit)
	defer cancel()
	res.Shape = s
	clients := s.Clients
	s.Clients = s.Namespaces
	b := &bench{binary: o.binary, scratch: dir, rounds: o.rounds, profiles: o.profiles, rules: rules{filepath.Join(dir, "rules"), s}}
	in := &interrogation{bench: b, pilotctl: filepath.Join(filepath.Dir(o.binary), "pilotctl"), clients: clients}
	if err := os.MkdirAll(b.rules.dir, 0o755); err != nil {
		return res, err
	}
	if _, err := b.rules.write(); err != nil {
		return res, err
	}
	if err := replace(b.rules.path("route", in.own()), in.ownRoute(50)); err != nil {
		return res, err
	}
	logPath := filepath.Join(dir, "pilot-discovery.log")
	b.server, err = startServer(b.binary, b.rules.dir, logPath, "--maxProxiesPerIdentity", "100000", "--newStreamsPerSecond", "100000",
		"--maxStreams", "100000")
	if err != nil {
		return res, err
	}
	defer func() {
		if in.fleet != nil {
			in.fleet.stop()
		}
		err = errors.Join(err, b.server.stop())
	}()
	if err := in.connect(ctx, &res); err != nil {
		return res, err
	}
	if err := in.each(ctx, &res); err != nil {
		return res, err
	}
	return res, in.delays(ctx, &res)
}

// connect brings the fleet: one real client of each namespace learns what its proxies hold, and they come back with that.
func (in *interrogation) connect(ctx context.Context, res *asking) error {
	b := in.bench
	if err := b.server.ready(ctx); err != nil {
		return err
	}
	b.reader, b.index = ads.NewReader(), map[*ads.Client]int{}
	var held [][][]byte
	for i := range b.rules.shape.Namespaces {
		events := make(chan ads.Event, 1<<12) // of this client: one before may fail once it is to go
		b.events = events
		c := ads.New(node(i, b.rules.namespace(i)), b.reader, func(ev ads.Event) { events <- ev })
		b.index[c], b.hosts = i, append(b.hosts, b.rules.hosts(i))
		if err := c.Connect(ctx, b.server.grpcAddr); err != nil {
			return err
		}
		if err := b.await(ctx, []*ads.Client{c}); err != nil {
			return err
		}
		c.Disconnect()
		requests, err := returning(c)
		if err != nil {
			return err
		}
		held = append(held, requests)
	}
	start := time.Now()
	var err error
	in.fleet, err = startFleet(b.server.grpcAddr, in.clients, func(i int) ([]byte, [][]byte) {
		text, err := encodedNode(node(i, b.rules.namespace(i)))
		if err != nil {
			panic(err) // a node of ours
		}
		return text, held[i%len(held)]
	})
	if err != nil {
		return err
	}
	if err := in.live(ctx); err != nil {
		return err
	}
	res.SyncMS = ms(time.Since(start))
	if err := b.settleMemory(ctx); err != nil {
		return err
	}
	now, err := b.server.memory()
	res.RSS = mb(now.rss)
	return err
}

// live waits until a route is in force on the whole fleet.
func (in *interrogation) live(ctx context.Context) error {
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for {
		text, err := in.page(ctx, "/debug/livez?kind=VirtualService&namespace="+in.rules.namespace(0)+"&name=svc-0")
		if err == nil && strings.Contains(text, `"state": "live"`) && strings.Contains(text, fmt.Sprintf("\"proxies\": %d\n", in.clients)) {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("the fleet is not synced: %w: %.500s", ctx.Err(), text), err, in.fleet.err)
		}
	}
}

// page reads a page of the server to its end.
func (in *interrogation) page(ctx context.Context, path string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+in.server.http+path, nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %.200s", path, resp.Status, text)
	}
	return string(text), err
}

// asks is one question: the arguments of pilotctl, none for a page alone, and the pages that it reads.
type asks struct {
	name  string
	args  []string
	pages []string
}

func (in *interrogation) asks() []asks {
	ns, host := in.rules.namespace(0), in.rules.host(0)
	object := "kind=VirtualService&namespace=" + ns + "&name=svc-0"
	proxy := "client-0." + ns
	request := "/debug/explainz?method=GET&port=80&path=/&host=" + host + "&proxyID=" + proxy
	line := fmt.Sprintf(`[2026-11-28T10:02:03.118Z] "GET / HTTP/1.1" 503 UH no_healthy_upstream - "-" 0 19 0 - "-" "curl/8.5" "0a-2" `+
		`"%s" "-" outbound|80|v1|%s - 10.64.0.0:80 10.61.0.0:40000 - -`, host, host)
	live, applies, problems := "/debug/livez?"+object, "/debug/appliesz?"+object, "/debug/problems"
	return []asks{
		{"wait KIND/NAME", []string{"wait", "virtualservice/" + ns + "/svc-0"}, []string{live}},
		{"explain PROXY METHOD HOST", []string{"explain", proxy, "GET", host + ":80/"}, []string{request}},
		{"explain KIND/NAME", []string{"explain", "virtualservice/" + ns + "/svc-0"}, []string{live, applies, problems}},
		{"explain --log LINE", []string{"explain", "--log", line}, []string{"/debug/syncz", request}},
		{"history", []string{"history"}, []string{"/debug/historyz"}},
		{"applies KIND NAME", []string{"applies", "virtualservice", ns + "/svc-0"}, []string{applies}},
		{"proxy-status", []string{"proxy-status"}, []string{"/debug/syncz"}},
		{"the snapshot of plan", nil, []string{"/debug/snapshotz"}},
		{"plan -f FILE", []string{"plan", "-f", in.planned()}, nil},
	}
}

// planned is the name of a file with a change that is not made.
func (in *interrogation) planned() string { return filepath.Join(in.scratch, "planned.yaml") }

// each asks each question several times, one at a time.
func (in *interrogation) each(ctx context.Context, res *asking) error {
	if err := os.WriteFile(in.planned(), []byte(in.rules.virtualService(0, 7)), 0o644); err != nil {
		return err
	}
	for _, q := range in.asks() {
		var took, cpu []float64
		for n := range min(in.rounds, 9) {
			// something has happened before each question, as it has in a mesh that is used
			if _, _, _, err := in.change(ctx, in.everybody(n)); err != nil {
				return err
			}
			before, err := in.server.cpu()
			if err != nil {
				return err
			}
			start := time.Now()
			if err := in.ask(ctx, q); err != nil {
				return fmt.Errorf("%s: %w", q.name, err)
			}
			took = append(took, ms(time.Since(start)))
			after, err := in.server.cpu()
			if err != nil {
				return err
			}
			cpu = append(cpu, (after - before).Seconds())
		}
		res.Questions = append(res.Questions, question{q.name, quantile(took, 0.5), quantile(took, 1), quantile(cpu, 0.5)})
	}
	return nil
}

// ask asks as a user does.
func (in *interrogation) ask(ctx context.Context, q asks) error {
	if len(q.args) == 0 {
		return in.read(ctx, q)
	}
	cmd := exec.CommandContext(ctx, in.pilotctl, append(q.args, "--address", in.server.http)...)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	err := cmd.Run()
	var ended *exec.ExitError
	if errors.As(err, &ended) && ended.ExitCode() == 1 { // the answer is no
		err = nil
	}
	if err != nil {
		return fmt.Errorf("%w: %.1000s", err, said.String())
	}
	return nil
}

// read reads the pages of a question.
func (in *interrogation) read(ctx context.Context, q asks) error {
	for _, p := range q.pages {
		if _, err := in.page(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// own is a service with a route that only its namespace sees.
func (in *interrogation) own() int { return 5 }

func (in *interrogation) ownRoute(weight int) string {
	return strings.Replace(in.rules.virtualService(in.own(), weight), "spec:\n", "spec:\n  exportTo: [\".\"]\n", 1)
}

// timed is a change, and how many clients are sent it.
type timed struct {
	do      func() error
	clients int
}

func (in *interrogation) everybody(n int) timed {
	r := in.rules
	return timed{func() error { return replace(r.path("route", 0), r.virtualService(0, 10+n%80)) }, in.clients}
}

func (in *interrogation) namespace(n int) timed {
	of, clients := in.own()%in.rules.shape.Namespaces, 0
	for i := range in.clients {
		if i%in.rules.shape.Namespaces == of {
			clients++
		}
	}
	return timed{func() error { return replace(in.rules.path("route", in.own()), in.ownRoute(10+n%80)) }, clients}
}

// change makes a change and returns when the first client, the middle one and the last were sent it.
func (in *interrogation) change(ctx context.Context, c timed) (first, middle, last time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	in.fleet.expect(c.clients)
	start := time.Now()
	if err := c.do(); err != nil {
		return 0, 0, 0, err
	}
	a, b, z, err := in.fleet.await(ctx)
	return a.Sub(start), b.Sub(start), z.Sub(start), err
}

const (
	aMinute = 100 // questions
	batches = 4   // each with and without questions, in turn
)

// delays makes changes without questions and beside them.
func (in *interrogation) delays(ctx context.Context, res *asking) error {
	n := 0
	for _, kind := range []struct {
		name  string
		times int // as often as a round
		next  func(n int) timed
	}{
		{"a route that one namespace sees", 4, in.namespace},
		{"a route that all proxies see", 1, in.everybody},
	} {
		d := delayed{Name: kind.name, Clients: kind.next(0).clients}
		var alone, beside [3][]float64
		for batch := range 2 * batches {
			into, stop := &alone, func() (int, error) { return 0, nil }
			if batch%2 == 1 {
				into, stop = &beside, in.inquire(ctx)
			}
			for range max(1, kind.times*in.rounds/batches) {
				n++
				if err := in.once(ctx, kind.next(n), into); err != nil {
					_, _ = stop()
					return err
				}
			}
			asked, err := stop()
			if err != nil {
				return err
			}
			d.Asked += asked
		}
		d.Alone, d.Beside = summed(alone), summed(beside)
		res.Changes = append(res.Changes, d)
	}
	return nil
}

// once makes a change after a pause, and notes its delays.
func (in *interrogation) once(ctx context.Context, c timed, into *[3][]float64) error {
	pause := time.NewTimer(150 * time.Millisecond)
	defer pause.Stop()
	select {
	case <-pause.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	first, middle, last, err := in.change(ctx, c)
	for i, d := range []time.Duration{first, middle, last} {
		into[i] = append(into[i], ms(d))
	}
	return err
}

// inquire asks all questions in turn at a steady rate, and lets none wait for another. The function that it returns stops that, and returns
// how many were asked.
func (in *interrogation) inquire(ctx context.Context) (stop func() (int, error)) {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	var mu sync.Mutex
	var failed error
	n := 0
	all.Go(func() {
		tick := time.NewTicker(time.Minute / aMinute)
		defer tick.Stop()
		for list := in.asks(); ; n++ {
			q := list[n%len(list)]
			all.Go(func() {
				if err := in.read(ctx, q); err != nil && ctx.Err() == nil {
					mu.Lock()
					defer mu.Unlock()
					failed = errors.Join(failed, fmt.Errorf("%s: %w", q.name, err))
				}
			})
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	})
	return func() (int, error) {
		cancel()
		all.Wait()
		return n, failed
	}
}

func summed(of [3][]float64) delays {
	sum := func(l []float64) figures { return figures{quantile(l, 0.5), quantile(l, 0.99), quantile(l, 1)} }
	return delays{sum(of[0]), sum(of[1]), sum(of[2])}
}

func printAsking(to io.Writer, a asking) {
	fmt.Fprintf(to, "\nquestions at %s\n", a.Shape)
	w := tabwriter.NewWriter(to, 2, 8, 2, ' ', 0)
	fmt.Fprintf(w, "  all clients back, with what they hold\t%.0f ms\t%.0f MB\n", a.SyncMS, a.RSS)
	for _, q := range a.Questions {
		fmt.Fprintf(w, "  %s\t%.0f ms (most %.0f)\t%.0f ms CPU of the server\n", q.Name, q.MS, q.MaxMS, q.CPU*1000)
	}
	for _, c := range a.Changes {
		fmt.Fprintf(w, "  %s\t%d clients\t%d questions, %d a minute\n", c.Name, c.Clients, c.Asked, aMinute)
		for _, of := range []struct {
			name          string
			alone, beside figures
		}{
			{"first client", c.Alone.First, c.Beside.First},
			{"middle client", c.Alone.Middle, c.Beside.Middle},
			{"last client", c.Alone.Last, c.Beside.Last},
		} {
			fmt.Fprintf(w, "    %s\t%.1f ms (p99 %.1f, most %.1f)\tbeside questions %.1f ms (p99 %.1f, most %.1f)\n", of.name,
				of.alone.Median, of.alone.P99, of.alone.Max, of.beside.Median, of.beside.P99, of.beside.Max)
		}
	}
	w.Flush()
}
