package xds

import (
	"errors"
	"net/netip"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func network(s string) netip.Prefix { return netip.MustParsePrefix(s + "/32") }

// isOpen reports whether a channel is not closed yet.
func isOpen(c chan struct{}) bool {
	select {
	case <-c:
		return false
	default:
		return true
	}
}

// TestPendingByAddress holds many silent streams of one address against those of others.
func TestPendingByAddress(t *testing.T) {
	p := newPending(10, 4)
	stranger, friend := network("10.0.0.1"), network("10.0.0.2")
	var strangers []*pendingStream
	for i := range 10 {
		a, err := p.enter(stranger)
		if err != nil {
			t.Fatal(err)
		}
		if isOpen(a.mayRead) != (i >= 4) {
			t.Errorf("stream %d of one address is read from: %v", i, !isOpen(a.mayRead))
		}
		strangers = append(strangers, a)
	}
	var no *refused
	if _, err := p.enter(stranger); !errors.As(err, &no) || status.Code(no.error) != codes.ResourceExhausted {
		t.Errorf("one more is refused with %v", err)
	}
	for i := range 5 {
		a, err := p.enter(friend)
		if err != nil {
			t.Fatalf("friend %d: %v", i, err)
		}
		if i < 4 && isOpen(a.mayRead) {
			t.Errorf("friend %d waits", i)
		}
	}
	for i, a := range strangers {
		if ended := len(a.evicted) > 0; ended != (i < 5) {
			t.Errorf("stranger %d made room: %v", i, ended)
		}
		p.leave(a)
	}
	if have := p.len(); have != 5 {
		t.Errorf("%d are pending of 5", have)
	}
	if _, ok := p.by[stranger]; ok {
		t.Error("an address without streams is kept account of")
	}
}

// TestPendingTakeTurns: waiting streams are read from as others leave, in their order.
func TestPendingTakeTurns(t *testing.T) {
	p := newPending(10, 1)
	var all []*pendingStream
	for range 3 {
		a, err := p.enter(network("10.0.0.1"))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, a)
	}
	p.leave(all[1]) // it gave up
	if !isOpen(all[2].mayRead) {
		t.Error("two are read from at once")
	}
	p.leave(all[0])
	if isOpen(all[2].mayRead) {
		t.Error("nobody is read from")
	}
}
