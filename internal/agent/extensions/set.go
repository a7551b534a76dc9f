package extensions

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"fairway/internal/agent/relay"
	"fairway/internal/agent/token"
	"fairway/internal/envoy/extension"
	"fairway/internal/identity/safefile"
	"fairway/internal/printable"
	"fairway/internal/xdstype"
)

// Options of a Set.
type Options struct {
	Socket string      // where Envoy asks
	Token  token.Token // that Envoy shows; empty: none is required
	Dir    string      // of the modules; created if missing, for the owner alone
	// Credentials returns the logins for registries, in the form of Docker's config.json; nil, or nothing: there are none.
	Credentials func() ([]byte, error)
	// Folders are absolute paths; a module by file:// must be below one of them. Empty: every file that this user may read.
	Folders []string
	Log     *slog.Logger
	// Retry is the wait after a failed fetch, doubling up to RetryMax; 0: 1 s and 1 minute.
	Retry, RetryMax time.Duration
}

// Bounds on orders, stored modules and fetches.
const (
	mostOrders  = 256
	mostModules = 64        // files on disk
	mostKept    = 512 << 20 // bytes of them
	atOnce      = 4         // fetches
)

// order is an order that the control plane has sent.
type order struct {
	extension.Order
	source string // identifies the module: equal sources are the same module
}

// state is the state of an order. served may be of an order before it.
type state struct {
	order   order
	served  *anypb.Any // nil: nothing yet
	version string     // of served
	file    string     // that served names
	got     string     // source of the module that is there
	why     string     // it could not be had; empty: it is there, or has not been asked for
	fails   int
	due     time.Time // when it is asked for again
	asking  bool
}

// Set is the extensions of one proxy. It is made with New; its methods may be called from any goroutine.
type Set struct {
	o      Options
	client *http.Client

	mu      sync.Mutex // guards what follows
	states  map[string]*state
	index   map[string]string // source → file
	news    chan struct{}     // closed when something is served that was not
	changed chan struct{}     // holds a token while Run is to look
	fetched prometheus.Counter
	failed  prometheus.Counter
	lookups *prometheus.CounterVec // by hit
	remote  *prometheus.CounterVec // by result
}

// New makes a set that has no orders.
func New(o Options) *Set {
	o.Retry, o.RetryMax = cmp.Or(o.Retry, time.Second), cmp.Or(o.RetryMax, time.Minute)
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "wasm_" + name, Help: help})
	}
	return &Set{
		o: o, client: newClient(), states: map[string]*state{}, index: map[string]string{},
		news: make(chan struct{}), changed: make(chan struct{}, 1),
		fetched: counter("modules_fetched_total", "Wasm modules that were fetched and verified."),
		failed:  counter("module_fetches_failed_total", "Fetches of Wasm modules that failed."),
		lookups: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "wasm_cache_lookup_count", Help: "Looks for a Wasm module among those on disk, by hit: true, false.",
		}, []string{"hit"}),
		remote: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "wasm_remote_fetch_count",
			Help: "Fetches of Wasm modules from servers and registries, by result: success, download_failure, checksum_mismatched.",
		}, []string{"result"}),
	}
}

// Collectors returns the set's metrics.
func (s *Set) Collectors() []prometheus.Collector {
	gauge := func(name, help string, value func() int) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "wasm_" + name, Help: help}, func() float64 { return float64(value()) })
	}
	return []prometheus.Collector{
		s.fetched, s.failed, s.lookups, s.remote,
		gauge("modules_missing", "Extensions with a Wasm module that is not available yet.", func() int { return len(s.Missing()) }),
		gauge("cache_entries", "Wasm modules on disk, by their sources.", s.sources),
	}
}

// Subscription returns the subscription that asks the control plane for the orders of this proxy.
func (s *Set) Subscription() relay.Subscription {
	return relay.Subscription{Type: xdstype.ModuleURL, Take: s.take, Keep: extension.WithoutSecret}
}

