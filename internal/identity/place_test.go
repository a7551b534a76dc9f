package identity

import (
	"net"
	"net/netip"
	"testing"
)

// TestLocal: connections that a sidecar forwards from other machines come from a loopback address, and are not local.
func TestLocal(t *testing.T) {
	for text, want := range map[string]bool{
		"127.0.0.1": true, "127.0.0.2": true, "::1": true, "::ffff:127.0.0.1": true,
		"127.0.0.6": false, "::ffff:127.0.0.6": false, "::6": false, "10.0.0.1": false, "0.0.0.0": false, "169.254.1.1": false,
		"2001:db8::1": false,
	} {
		if got := Local(netip.MustParseAddr(text)); got != want {
			t.Errorf("Local(%s) = %t", text, got)
		}
		if got := OnThisMachine(text); got != want {
			t.Errorf("OnThisMachine(%s) = %t", text, got)
		}
		if got := LocalPeer(&net.TCPAddr{IP: net.ParseIP(text), Port: 1}); got != want {
			t.Errorf("LocalPeer(%s) = %t", text, got)
		}
	}
	for host, want := range map[string]bool{"localhost": true, "": false, "istiod": false, "127.0.0.1.example.com": false} {
		if got := OnThisMachine(host); got != want {
			t.Errorf("OnThisMachine(%q) = %t", host, got)
		}
	}
	if !LocalPeer(&net.UnixAddr{Name: "x"}) {
		t.Error("a unix socket is of another machine")
	}
}
