package xds

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"fairway/internal/xds/library"
	"fairway/internal/xds/xdstest"
	"fairway/internal/xdstype"
)

func TestLimits(t *testing.T) {
	expect := func(t *testing.T, e *status.Status, code codes.Code, text string) {
		t.Helper()
		if e.Code() != code || !strings.Contains(e.Message(), text) {
			t.Errorf("ended with %v %q, want %v and %q", e.Code(), e.Message(), code, text)
		}
	}
	t.Run("streams", func(t *testing.T) {
		h := newFixture(t, Options{MaxStreams: 1})
		h.attach("p", "all")
		one := h.delta(patience(t))
		one.ask("p", xdstype.ClusterURL)
		one.expect("Cluster")
		two := h.delta(patience(t))
		two.ask("q", xdstype.ClusterURL)
		expect(t, two.end(), codes.ResourceExhausted, "1 streams are open")
	})
	t.Run("rate", func(t *testing.T) {
		h := newFixture(t, Options{StreamsPerSecond: 1, AddressStreamsPerSecond: 100, StreamWait: time.Millisecond})
		h.attach("p", "all")
		one := h.delta(patience(t))
		one.ask("p", xdstype.ClusterURL)
		one.expect("Cluster")
		expect(t, h.delta(patience(t)).end(), codes.ResourceExhausted, "more than 1 new streams a second")
	})
	t.Run("rate of one address", func(t *testing.T) {
		h := newFixture(t, Options{StreamsPerSecond: 2, AddressStreamsPerSecond: 0.1, StreamWait: time.Millisecond})
		h.attach("p", "all")
		for range 2 {
			s := h.delta(patience(t))
			s.ask("p", xdstype.ClusterURL)
			s.expect("Cluster")
		}
		expect(t, h.delta(patience(t)).end(), codes.ResourceExhausted, "more than 0.1 new streams a second from this address")
	})
	t.Run("withheld types", func(t *testing.T) {
		allowed := make(chan bool, 1)
		allowed <- false
		h := newFixture(t, Options{Withhold: func(_ context.Context, _ net.Addr, typ string) bool {
			ok := <-allowed
			allowed <- ok
			return typ == xdstype.SecretURL && !ok
		}})
		h.attach("p", "all")
		h.put(secret("s", 1), cluster("c", 1))
		stranger := h.delta(patience(t))
		stranger.ask("p", xdstype.SecretURL, "s")
		if r, err := stranger.Recv(); err != nil || len(r.Resources) != 0 || len(r.RemovedResources) != 1 {
			t.Errorf("a stranger is given %v, %v", r, err)
		}
		stranger.ask("p", xdstype.ClusterURL)
		stranger.expect("Cluster c")
		<-allowed
		allowed <- true
		friend := h.delta(patience(t))
		friend.ask("p", xdstype.SecretURL, "s")
		friend.expect("Secret s")
	})
	t.Run("rate that waits", func(t *testing.T) {
		h := newFixture(t, Options{StreamsPerSecond: 100, AddressStreamsPerSecond: 100})
		h.attach("p", "all")
		for range 110 {
			s := h.delta(patience(t))
			s.ask("p", xdstype.ClusterURL)
			s.expect("Cluster")
		}
	})
	t.Run("subscriptions", func(t *testing.T) {
		h := newFixture(t, Options{MaxSubscriptions: 2})
		h.attach("p", "all")
		s := h.delta(patience(t))
		s.ask("p", xdstype.EndpointURL, "a", "b", "c")
		expect(t, s.end(), codes.ResourceExhausted, "subscribes to 3 names, the limit is 2")
	})
	t.Run("request size", func(t *testing.T) {
		h := newFixture(t, Options{MaxRequestBytes: 1000})
		h.attach("p", "all")
		s := h.delta(patience(t))
		s.ask("p", xdstype.EndpointURL, strings.Repeat("x", 2000))
		expect(t, s.end(), codes.ResourceExhausted, "larger than max")
	})
	t.Run("refused by the program", func(t *testing.T) {
		h := newFixture(t, Options{})
		h.hooks.refuse = errors.New("unknown node")
		s := h.delta(patience(t))
		s.ask("p", xdstype.ClusterURL)
		expect(t, s.end(), codes.PermissionDenied, "unknown node")
		h.hooks.refuse = status.Error(codes.Unauthenticated, "who?")
		s = h.delta(patience(t))
		s.ask("p", xdstype.ClusterURL)
		expect(t, s.end(), codes.Unauthenticated, "who?")
	})
	t.Run("slow client", func(t *testing.T) {
		h := newFixture(t, Options{SendTimeout: 20 * time.Millisecond})
		big := func(version uint64) *library.Resource {
			return library.NewResource(xdstype.ClusterURL, "big", version, make([]byte, 3<<20), library.ResourceOptions{})
		}
		h.lib.Publish(1, []library.Change{{Shelf: "all", Type: xdstype.ClusterURL, Name: "big", Resource: big(1)}})
		h.turn = 1
		h.attach("p", "all")
		s := h.delta(patience(t))
		s.ask("p", xdstype.ClusterURL)
		late, next := patience(t), time.NewTicker(time.Millisecond)
		defer next.Stop()
		for left := false; !left; { // never read: the wire fills, and later changes coalesce
			select {
			case <-next.C:
				h.turn++
				h.lib.Publish(h.turn, []library.Change{{Shelf: "all", Type: xdstype.ClusterURL, Name: "big", Resource: big(h.turn)}})
			case got := <-h.hooks.left:
				if left = true; got != "p" {
					t.Errorf("%s left", got)
				}
			case <-late.Done():
				t.Fatal("the stream does not end")
			}
		}
		expect(t, s.end(), codes.DeadlineExceeded, "did not take a Cluster response within 20ms")
	})
}

