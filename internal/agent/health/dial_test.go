package health

import (
	"net"
	"testing"

	"fairway/test/netns"
)

// TestDialPassesTheProxy: the application's own address is dialed from where the proxy dials it, other addresses as ever.
func TestDialPassesTheProxy(t *testing.T) {
	n := netns.New(t)
	n.Wire(t, func(l netns.Links) { l.Up("lo", "10.9.9.9/32", "fd09::9/128") })
	for address, want := range map[string]string{"10.9.9.9:0": "127.0.0.6", "127.0.0.1:0": "127.0.0.1", "[fd09::9]:0": "fd09::9"} {
		n.Do(t, func() {
			l, err := net.Listen("tcp", address)
			if err != nil {
				t.Error(err)
				return
			}
			defer l.Close()
			c, err := Dial(t.Context(), "tcp", l.Addr().String())
			if err != nil {
				t.Errorf("%s: %v", address, err)
				return
			}
			defer c.Close()
			if got := c.LocalAddr().(*net.TCPAddr).IP.String(); got != want {
				t.Errorf("%s is dialed from %s, want %s", address, got, want)
			}
		})
	}
}
