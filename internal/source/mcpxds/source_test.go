package mcpxds

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	mcp "istio.io/api/mcp/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/servers"
	"fairway/internal/source"
	"fairway/internal/source/mcp/dial"
	"fairway/internal/source/mcp/resource"
	"fairway/internal/source/platform"
	"fairway/internal/xdstype"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const entryType = "networking.istio.io/v1/ServiceEntry"

// server is another control plane with answers that a test writes. A stream's requests come by the channels.
type server struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer
	delta func(discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error
	whole func(discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesServer) error
}

func (s *server) DeltaAggregatedResources(w discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error {
	if s.delta == nil {
		return status.Error(codes.Unimplemented, "no deltas here")
	}
	return s.delta(w)
}

func (s *server) StreamAggregatedResources(w discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesServer) error {
	if s.whole == nil {
		return status.Error(codes.Unimplemented, "no whole states here")
	}
	return s.whole(w)
}

// sink keeps what a source hands over.
type sink struct {
	mu       sync.Mutex
	ahead    int // rows that were handed over since it was last waited for that they are in force
	most     int // the most that ahead was
	objects  map[config.Key]*config.Object
	problems map[string][]mesh.Problem
	synced   bool
	stale    string
	stales   []string // all that it was, one after the other
	changed  chan struct{}
}

func newSink() *sink {
	return &sink{objects: map[config.Key]*config.Object{}, problems: map[string][]mesh.Problem{}, changed: make(chan struct{})}
}

func (s *sink) Apply(u source.Update) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, part := range u.Shards {
		s.ahead += part.Rows.Len() + part.Gone.Len()
	}
	s.most = max(s.most, s.ahead)
	for _, part := range u.Shards {
		for _, k := range part.Gone.Objects {
			delete(s.objects, k)
		}
		for _, o := range part.Rows.Objects {
			s.objects[o.Key] = o
		}
	}
	for at, list := range u.Problems {
		if s.problems[at] = list; len(list) == 0 {
			delete(s.problems, at)
		}
	}
	s.synced = s.synced || u.Synced
	if u.Stale != "" || u.Fresh {
		s.stale = u.Stale
	}
	if u.Stale != "" {
		s.stales = append(s.stales, u.Stale)
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

// InForce implements source.Paced: an update is in force as soon as somebody waits for it.
func (s *sink) InForce() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ahead = 0
	done := make(chan struct{})
	close(done)
	return done
}

// until waits for a state of the sink.
func (s *sink) until(t *testing.T, what string, is func() bool) {
	t.Helper()
	late := time.After(20 * time.Second)
	for {
		s.mu.Lock()
		done, changed := is(), s.changed
		state := fmt.Sprint(slices.Collect(maps.Keys(s.objects)), s.problems, s.synced, s.stale)
		s.mu.Unlock()
		if done {
			return
		}
		select {
		case <-changed:
		case <-late:
			t.Fatalf("%s: it does not come to that; there is %s", what, state)
		}
	}
}

func (s *sink) has(names ...string) bool {
	var have []string
	for k := range s.objects {
		have = append(have, k.Namespace+"/"+k.Name)
	}
	slices.Sort(have)
	return slices.Equal(have, names)
}

// prompt is the pace of those who answer at once.
var prompt = pace{
	answer: 10 * time.Second, kind: 10 * time.Second, quiet: 20 * time.Millisecond, settle: time.Second,
	read: 10 * time.Second, again: time.Hour,
}

// read has a source read a server until the test ends.
func read(t *testing.T, srv *server, o Options) *sink {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer()
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(g, srv)
	go g.Serve(l)
	t.Cleanup(g.Stop)
	decoder, err := config.NewDecoder(config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	o.Address, o.Plaintext = l.Addr().String(), true
	s, err := New("other", o, decoder, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.from.(*calls).retry = servers.Retry{Base: time.Millisecond, Max: 5 * time.Millisecond}
	s.pace = prompt
	switch o.Name {
	case "slow":
		s.pace.answer = 30 * time.Millisecond
	case "older":
		s.pace.kind = 20 * time.Millisecond
	}
	out := newSink()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx, out) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("Run ended with %v", err)
		}
	})
	return out
}

