package limit

import (
	"net/netip"
	"testing"
	"time"
)

func TestWithin(t *testing.T) {
	at := time.Unix(1000, 0)
	l := New[string](Rate{PerSecond: 2, Burst: 2}, func() time.Time { return at })
	for i, want := range []time.Duration{0, 0, 500 * time.Millisecond, time.Second} {
		if wait, ok := l.Within("a", time.Second); !ok || wait != want {
			t.Errorf("call %d waits %v, %v; want %v", i, wait, ok, want)
		}
	}
	if wait, ok := l.Within("a", time.Second); ok {
		t.Errorf("a call goes on that would have to wait %v beyond its patience", wait)
	}
	if !l.Allow("b") {
		t.Error("another key waits for the first one's calls")
	}
	at = at.Add(time.Second)
	if wait, ok := l.Within("a", time.Second); !ok || wait != 500*time.Millisecond {
		t.Errorf("a call that was refused was counted: %v, %v", wait, ok)
	}
}

func TestKeysAreBounded(t *testing.T) {
	at := time.Unix(1000, 0)
	l := New[int](Rate{PerSecond: 1, Burst: 1}, func() time.Time { return at })
	for k := range 3*Most + 1 {
		l.Allow(k)
		if len(l.young)+len(l.old) > Most {
			t.Fatalf("%d keys are kept", len(l.young)+len(l.old))
		}
	}
	if l.Allow(3 * Most) {
		t.Error("the youngest key was forgotten")
	}
}

func TestNetwork(t *testing.T) {
	for in, want := range map[string]string{
		"10.0.0.1": "10.0.0.1/32", "::ffff:10.0.0.1": "10.0.0.1/32", "2001:db8::1": "2001:db8::/64",
		"2001:db8::ffff:1": "2001:db8::/64", "fe80::1%eth0": "fe80::/64",
	} {
		if got := Network(netip.MustParseAddr(in)); got.String() != want {
			t.Errorf("%s counts as %s, want %s", in, got, want)
		}
	}
	if Network(netip.Addr{}).IsValid() {
		t.Error("no address is one")
	}
}
