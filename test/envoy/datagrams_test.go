package envoy

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"fairway/test/envoy/live"
	"fairway/test/rig"
)

// TestDatagramsUnderChange changes a UDPRoute 20 times while clients send: every datagram reaches a backend. Envoy replaces the listener
// and forgets its sessions, so a client may lose the answer that is under way, one a change. Clients with a session from before go on.
func TestDatagramsUnderChange(t *testing.T) {
	live.NeedEnvoy(t)
	if !live.Isolated(t) {
		return
	}
	live.Redirect(t, 15001, 15006)
	m := live.Start(t, live.Options{})
	a, b := m.UDPBackend(t, "a", 9053), m.UDPBackend(t, "b", 9053)
	m.Proxy(t, live.Node{Name: gateway, Router: true, Labels: map[string]string{"gateway.networking.k8s.io/gateway-name": "udp"}})
	m.Apply(t, m.Rules(t, "datagrams.yaml"), m.Rules(t, "datagrams-a.yaml"))
	to := m.Addr("entry", 5300)
	rig.Eventually(t, func() error {
		if live.SendDatagram(t, to) == "" {
			return fmt.Errorf("%s does not answer", to)
		}
		return nil
	})
	before := a.Load() + b.Load()
	const each, changes = 4, 20
	var asked, lost atomic.Int64
	stop := make(chan struct{})
	var clients sync.WaitGroup
	run := func(ask func() string) {
		clients.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				asked.Add(1)
				if ask() == "" {
					lost.Add(1)
				}
			}
		})
	}
	for range each {
		run(func() string { return live.SendDatagram(t, to) })
		s := live.NewSession(t, nil, to)
		defer s.Close()
		run(s.Ask)
	}
	for i := range changes {
		from, backend := asked.Load(), []*atomic.Int64{b, a}[i%2]
		m.Apply(t, m.Rules(t, "datagrams-"+[]string{"b", "a"}[i%2]+".yaml"))
		reached := backend.Load()
		rig.Eventually(t, func() error {
			if n, now := asked.Load()-from, backend.Load()-reached; n < 1000 || now < 100 {
				return fmt.Errorf("%d datagrams are sent after a change, %d have reached the new backend", n, now)
			}
			return nil
		})
	}
	close(stop)
	clients.Wait()
	reached := a.Load() + b.Load() - before
	t.Logf("of %d datagrams, %d reached a backend, and %d were not answered", asked.Load(), reached, lost.Load())
	if reached != asked.Load() || lost.Load() > 2*each*changes {
		t.Errorf("%d datagrams are lost; %d clients lost %d answers in %d changes", asked.Load()-reached, 2*each, lost.Load(), changes)
	}
}
