package live

import (
	"fmt"
	"net"
	"os"
	"sync"
	"testing"
)

// block is loopback addresses that no other mesh of this machine uses: one /24, and another whenever the last one is used up.
type block struct {
	t testing.TB

	mu     sync.Mutex
	prefix string            // of the last /24: "127.80.3."
	next   int               // the last part of the next address
	names  map[string]string // name → address
}

// lockPort is where a block's first address is held, so that meshes of other processes choose another block.
const lockPort = 15999

func newBlock(t testing.TB) *block {
	return &block{t: t, prefix: claim(t), next: 2, names: map[string]string{}}
}

// claim finds a /24 that is free, and holds it until the test ends. The place where the search begins depends on the process, so that
// processes seldom collide.
func claim(t testing.TB) (prefix string) {
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
		return prefix
	}
	t.Fatal("no free block of loopback addresses between 127.80 and 127.95")
	return ""
}

// ip is the address of a name; the same name has the same address.
func (b *block) ip(name string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if a, ok := b.names[name]; ok {
		return a
	}
	if b.next > 254 {
		b.prefix, b.next = claim(b.t), 2
	}
	a := fmt.Sprintf("%s%d", b.prefix, b.next)
	b.next++
	b.names[name] = a
	return a
}
