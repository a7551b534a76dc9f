package live

import (
	"fmt"
	"net"
	"os"
	"sync"
	"testing"
)

// block is a /24 of loopback addresses that no other mesh of this machine uses while the lock is held.
type block struct {
	prefix string // "127.80.3."
	lock   net.Listener

	mu    sync.Mutex
	names map[string]string // name → address
}

// lockPort is where a block's first address is held, so that meshes of other processes choose another block.
const lockPort = 15999

// claimBlock finds a free block. Where it starts to look depends on the process, so that processes seldom meet.
func claimBlock(t testing.TB) *block {
	t.Helper()
	const first, count = 80, 16
	start := os.Getpid() % (count * 256)
	for i := range count * 256 {
		n := (start + i) % (count * 256)
		prefix := fmt.Sprintf("127.%d.%d.", first+n/256, n%256)
		lock, err := net.Listen("tcp", fmt.Sprintf("%s1:%d", prefix, lockPort))
		if err != nil {
			continue
		}
		t.Cleanup(func() { lock.Close() })
		return &block{prefix: prefix, lock: lock, names: map[string]string{}}
	}
	t.Fatal("no free block of loopback addresses between 127.80 and 127.95")
	return nil
}

// ip is the address of a name; the same name has the same address.
func (b *block) ip(name string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if a, ok := b.names[name]; ok {
		return a
	}
	if len(b.names) > 252 {
		panic("live: a mesh has 253 addresses at most")
	}
	a := fmt.Sprintf("%s%d", b.prefix, 2+len(b.names))
	b.names[name] = a
	return a
}