func (s *Set) take(u relay.Update) error {
	read := map[string]order{}
	for _, r := range u.Changed {
		o, err := extension.DecodeOrder(r.Body)
		if err != nil {
			return fmt.Errorf("extension %s: %w", r.Name, err)
		}
		read[r.Name] = order{o, o.URL + "\n" + o.SHA256 + "\n" + o.Version}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range u.Removed {
		delete(s.states, name)
	}
	for name, o := range read {
		have := s.states[name]
		if have == nil {
			if len(s.states) >= mostOrders {
				return fmt.Errorf("there are more than %d extensions", mostOrders)
			}
			have = &state{}
			s.states[name] = have
		}
		same := have.order.source == o.source
		again := !same || have.order.Secret != o.Secret && have.got != o.source
		have.order = o
		if again {
			have.why, have.fails, have.due, have.asking = "", 0, time.Time{}, false
		} else if have.got == o.source {
			s.serve(have, have.file) // it runs otherwise
		}
	}
	s.wake()
	return nil
}

// wake makes Run look for modules to fetch.
func (s *Set) wake() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// Missing returns the extensions that have no module yet, each with the reason.
func (s *Set) Missing() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]string{}
	for name, st := range s.states {
		if st.got != st.order.source {
			out[name] = cmp.Or(st.why, "it is being fetched")
		}
	}
	return out
}

// failing returns the extensions that failed to get their module, each with the reason.
func (s *Set) failing() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]string{}
	for name, st := range s.states {
		if st.why != "" {
			out[name] = st.why
		}
	}
	return out
}

// Run serves Envoy, and fetches what is ordered, until ctx ends. It calls up once the socket exists. It calls report with the
// modules that cannot be fetched, whenever they change.
func (s *Set) Run(ctx context.Context, up func(), report func(map[string]string)) error {
	if err := safefile.Folder(s.o.Dir); err != nil {
		return fmt.Errorf("the folder of Wasm modules: %w", err)
	}
	return s.listen(ctx, func() {
		up()
		s.work(ctx, report)
	})
}

// work fetches, until ctx ends.
func (s *Set) work(ctx context.Context, report func(map[string]string)) {
	var running sync.WaitGroup
	defer running.Wait()
	slots := make(chan struct{}, atOnce)
	told := map[string]string{}
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		timer.Reset(s.begin(ctx, time.Now(), func(name string, o order) {
			running.Go(func() {
				select {
				case slots <- struct{}{}:
				case <-ctx.Done():
					return
				}
				defer func() { <-slots }()
				file, err := s.get(ctx, o)
				if ctx.Err() == nil {
					s.done(name, o, file, err)
				}
			})
		}))
		if now := s.failing(); !maps.Equal(now, told) {
			told = now
			report(now)
		}
		select {
		case <-ctx.Done():
			return
		case <-s.changed:
		case <-timer.C:
		}
	}
}

// begin starts the fetches that are due, and returns when the next one is.
func (s *Set) begin(ctx context.Context, now time.Time, start func(string, order)) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	wait := time.Hour
	for _, name := range slices.Sorted(maps.Keys(s.states)) {
		st := s.states[name]
		switch {
		case st.asking || st.got == st.order.source:
		case now.Before(st.due):
			wait = min(wait, st.due.Sub(now))
		case ctx.Err() == nil:
			st.asking = true
			start(name, st.order)
		}
	}
	return wait
}

// done notes the result of a fetch. If the order has changed meanwhile, its module is fetched again.
func (s *Set) done(name string, o order, file string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.wake()
	st := s.states[name]
	if st == nil || st.order.source != o.source || err != nil && st.order.Secret != o.Secret {
		return
	}
	st.asking = false
	if err != nil {
		s.failed.Inc()
		st.why = printable.Lines(reasonFor(err), printable.Short)
		st.due = time.Now().Add(min(s.o.RetryMax, s.o.Retry<<min(st.fails, 16)))
		st.fails++
		s.o.Log.Error("a Wasm module cannot be fetched", "extension", printable.Text(name, printable.Short), "error", err)
		return
	}
	s.fetched.Inc()
	st.why, st.fails, st.got = "", 0, o.source
	s.serve(st, file)
	s.tidy()
}