// TestStuckClientCostsLittle holds a client that reads nothing through many turns: the memory for it does not grow with them. Once
// it reads, it gets the newest version of everything, once.
func TestStuckClientCostsLittle(t *testing.T) {
	const resources, size, turns = 8, 200 << 10, 400
	h := newFixture(t, Options{SendTimeout: time.Hour, MaxResponseBytes: 1 << 20})
	publish := func() {
		h.turn++
		var changes []library.Change
		for i := range resources {
			name := fmt.Sprintf("c%d", i)
			changes = append(changes, library.Change{Shelf: "all", Type: xdstype.ClusterURL, Name: name,
				Resource: library.NewResource(xdstype.ClusterURL, name, h.turn, make([]byte, size), library.ResourceOptions{})})
		}
		h.lib.Publish(h.turn, changes)
	}
	publish()
	h.attach("p", "all")
	ctx := patience(t)
	s := h.delta(ctx)
	s.ask("p", xdstype.ClusterURL)
	before := xdstest.LiveHeap()
	for range turns {
		publish()
	}
	if grown := xdstest.LiveHeap() - before; grown > 20*resources*size {
		t.Errorf("%d MB are kept of %d MB that were published", grown>>20, turns*resources*size>>20)
	}
	responses := 0
	reader := make(chan struct{})
	go func() {
		defer close(reader)
		for {
			r, err := s.Recv()
			if err != nil {
				return
			}
			responses++
			if s.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: r.TypeUrl, ResponseNonce: r.Nonce}) != nil {
				return
			}
		}
	}()
	if err := h.srv.Wait(ctx, h.turn); err != nil {
		t.Fatal(err)
	}
	held := h.srv.ClientResources("p", xdstype.ClusterURL)
	for _, r := range held {
		if r.Version() != h.turn {
			t.Errorf("%s is of turn %d, not %d", r.Name, r.Version(), h.turn)
		}
	}
	if err := s.CloseSend(); err != nil {
		t.Fatal(err)
	}
	<-reader
	if len(held) != resources || responses > turns/4 {
		t.Errorf("holds %d resources after %d responses", len(held), responses)
	}
}
