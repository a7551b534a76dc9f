package intercept

import (
	"errors"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"fairway/test/netns"
)

// The two namespaces and their addresses. All networks of services are outside, so that connections that are not intercepted arrive there.
var (
	workloadAddrs = []string{"10.0.0.2/24", "fd00::2/64"}
	outsideAddrs  = []string{"10.0.0.1/24", "fd00::1/64"}
	serviceAddrs  = []string{"10.96.0.10/32", "10.97.0.10/32", "10.96.0.53/32", "fd96::10/128", "fd97::10/128", "fd96::53/128"}
	guestNetwork  = "10.98.0.0/16" // hosts outside reach it through the workload
)

// world is a workload's network namespace, another one outside, and a cable between.
type world struct {
	workload, outside *namespace
}

// namespace is a network namespace with its servers and clients.
type namespace struct{ *netns.Namespace }

func newNamespace(t *testing.T) *namespace {
	t.Helper()
	return &namespace{netns.New(t)}
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{workload: newNamespace(t), outside: newNamespace(t)}
	w.workload.Wire(t, func(l netns.Links) {
		l.Cable("eth0", "peer0", w.outside.Namespace)
		l.Up("lo", "::6/128")
		l.Up("eth0", workloadAddrs...)
	})
	w.outside.Wire(t, func(l netns.Links) {
		l.Up("lo", serviceAddrs...)
		l.Up("peer0", outsideAddrs...)
		l.Route(guestNetwork, "10.0.0.2")
	})
	w.workload.Wire(t, func(l netns.Links) {
		l.Route("0.0.0.0/0", "10.0.0.1")
		l.Route("::/0", "fd00::1")
	})
	w.awaitCable(t)
	return w
}

// awaitCable returns when the kernel saw that both ends are plugged in, after which it changes no route by itself: when
// the other end refuses connections.
func (w *world) awaitCable(t *testing.T) {
	t.Helper()
	again := time.NewTicker(time.Millisecond)
	defer again.Stop()
	late := time.After(patience)
	for _, to := range []string{"10.0.0.1:1", "[fd00::1]:1"} {
		for {
			var err error
			w.workload.Do(t, func() { _, err = net.DialTimeout("tcp", to, patience) })
			if errors.Is(err, unix.ECONNREFUSED) {
				break
			}
			select {
			case <-again.C:
			case <-late:
				t.Fatalf("the cable carries nothing: %v", err)
			}
		}
	}
}