// packed returns a ServiceEntry as it comes over the wire. Without a host it is not valid.
func packed(t *testing.T, name, host string) *anypb.Any { return versioned(t, name, "", host) }

func versioned(t *testing.T, name, version, host string) *anypb.Any {
	t.Helper()
	spec := &networking.ServiceEntry{Ports: []*networking.ServicePort{{Number: 80, Name: "http", Protocol: "HTTP"}}}
	if host != "" {
		spec.Hosts = []string{host}
	}
	body, err := anypb.New(spec)
	if err != nil {
		t.Fatal(err)
	}
	out, err := anypb.New(&mcp.Resource{Metadata: &mcp.Metadata{Name: name, Version: version}, Body: body})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func entry(t *testing.T, name, version, host string) *discoveryv3.Resource {
	return &discoveryv3.Resource{Name: name, Version: version, Resource: packed(t, name, host)}
}

// serveDeltas answers each first request of a type with what answers has, and hands on all others.
func serveDeltas(
	w discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer, answers map[string][]*discoveryv3.Resource,
	others chan<- *discoveryv3.DeltaDiscoveryRequest, more <-chan *discoveryv3.DeltaDiscoveryResponse,
) error {
	requests := make(chan *discoveryv3.DeltaDiscoveryRequest)
	failed := make(chan error, 1)
	go func() {
		for {
			r, err := w.Recv()
			if err != nil {
				failed <- err
				return
			}
			select {
			case requests <- r:
			case <-w.Context().Done():
				failed <- w.Context().Err()
				return
			}
		}
	}()
	for {
		select {
		case r := <-requests:
			if r.ResponseNonce == "" {
				m := &discoveryv3.DeltaDiscoveryResponse{TypeUrl: r.TypeUrl, Nonce: "1", Resources: answers[r.TypeUrl]}
				if err := w.Send(m); err != nil {
					return err
				}
			}
			if others != nil && r.TypeUrl == entryType {
				others <- r
			}
		case m := <-more:
			if m == nil {
				return status.Error(codes.Unavailable, "it goes away")
			}
			if err := w.Send(m); err != nil {
				return err
			}
		case err := <-failed:
			return err
		}
	}
}

// TestLargeAnswersGoOnInParts: a part has as many rows as one turn takes in, and is handed on once the one before is in force.
// Removals come last, and an object that only has another name at the other side stays.
func TestLargeAnswersGoOnInParts(t *testing.T) {
	const n = 2*source.PieceRows + 100
	more := make(chan *discoveryv3.DeltaDiscoveryResponse)
	var all, next []*discoveryv3.Resource
	var removed []string
	for i := range n {
		r := entry(t, fmt.Sprint("shop/e", i), "1", fmt.Sprintf("e%d.com", i))
		all = append(all, r)
		removed = append(removed, r.Name)
	}
	kept := entry(t, "shop/e7", "2", "e7.com")
	kept.Name = "shop/other"
	next = append(next, kept)
	for i := range n {
		next = append(next, entry(t, fmt.Sprint("shop/new", i), "1", fmt.Sprintf("e%d.com", i)))
	}
	out := read(t, &server{delta: func(w discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error {
		return serveDeltas(w, map[string][]*discoveryv3.Resource{entryType: all}, nil, more)
	}}, Options{})
	out.until(t, "all are there", func() bool { return out.synced && len(out.objects) == n })
	more <- &discoveryv3.DeltaDiscoveryResponse{TypeUrl: entryType, Nonce: "2", Resources: next, RemovedResources: removed}
	fewest := 0
	out.until(t, "others are there", func() bool {
		if fewest == 0 || len(out.objects) < fewest {
			fewest = len(out.objects)
		}
		return len(out.objects) == n+1 && out.objects[config.Key{Kind: config.ServiceEntry, Namespace: "shop", Name: "e7"}] != nil
	})
	if fewest < n {
		t.Errorf("meanwhile there were %d objects: some went before what takes their place was there", fewest)
	}
	out.mu.Lock()
	defer out.mu.Unlock()
	if out.most > source.PieceRows {
		t.Errorf("%d rows are handed on at once, want at most %d", out.most, source.PieceRows)
	}
}

// TestGoodOnesStay: an invalid object is refused by name, and is a Problem; its earlier version stays, and so do all others.
func TestGoodOnesStay(t *testing.T) {
	requests := make(chan *discoveryv3.DeltaDiscoveryRequest, 16)
	more := make(chan *discoveryv3.DeltaDiscoveryResponse)
	out := read(t, &server{delta: func(w discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error {
		return serveDeltas(w, map[string][]*discoveryv3.Resource{
			entryType: {entry(t, "shop/a", "1", "a.com"), entry(t, "shop/bad", "1", ""), entry(t, "shop/b", "1", "b.com")},
		}, requests, more)
	}}, Options{})
	out.until(t, "both good ones are there", func() bool { return out.synced && out.has("shop/a", "shop/b") && len(out.problems) == 1 })
	if first := <-requests; len(first.InitialResourceVersions) > 0 {
		t.Errorf("the first request says that %v is held", first.InitialResourceVersions)
	}
	if r := <-requests; r.ErrorDetail.GetCode() != int32(codes.InvalidArgument) ||
		!strings.Contains(r.ErrorDetail.GetMessage(), "shop/bad") ||
		strings.Contains(r.ErrorDetail.GetMessage(), "shop/a") {
		t.Errorf("what is not valid is refused with %v", r.ErrorDetail)
	}
	more <- &discoveryv3.DeltaDiscoveryResponse{
		TypeUrl: entryType, Nonce: "2", Resources: []*discoveryv3.Resource{entry(t, "shop/a", "2", "")},
	}
	if r := <-requests; !strings.Contains(r.ErrorDetail.GetMessage(), "shop/a") || r.ResponseNonce != "2" {
		t.Errorf("a version that is not valid is refused with %v", r)
	}
	out.until(t, "the version before stays", func() bool { return out.has("shop/a", "shop/b") && len(out.problems) == 2 })
	more <- &discoveryv3.DeltaDiscoveryResponse{
		TypeUrl: entryType, Nonce: "3",
		Resources:        []*discoveryv3.Resource{entry(t, "shop/a", "1", "a.com"), entry(t, "shop/bad", "3", "bad.com")},
		RemovedResources: []string{"shop/b", "shop/never"},
	}
	if r := <-requests; r.ErrorDetail != nil {
		t.Errorf("what is valid is refused with %v", r.ErrorDetail)
	}
	out.until(t, "all is well", func() bool { return out.has("shop/a", "shop/bad") && len(out.problems) == 0 })
}

// TestBreak: while the server is away everything stays and is stale; then it learns which versions are held, and the source is fresh again
// though the server says nothing new.
func TestBreak(t *testing.T) {
	requests := make(chan *discoveryv3.DeltaDiscoveryRequest, 64)
	more := make(chan *discoveryv3.DeltaDiscoveryResponse)
	streams := 0
	out := read(t, &server{delta: func(w discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error {
		answers := map[string][]*discoveryv3.Resource{}
		if streams++; streams == 1 {
			answers[entryType] = []*discoveryv3.Resource{entry(t, "shop/a", "7", "a.com"), entry(t, "shop/bad", "8", "")}
		}
		return serveDeltas(w, answers, requests, more)
	}}, Options{})
	out.until(t, "it is there", func() bool { return out.synced && out.has("shop/a") })
	<-requests
	<-requests
	out.mu.Lock()
	changed := out.changed
	out.mu.Unlock()
	more <- nil
	<-changed
	again := <-requests
	if want := map[string]string{"shop/a": "7"}; !maps.Equal(again.InitialResourceVersions, want) {
		t.Errorf("a second stream says that it holds %v, want %v", again.InitialResourceVersions, want)
	}
	out.until(t, "it is fresh again", func() bool { return out.stale == "" && out.has("shop/a") })
}

// TestWholeStates: a server that has no deltas is asked for whole states. Objects that are missing from a state are removed, unless the
// name of a resource in it cannot be read.
func TestWholeStates(t *testing.T) {
	states := make(chan []*anypb.Any)
	answers := make(chan *discoveryv3.DiscoveryRequest, 64)
	out := read(t, &server{whole: func(w discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesServer) error {
		for {
			r, err := w.Recv()
			if err != nil {
				return err
			}
			if r.TypeUrl != entryType {
				if r.ResponseNonce == "" {
					err = w.Send(&discoveryv3.DiscoveryResponse{TypeUrl: r.TypeUrl, Nonce: "0"})
				}
			} else {
				answers <- r
				select {
				case state := <-states:
					err = w.Send(&discoveryv3.DiscoveryResponse{TypeUrl: r.TypeUrl, Nonce: "n", VersionInfo: "v", Resources: state})
				case <-w.Context().Done():
				}
			}
			if err != nil {
				return err
			}
		}
	}}, Options{})
	go func() { states <- []*anypb.Any{packed(t, "shop/a", "a.com"), packed(t, "shop/b", "b.com")} }()
	<-answers
	if r := <-answers; r.VersionInfo != "v" || r.ErrorDetail != nil {
		t.Errorf("a whole state is answered with %v", r)
	}
	states <- []*anypb.Any{packed(t, "shop/a", "a.com"), {TypeUrl: xdstype.ObjectURL, Value: []byte("\xff\xff")}}
	if r := <-answers; r.ErrorDetail == nil {
		t.Error("garbage is taken")
	}
	out.until(t, "nothing is taken away", func() bool { return out.has("shop/a", "shop/b") })
	states <- []*anypb.Any{packed(t, "shop/a", "a.com")}
	<-answers
	out.until(t, "what is left out is gone", func() bool { return out.has("shop/a") })
}

// TestOlderVersion: a server that knows an older version alone is asked for that.
func TestOlderVersion(t *testing.T) {
	const older = "networking.istio.io/v1alpha3/ServiceEntry"
	out := read(t, &server{delta: func(w discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error {
		for {
			r, err := w.Recv()
			if err != nil {
				return err
			}
			if r.ResponseNonce != "" || r.TypeUrl != older && r.TypeUrl != sentinel {
				continue
			}
			m := &discoveryv3.DeltaDiscoveryResponse{TypeUrl: r.TypeUrl, Nonce: "1"}
			if r.TypeUrl == older {
				m.Resources = []*discoveryv3.Resource{entry(t, "shop/a", "1", "a.com")}
			}
			if err := w.Send(m); err != nil {
				return err
			}
		}
	}}, Options{Name: "older"})
	out.until(t, "it is there", func() bool { return out.synced && out.has("shop/a") })
}

// TestLateAnswer: what a server says of a version after it was asked for an older one counts all the same, and the empty answer about
// that takes nothing away.
func TestLateAnswer(t *testing.T) {
	decoder, err := config.NewDecoder(config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := newState(resource.NewReader(decoder, "xds://other"), Options{MaxObjects: 10}, new(platform.Outbox))
	k := s.of(entryType)
	if !k.older() {
		t.Fatal("there is no older version")
	}
	late := &answer{typ: entryType, whole: true, resources: []item{{any: packed(t, "shop/a", "a.com")}}}
	if !k.counts(late) {
		t.Error("the late answer does not count")
	}
	s.take(k, late)
	if k.counts(&answer{typ: "networking.istio.io/v1beta1/ServiceEntry", whole: true}) {
		t.Error("the answer about another version counts beside it")
	}
}

// TestServicesOnly: with this option, only generated ServiceEntries count.
func TestServicesOnly(t *testing.T) {
	requests := make(chan *discoveryv3.DeltaDiscoveryRequest, 16)
	out := read(t, &server{delta: func(w discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error {
		return serveDeltas(w, map[string][]*discoveryv3.Resource{
			entryType: {entry(t, "shop/written", "1", "a.com"), entry(t, "shop/synthetic-b", "1", "b.com")},
		}, requests, nil)
	}}, Options{Services: true})
	out.until(t, "one is there", func() bool { return out.synced && out.has("shop/synthetic-b") })
	<-requests
	if r := <-requests; r.ErrorDetail != nil {
		t.Errorf("what is not wanted is refused: %v", r.ErrorDetail)
	}
}

// TestFaults: any fault of a server is reported with its name, removes nothing, and the server is called again.
func TestFaults(t *testing.T) {
	huge := entry(t, "shop/huge", "1", "a.com")
	huge.Resource.Value = make([]byte, 3<<20)
	send := func(m *discoveryv3.DeltaDiscoveryResponse) func(discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error {
		return func(w discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error {
			if err := w.Send(m); err != nil {
				return err
			}
			<-w.Context().Done()
			return nil
		}
	}
	for _, c := range []struct {
		name  string
		delta func(discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error
		want  string
	}{
		{"refuses", func(discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error {
			return status.Error(codes.Unauthenticated, "the token has ended")
		}, "it refuses this control plane: the token has ended"},
		{"slow", func(w discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error {
			<-w.Context().Done()
			return nil
		}, "it did not answer within 30ms"},
		{"large", send(&discoveryv3.DeltaDiscoveryResponse{TypeUrl: entryType, Resources: []*discoveryv3.Resource{huge}}), "maxAnswerMiB"},
		{"ends", func(discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error { return nil }, "EOF"},
	} {
		t.Run(c.name, func(t *testing.T) {
			out := read(t, &server{delta: c.delta}, Options{Name: c.name, Options: dial.Options{MaxAnswer: 1}})
			out.until(t, "it is said why", func() bool {
				return strings.HasPrefix(out.stale, "xds://127.0.0.1:") && strings.Contains(out.stale, c.want)
			})
		})
	}
}

// TestCalm: a server that is asked too often whether it is there, and ends connections for that, is asked ever more seldom.
func TestCalm(t *testing.T) {
	s := &calls{}
	goaway := status.Error(codes.Unavailable, `error reading from server: EOF, received prior goaway: code: ENHANCE_YOUR_CALM, `+
		`debug data: "too_many_pings"`)
	for _, want := range []time.Duration{0, time.Minute, 2 * time.Minute} {
		if s.opts.Ping != want {
			t.Errorf("it is asked each %s, want %s", s.opts.Ping, want)
		}
		s.slowPings(goaway)
		s.slowPings(status.Error(codes.Unavailable, "it goes away"))
	}
	for range 10 {
		s.slowPings(goaway)
	}
	if s.opts.Ping != mostPing {
		t.Errorf("at last it is asked each %s", s.opts.Ping)
	}
}

// FuzzTake: no message of a stranger's is worse than not valid, and none takes another object's place.
func FuzzTake(f *testing.F) {
	good := &mcp.Resource{Metadata: &mcp.Metadata{Name: "shop/a"}}
	good.Body, _ = anypb.New(&networking.ServiceEntry{Hosts: []string{"a.com"}})
	seed, _ := proto.Marshal(good)
	f.Add("shop/a", seed)
	f.Add("", []byte("\x0a\x05\x0a\x03a/b"))
	decoder, err := config.NewDecoder(config.Options{})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, name string, body []byte) {
		o := Options{MaxObjects: 10}
		s := newState(resource.NewReader(decoder, "xds://other"), o, new(platform.Outbox))
		k := s.of(entryType)
		s.take(k, &answer{typ: entryType, resources: []item{{name: "shop/first", any: packed(t, "shop/first", "first.com")}}})
		shards, _, _ := s.take(k, &answer{typ: entryType, resources: []item{
			{name: name, any: &anypb.Any{TypeUrl: "type.googleapis.com/istio.mcp.v1alpha1.Resource", Value: body}},
		}})
		for _, part := range shards {
			for _, gone := range part.Gone.Objects {
				if name != "shop/first" {
					t.Errorf("%v is taken away by %q", gone, name)
				}
			}
			for _, o := range part.Rows.Objects {
				if o.Kind != config.ServiceEntry || o.Name == "first" && name != "shop/first" {
					t.Errorf("%v comes by %q", o.Key, name)
				}
			}
		}
		if s.objects != len(k.objects) || len(k.names) != len(k.objects) {
			t.Errorf("%d objects, %d held under %d names", s.objects, len(k.objects), len(k.names))
		}
	})
}
