package netns_test

import (
	"net"
	"testing"

	"fairway/test/netns"
)

// TestBridgeKeepsItsAddress: pods that know a bridge's hardware address reach it while others are attached.
func TestBridgeKeepsItsAddress(t *testing.T) {
	host := netns.New(t)
	address := func() (is string) {
		host.Do(t, func() {
			if i, err := net.InterfaceByName("bridge"); err != nil {
				t.Error(err)
			} else {
				is = i.HardwareAddr.String()
			}
		})
		return is
	}
	host.Wire(t, func(l netns.Links) {
		l.Bridge("bridge")
		l.Up("bridge", "10.45.0.1/16")
	})
	before := address()
	for _, name := range []string{"a", "b", "c", "d"} {
		other, err := netns.Make()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(other.Close)
		host.Wire(t, func(l netns.Links) {
			l.Cable(name, "eth0", other)
			l.Attach(name, "bridge")
			l.Up(name)
		})
		if now := address(); now != before {
			t.Errorf("with %s attached the bridge is %s, and was %s", name, now, before)
		}
	}
}
