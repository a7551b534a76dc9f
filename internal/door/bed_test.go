package door_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"
	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/config"
	"fairway/internal/door"
	"fairway/internal/mesh"
	"fairway/internal/source"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// object reads one line of a script:
//
//	VS name host[:subset]… [@gateway]… [>delegate]… [#edit]     a VirtualService; each place takes another kind of destination
//	DR name host [subset]…                                       a DestinationRule
//	SE name host…                                                a ServiceEntry
//	GW name                                                      a Gateway
//	SV host                                                      a registry's service
//
// A name may be "namespace/name"; the namespace is default otherwise.
func object(line string) *config.Object {
	f := strings.Fields(line)
	o := &config.Object{Annotations: map[string]string{"line": line}, Hash: xxhash.Sum64String(line)}
	o.Namespace, o.Name = "default", f[1]
	if ns, n, ok := strings.Cut(f[1], "/"); ok {
		o.Namespace, o.Name = ns, n
	}
	switch f[0] {
	case "VS":
		o.Kind, o.Spec = "VirtualService", virtualService(f[2:])
	case "DR":
		spec := &networking.DestinationRule{}
		if len(f) > 2 {
			spec.Host = f[2]
			for _, s := range f[3:] {
				spec.Subsets = append(spec.Subsets, &networking.Subset{Name: s})
			}
		}
		o.Kind, o.Spec = "DestinationRule", spec
	case "SE":
		o.Kind, o.Spec = "ServiceEntry", &networking.ServiceEntry{Hosts: f[2:]}
	case "GW":
		o.Kind, o.Spec = "Gateway", &networking.Gateway{}
	default:
		panic(line)
	}
	o.Ref = mesh.ObjectRef{Kind: string(o.Kind), Namespace: o.Namespace, Name: o.Name}
	return o
}

func virtualService(words []string) *networking.VirtualService {
	spec := &networking.VirtualService{}
	for i, w := range words {
		switch w[0] {
		case '@':
			spec.Gateways = append(spec.Gateways, w[1:])
		case '>':
			spec.Http = append(spec.Http, &networking.HTTPRoute{Delegate: &networking.Delegate{Name: w[1:]}})
		case '#':
		default:
			host, subset, _ := strings.Cut(w, ":")
			route(spec, i, &networking.Destination{Host: host, Subset: subset})
		}
	}
	return spec
}

// route adds a destination in one of the five places for one.
func route(spec *networking.VirtualService, i int, d *networking.Destination) {
	switch i % 5 {
	case 0:
		spec.Http = append(spec.Http, &networking.HTTPRoute{Route: []*networking.HTTPRouteDestination{{Destination: d}}})
	case 1:
		spec.Http = append(spec.Http, &networking.HTTPRoute{Mirror: d})
	case 2:
		spec.Http = append(spec.Http, &networking.HTTPRoute{Mirrors: []*networking.HTTPMirrorPolicy{{Destination: d}}})
	case 3:
		spec.Tcp = append(spec.Tcp, &networking.TCPRoute{Route: []*networking.RouteDestination{{Destination: d}}})
	case 4:
		spec.Tls = append(spec.Tls, &networking.TLSRoute{Route: []*networking.RouteDestination{{Destination: d}}})
	}
}

func service(line string) *mesh.Service {
	return &mesh.Service{Key: mesh.ServiceKey{Host: mesh.Host(strings.Fields(line)[1]), Registry: "test"}}
}

// batch parses "set LINE; del LINE; …" as one batch.
func batch(script string) source.Batch {
	b := source.Batch{}
	for part := range strings.SplitSeq(script, ";") {
		verb, line, _ := strings.Cut(strings.TrimSpace(part), " ")
		isService := strings.HasPrefix(line, "SV")
		switch {
		case verb == "set" && isService:
			b.Set.Services = append(b.Set.Services, service(line))
		case verb == "set":
			b.Set.Objects = append(b.Set.Objects, object(line))
		case verb == "del" && isService:
			b.Gone.Services = append(b.Gone.Services, service(line).Key)
		case verb == "del":
			b.Gone.Objects = append(b.Gone.Objects, object(line).Key)
		default:
			panic(part)
		}
	}
	return b
}

