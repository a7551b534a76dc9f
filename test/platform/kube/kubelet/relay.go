package kubelet

import (
	"context"
	"net"
	"sync"
	"time"

	"fairway/test/platform/kube/front"
)

// quiet is how long a UDP client keeps its endpoint without a packet.
const quiet = 30 * time.Second

// relay forwards UDP packets to the connections that dial makes, until its socket closes: each client address has a connection of its own.
func relay(ctx context.Context, from net.PacketConn, dial front.Dial) {
	ctx, cancel := context.WithCancel(ctx)
	var mu sync.Mutex
	var under sync.WaitGroup
	clients := map[string]net.Conn{}
	defer under.Wait()
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		from.Close()
		mu.Lock()
		defer mu.Unlock()
		for _, c := range clients {
			c.Close()
		}
	})()
	for packet := make([]byte, 64<<10); ; {
		n, client, err := from.ReadFrom(packet)
		if err != nil {
			return
		}
		mu.Lock()
		out := clients[client.String()]
		mu.Unlock()
		if out == nil {
			if out, err = dial(ctx, "udp", ""); err != nil {
				continue // without an endpoint the packet is lost
			}
			mu.Lock()
			clients[client.String()] = out
			mu.Unlock()
			under.Go(func() {
				back(from, client, out)
				mu.Lock()
				delete(clients, client.String())
				mu.Unlock()
				out.Close()
			})
		}
		_, _ = out.Write(packet[:n]) // packets may be lost
	}
}

// back forwards an endpoint's answers to a client until there are none for a while.
func back(to net.PacketConn, client net.Addr, from net.Conn) {
	for packet := make([]byte, 64<<10); ; {
		_ = from.SetReadDeadline(time.Now().Add(quiet))
		n, err := from.Read(packet)
		if err != nil {
			return
		}
		_, _ = to.WriteTo(packet[:n], client) // packets may be lost
	}
}
