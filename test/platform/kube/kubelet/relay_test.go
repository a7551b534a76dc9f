package kubelet

import (
	"context"
	"net"
	"slices"
	"sync"
	"testing"
	"time"
)

// TestRelay: each client of a UDP address gets the answers to its own packets.
func TestRelay(t *testing.T) {
	var config net.ListenConfig
	open := func() net.PacketConn {
		c, err := config.ListenPacket(t.Context(), "udp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	server, at := open(), open()
	go func() {
		for packet := make([]byte, 100); ; {
			n, from, err := server.ReadFrom(packet)
			if err != nil {
				return
			}
			slices.Reverse(packet[:n])
			_, _ = server.WriteTo(packet[:n], from)
		}
	}()
	ctx, cancel := context.WithCancel(t.Context())
	var under sync.WaitGroup
	under.Go(func() {
		relay(ctx, at, func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, server.LocalAddr().String())
		})
	})
	var clients sync.WaitGroup
	for _, text := range []string{"abc", "drawer"} {
		clients.Go(func() {
			c, err := new(net.Dialer).DialContext(t.Context(), "udp", at.LocalAddr().String())
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			want := []byte(text)
			slices.Reverse(want)
			for range 10 {
				answer := make([]byte, 100)
				_ = c.SetDeadline(time.Now().Add(10 * time.Second))
				if _, err := c.Write([]byte(text)); err != nil {
					t.Error(err)
				}
				if n, err := c.Read(answer); err != nil || string(answer[:n]) != string(want) {
					t.Errorf("%q, %v; want %q", answer[:n], err, want)
				}
			}
		})
	}
	clients.Wait()
	cancel()
	under.Wait()
}
