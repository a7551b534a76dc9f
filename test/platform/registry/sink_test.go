package registry_test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/source"
	"fairway/internal/source/shards"
	"fairway/test/rig"
)

// sink holds the current rows of all sources, as the mesh would: an equal row is no change.
type sink struct {
	set *shards.Set

	mu       sync.Mutex
	services map[mesh.Host]map[mesh.ServiceKey]*mesh.Service
	slices   map[mesh.Host]map[mesh.SliceKey]*mesh.Slice
	objects  map[config.Key]*config.Object
	problems map[source.Place][]mesh.Problem
	batches  int                    // that had rows
	history  map[mesh.Host][]string // what each host was after each batch that was about it; "" where it was gone
	gone     int                    // services, or objects, that went
	wholes   int                    // Updates with whole shards
	updates  int                    // Updates with shards
	shards   int                    // in all of these
	stales   int                    // Updates with a reason for stale rows
	changed  chan struct{}          // closed at the next batch
}

func newSink() *sink {
	k := &sink{
		services: map[mesh.Host]map[mesh.ServiceKey]*mesh.Service{}, slices: map[mesh.Host]map[mesh.SliceKey]*mesh.Slice{},
		objects: map[config.Key]*config.Object{}, problems: map[source.Place][]mesh.Problem{}, history: map[mesh.Host][]string{},
		changed: make(chan struct{}),
	}
	k.set = shards.New(batches{k}, slog.New(slog.DiscardHandler))
	return k
}

// batches is the sink's own end, which takes what has been settled.
type batches struct{ *sink }

func (k batches) Apply(b source.Batch) {
	k.mu.Lock()
	defer k.mu.Unlock()
	touched := map[mesh.Host]bool{}
	for _, gone := range b.Gone.Slices {
		delete(k.slices[gone.Service.Host], gone)
		touched[gone.Service.Host] = true
	}
	for _, gone := range b.Gone.Services {
		delete(k.services[gone.Host], gone)
		k.gone++
		touched[gone.Host] = true
	}
	for _, gone := range b.Gone.Objects {
		touched[hostOf(k.objects[gone])] = true
		delete(k.objects, gone)
		k.gone++
	}
	for _, s := range b.Set.Services {
		put(k.services, s.Key.Host, s.Key, s)
		touched[s.Key.Host] = true
	}
	for _, s := range b.Set.Slices {
		put(k.slices, s.Key.Service.Host, s.Key, s)
		touched[s.Key.Service.Host] = true
	}
	for _, o := range b.Set.Objects {
		touched[hostOf(k.objects[o.Key])], touched[hostOf(o)] = true, true
		k.objects[o.Key] = o
	}
	maps.Copy(k.problems, b.Problems)
	delete(touched, "")
	close(k.changed)
	k.changed = make(chan struct{})
	if b.Set.Len()+b.Gone.Len() > 0 {
		k.batches++
	}
	for host := range touched {
		text := ""
		if v, is := k.view(host); is {
			text = v.String()
		}
		k.history[host] = append(k.history[host], text)
	}
}

func put[K comparable, V any](all map[mesh.Host]map[K]V, host mesh.Host, key K, v V) {
	if all[host] == nil {
		all[host] = map[K]V{}
	}
	all[host][key] = v
}

// hostOf is that of a ServiceEntry; empty: it is none.
func hostOf(o *config.Object) mesh.Host {
	if o == nil || o.Kind != config.ServiceEntry {
		return ""
	}
	if hosts := config.Spec[*networking.ServiceEntry](o).Hosts; len(hosts) > 0 {
		return mesh.Host(hosts[0])
	}
	return ""
}

// counted is what a source hands its Updates to.
type counted struct {
	sink *sink
	next source.Sink
}

func (c counted) Apply(u source.Update) {
	c.sink.mu.Lock()
	if c.sink.shards += len(u.Shards); len(u.Shards) > 0 {
		c.sink.updates++
	}
	if u.Stale != "" {
		c.sink.stales++
	}
	if slices.ContainsFunc(u.Shards, func(s source.Shard) bool { return s.Whole }) {
		c.sink.wholes++
	}
	c.sink.mu.Unlock()
	c.next.Apply(u)
}

// follow runs a source until the test ends, or stop is called. Nothing of it goes on then.
func (k *sink) follow(t testing.TB, s source.Source) (stop func()) {
	t.Helper()
	next, err := k.set.Join(s.Name(), 0)
	if err != nil {
		t.Fatal(err)
	}
	return apart(t, func(ctx context.Context) error { return s.Run(ctx, counted{k, next}) })
}

// spot is an endpoint, as it is seen in rows and in ServiceEntries alike.
type spot struct {
	address  string
	port     string // that is served there
	health   mesh.Health
	zone     string
	weight   uint32
	labels   map[string]string
	also     mesh.Others
	identity string
	network  string
}

// view is a host with all that serves it.
type view struct {
	namespace  string
	ports      string // "80/HTTP,…"
	resolution mesh.Resolution
	spots      []spot // by address and port
}

func (v view) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s [%s] %s", v.namespace, v.ports, v.resolution)
	for _, s := range v.spots {
		fmt.Fprintf(&b, "\n  %s:%s %s zone=%s weight=%d", s.address, s.port, s.health, s.zone, s.weight)
		for _, l := range slices.Sorted(maps.Keys(s.labels)) {
			fmt.Fprintf(&b, " %s=%s", l, s.labels[l])
		}
	}
	return b.String()
}