// serve makes Envoy run the module in a file; the caller holds mu.
func (s *Set) serve(st *state, file string) {
	config, err := extension.WithModule(st.order.Config, file)
	if err == nil {
		st.served, err = anypb.New(config)
	}
	if err != nil {
		st.why = printable.Lines(err.Error(), printable.Short)
		return
	}
	raw, _ := proto.MarshalOptions{Deterministic: true}.Marshal(config) // it was read from bytes
	sum := sha256.Sum256(raw)
	st.file, st.version = file, hex.EncodeToString(sum[:8])
	close(s.news)
	s.news = make(chan struct{})
}

// get finds a module on disk, or fetches it and stores it there. Its file is named by the SHA-256 of the content.
func (s *Set) get(ctx context.Context, o order) (string, error) {
	file, ok := s.known(o)
	s.lookups.WithLabelValues(strconv.FormatBool(ok)).Inc()
	if ok {
		s.remember(o.source, file)
		return file, nil
	}
	module, err := s.fetch(ctx, o)
	if !strings.HasPrefix(o.URL, "file:") && ctx.Err() == nil {
		s.remote.WithLabelValues(resultOf(err)).Inc()
	}
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(module)
	file = filepath.Join(s.o.Dir, hex.EncodeToString(sum[:])+suffix)
	if err := safefile.Write(file, module, 0o600); err != nil {
		return "", fmt.Errorf("keep the module: %w", err)
	}
	s.remember(o.source, file)
	return file, nil
}

// suffix ends the names of modules' files.
const suffix = ".wasm"

// known finds a module that is on disk: by its order's source, or by the SHA-256 that it must have.
func (s *Set) known(o order) (string, bool) {
	s.mu.Lock()
	file, ok := s.index[o.source]
	s.mu.Unlock()
	if !ok && o.SHA256 != "" {
		file = filepath.Join(s.o.Dir, filepath.Base(o.SHA256)+suffix)
	}
	if file == "" {
		return "", false
	}
	raw, err := safefile.Read(file, mostBytes)
	if err != nil {
		return "", false
	}
	sum := sha256.Sum256(raw)
	if filepath.Base(file) != hex.EncodeToString(sum[:])+suffix {
		_ = os.Remove(file) // somebody wrote into it
		return "", false
	}
	return file, true
}

// resultOf returns the result of a fetch in Istio's words.
func resultOf(err error) string {
	switch {
	case err == nil:
		return "success"
	case errors.Is(err, errSum):
		return "checksum_mismatched"
	}
	return "download_failure"
}

// sources returns how many sources' modules are on disk.
func (s *Set) sources() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.index)
}

func (s *Set) remember(source, file string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.index[source] = file
}

// tidy removes files that nothing runs, the oldest first, while there are too many; the caller holds mu.
func (s *Set) tidy() {
	used := map[string]bool{}
	for _, st := range s.states {
		used[st.file] = true
	}
	entries, err := os.ReadDir(s.o.Dir)
	if err != nil {
		return
	}
	type kept struct {
		path string
		size int64
		at   time.Time
	}
	var all []kept
	var bytes int64
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() && filepath.Ext(e.Name()) == suffix {
			all = append(all, kept{filepath.Join(s.o.Dir, e.Name()), info.Size(), info.ModTime()})
			bytes += info.Size()
		}
	}
	slices.SortFunc(all, func(a, b kept) int { return a.at.Compare(b.at) })
	n := len(all)
	for _, k := range all {
		if n <= mostModules && bytes <= mostKept {
			return
		}
		if !used[k.path] && os.Remove(k.path) == nil {
			n, bytes = n-1, bytes-k.size
			maps.DeleteFunc(s.index, func(_, file string) bool { return file == k.path })
		}
	}
}
