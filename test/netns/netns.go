package netns

import (
	"context"
	"net"
	"os"
	"os/exec"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// Namespace is a network namespace; it goes when the test, and all that runs in it, has ended.
type Namespace struct {
	File *os.File
}

// New makes an empty one. It skips the test where the machine or the user forbids it.
func New(t testing.TB) *Namespace {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("network namespaces and users of one's own need root")
	}
	n, err := Make()
	if err != nil {
		t.Skipf("this machine forbids a network namespace: %v", err)
	}
	t.Cleanup(n.Close)
	return n
}

// Make is New for callers without a test; they close it.
func Make() (*Namespace, error) {
	n := &Namespace{}
	var failed error
	Alone(func() {
		if failed = unix.Unshare(unix.CLONE_NEWNET); failed == nil {
			n.File, failed = os.Open("/proc/thread-self/ns/net")
		}
	})
	return n, failed
}

// Close lets the namespace go once nothing runs in it any more.
func (n *Namespace) Close() { n.File.Close() }

// Alone runs f on a thread of its own that ends with it, so that f may change what belongs to a thread.
func Alone(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		f()
	}()
	<-done
}

// Inside runs f in the namespace. Sockets that f opens stay there. f must not end the test. The error says that the
// namespace could not be entered.
func (n *Namespace) Inside(f func()) error {
	var failed error
	Alone(func() {
		if failed = unix.Setns(int(n.File.Fd()), unix.CLONE_NEWNET); failed == nil {
			f()
		}
	})
	return failed
}

// Do is Inside for tests: one that cannot enter fails.
func (n *Namespace) Do(t testing.TB, f func()) {
	t.Helper()
	if err := n.Inside(f); err != nil {
		t.Fatalf("enter a network namespace: %v", err)
	}
}

// DialContext is net.Dialer's, in the namespace.
func (n *Namespace) DialContext(ctx context.Context, network, address string) (c net.Conn, err error) {
	if failed := n.Inside(func() { c, err = new(net.Dialer).DialContext(ctx, network, address) }); failed != nil {
		return nil, failed
	}
	return c, err
}

// Run starts a program in the namespace, reports the result on started, and returns the result of Wait when the program
// has ended. Its thread stays with the program, so that Pdeathsig means the death of this process.
func (n *Namespace) Run(c *exec.Cmd, started chan<- error) error {
	var ended error
	if err := n.Inside(func() {
		err := c.Start()
		started <- err
		if err == nil {
			ended = c.Wait()
		}
	}); err != nil {
		started <- err
	}
	return ended
}