// next is the sink behind the door; it keeps what it gets, by key, as lines of the script.
type next struct {
	holds    map[string]string
	problems map[source.Place][]mesh.Problem
	last     string // the last batch, as a script
	batches  int
	watch    func(*next) // called after each batch
}

func newNext() *next {
	return &next{holds: map[string]string{}, problems: map[source.Place][]mesh.Problem{}}
}

func (n *next) Apply(b source.Batch) {
	var said []string
	for _, k := range b.Gone.Objects {
		delete(n.holds, k.String())
		said = append(said, "del "+k.String())
	}
	for _, k := range b.Gone.Services {
		delete(n.holds, "SV "+string(k.Host))
		said = append(said, "del SV "+string(k.Host))
	}
	for _, o := range b.Set.Objects {
		n.holds[o.String()] = o.Annotations["line"]
		said = append(said, "set "+o.Annotations["line"])
	}
	for _, s := range b.Set.Services {
		n.holds["SV "+string(s.Key.Host)] = "SV " + string(s.Key.Host)
		said = append(said, "set SV "+string(s.Key.Host))
	}
	for at, list := range b.Problems {
		n.problems[at] = list
	}
	slices.Sort(said)
	n.last = strings.Join(said, "; ")
	n.batches++
	if n.watch != nil {
		n.watch(n)
	}
}

// bed is a door with its sink, inside a bubble of its own time.
type bed struct {
	t    *testing.T
	door *door.Door
	next *next
}

// run plays a script, a line at a time:
//
//	set …; del …     one batch
//	has …; …         exactly what next holds
//	last …           the last batch that next got
//	waits KEY: WHAT, WHAT; KEY: …     what waits, in order; nothing without KEY
//	after DURATION
//	synced           the one source says Synced
func run(t *testing.T, script string) {
	synctest.Test(t, func(t *testing.T) {
		b := &bed{t: t, next: newNext()}
		b.door = door.New(door.Options{Grace: door.DefaultGrace}, b.next)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- b.door.Run(ctx) }()
		for i, line := range strings.Split(script, "\n") {
			if line = strings.TrimSpace(line); line != "" {
				b.play(fmt.Sprintf("line %d: %s", i+1, line), line)
			}
		}
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

func (b *bed) play(at, line string) {
	b.t.Helper()
	verb, rest, _ := strings.Cut(line, " ")
	switch verb {
	case "set", "del":
		b.door.Apply(batch(line))
	case "synced":
		b.door.Apply(source.Batch{Synced: true})
	case "after":
		d, err := time.ParseDuration(rest)
		if err != nil {
			b.t.Fatal(err)
		}
		time.Sleep(d)
		synctest.Wait()
	case "has":
		same(b.t, at, parts(rest), slices.Sorted(maps.Values(b.next.holds)))
	case "last":
		same(b.t, at, rest, b.next.last)
	case "waits":
		same(b.t, at, rest, waits(b.door))
	default:
		b.t.Fatalf("%s: no such verb", at)
	}
}

func same[T any](t *testing.T, at string, want, got T) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateComparable(mesh.MachineRef{})); diff != "" {
		t.Errorf("%s (-want +got):\n%s", at, diff)
	}
}

func parts(s string) []string {
	var out []string
	for p := range strings.SplitSeq(s, ";") {
		if p = strings.TrimSpace(p); p != "" {
			out = append(out, p)
		}
	}
	slices.Sort(out)
	return out
}

// waits returns the waiting changes in the script's form.
func waits(d *door.Door) string {
	var out []string
	if all := len(d.Waiting()); d.Waits() != all {
		return fmt.Sprintf("%d changes are listed of %d", all, d.Waits())
	}
	for _, w := range d.Waiting() {
		out = append(out, w.Key.String()+": "+strings.Join(w.For, ", "))
	}
	return strings.Join(out, "; ")
}