// view is what there is of a host. mu is held.
func (k *sink) view(host mesh.Host) (out view, is bool) {
	for _, s := range k.services[host] {
		is = true
		out.namespace, out.resolution = s.Key.Namespace, s.Resolution
		var ports []string
		for _, p := range s.Ports {
			ports = append(ports, fmt.Sprintf("%d/%s", p.Number, p.Protocol))
		}
		out.ports = strings.Join(ports, ",")
	}
	for _, s := range k.slices[host] {
		for _, e := range s.Endpoints {
			for _, number := range e.Ports.Map() {
				out.spots = append(out.spots, spot{
					address: e.Address, port: number, health: e.Health, zone: e.Locality.Zone, weight: e.Weight, labels: e.Labels.Map(),
					also: e.Also, identity: e.Identity, network: e.Network,
				})
			}
		}
	}
	for _, o := range k.objects {
		if hostOf(o) == host {
			is = true
			out.entry(o)
		}
	}
	slices.SortFunc(out.spots, func(a, b spot) int {
		return cmp.Or(cmp.Compare(a.address, b.address), cmp.Compare(a.port, b.port))
	})
	return out, is
}

// entry adds what a ServiceEntry says.
func (v *view) entry(o *config.Object) {
	spec := config.Spec[*networking.ServiceEntry](o)
	v.namespace = o.Namespace
	var ports []string
	for _, p := range spec.Ports {
		ports = append(ports, fmt.Sprintf("%d/%s", p.Number, p.Protocol))
	}
	if v.ports = strings.Join(ports, ","); spec.Resolution == networking.ServiceEntry_DNS {
		v.resolution = mesh.DNS
	}
	for _, e := range spec.Endpoints {
		s := spot{address: e.Address, labels: e.Labels, weight: e.Weight, identity: e.ServiceAccount, network: e.Network}
		if parts := strings.Split(e.Locality, "/"); len(parts) > 1 {
			s.zone = parts[1]
		}
		for _, p := range spec.Ports {
			s.port = strconv.FormatUint(uint64(cmp.Or(e.Ports[p.Name], p.TargetPort, p.Number)), 10)
			v.spots = append(v.spots, s)
		}
	}
}

// host is what there is of one.
func (k *sink) host(host string) (view, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.view(mesh.Host(host))
}

// was is what a host was, one after the other.
func (k *sink) was(host string) []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.history[mesh.Host(host)])
}

// hosts counts those that there are.
func (k *sink) hosts() (n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, s := range k.services {
		n += min(len(s), 1)
	}
	return n + len(k.objects)
}

// lost counts services, and objects, that went.
func (k *sink) lost() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.gone
}

// told returns all problems, one a line.
func (k *sink) told() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	var lines []string
	for _, list := range k.problems {
		for _, p := range list {
			lines = append(lines, p.String())
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// String is all that there is, sorted, problems too.
func (k *sink) String() string {
	k.mu.Lock()
	var out strings.Builder
	for _, host := range slices.Sorted(maps.Keys(k.services)) {
		for _, v := range k.services[host] {
			fmt.Fprintf(&out, "%s %s %v external=%v\n", v.Key.Host, v.Key.Namespace, v.Ports, v.External)
		}
		for _, slice := range k.slices[host] {
			for _, e := range slice.Endpoints {
				fmt.Fprintf(&out, "  %s: %s\n", e.ID, e.Endpoint)
			}
		}
	}
	k.mu.Unlock()
	return out.String() + k.told()
}

// standing returns the phase of the source of a name, and the detail.
func (k *sink) standing(name string) (phase, detail string) {
	for _, s := range k.set.Standings() {
		if s.Source == name {
			return s.Phase, s.Detail
		}
	}
	return "", ""
}

func (k *sink) isSynced(name string) error {
	if phase, detail := k.standing(name); phase != "synced" {
		return fmt.Errorf("%s is %q: %s", name, phase, detail)
	}
	return nil
}

// isStale returns nil if a source is not synced and its detail has all these words.
func (k *sink) isStale(name string, words ...string) error {
	phase, detail := k.standing(name)
	for _, w := range append(words, "") {
		if detail == "" || phase == "synced" || !strings.Contains(detail, w) {
			return fmt.Errorf("%s is %q: %q, want it to say %q", name, phase, detail, w)
		}
	}
	return nil
}

func (k *sink) synced(t testing.TB, name string) {
	t.Helper()
	rig.Eventually(t, func() error { return k.isSynced(name) })
}

func (k *sink) stale(t testing.TB, name string, words ...string) {
	t.Helper()
	rig.Eventually(t, func() error { return k.isStale(name, words...) })
}

// says waits until problems have all these words.
func (k *sink) says(t testing.TB, words ...string) {
	t.Helper()
	rig.Eventually(t, func() error {
		told := k.told()
		for _, w := range words {
			if !strings.Contains(strings.ToLower(told), strings.ToLower(w)) { // Eureka has capital letters
				return fmt.Errorf("nobody says %q, but\n%s", w, told)
			}
		}
		return nil
	})
}

// goroutines lists those of a label.
func goroutines(label string) string {
	var all bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&all, 1); err != nil {
		return err.Error()
	}
	var out []string
	for block := range strings.SplitSeq(all.String(), "\n\n") {
		if strings.Contains(block, `"apart":"`+label+`"`) {
			out = append(out, block)
		}
	}
	return strings.Join(out, "\n\n")
}
