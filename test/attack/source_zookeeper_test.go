package attack

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"fairway/test/rig"
)

// Operations of ZooKeeper's protocol, and the size of its statistics of a node.
const (
	zkExists   = 3
	zkGet      = 4
	zkChildren = 12
	zkStat     = 68
	zkNoNode   = -101
)

// hostileZooKeeper answers as a ZooKeeper does that has interfaces; children returns the names of an interface's providers.
type hostileZooKeeper struct {
	interfaces int
	children   func(i int) []string
	// hostile answers in place of that, for a node; false: it does not.
	hostile func(c net.Conn, xid uint32, op int32, at string) (done bool)

	asked, listed atomic.Int64
	sent          sent
}

func zkText(s string) []byte { return append(binary.BigEndian.AppendUint32(nil, uint32(len(s))), s...) }

func zkHead(xid uint32, code int32) []byte {
	out := binary.BigEndian.AppendUint32(nil, xid)
	out = binary.BigEndian.AppendUint64(out, 1)
	return binary.BigEndian.AppendUint32(out, uint32(code))
}

// zkFrame is an answer with its size before it.
func zkFrame(body ...[]byte) []byte {
	var all []byte
	for _, b := range body {
		all = append(all, b...)
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(all))), all...)
}

func zkNames(names []string) []byte {
	out := binary.BigEndian.AppendUint32(nil, uint32(len(names)))
	for _, n := range names {
		out = append(binary.BigEndian.AppendUint32(out, uint32(len(n))), n...)
	}
	return append(out, make([]byte, zkStat)...)
}

func (h *hostileZooKeeper) talk(c net.Conn) {
	read := func() []byte {
		var size [4]byte
		if _, err := io.ReadFull(c, size[:]); err != nil {
			return nil
		}
		out := make([]byte, min(binary.BigEndian.Uint32(size[:]), 1<<20))
		if _, err := io.ReadFull(c, out); err != nil {
			return nil
		}
		return out
	}
	if read() == nil {
		return
	}
	session := append(make([]byte, 4), 0, 0, 0x27, 0x10, 0, 0, 0, 0, 0, 0, 0, 7)
	if _, err := c.Write(zkFrame(session, zkText(strings.Repeat("p", 16)))); err != nil {
		return
	}
	for q := read(); len(q) >= 8; q = read() {
		xid, op := binary.BigEndian.Uint32(q), int32(binary.BigEndian.Uint32(q[4:]))
		var at string
		if (op == zkExists || op == zkGet || op == zkChildren) && len(q) >= 12 {
			at = string(q[12:min(len(q), 12+int(binary.BigEndian.Uint32(q[8:])))])
		}
		h.asked.Add(1)
		if h.hostile != nil && h.hostile(c, xid, op, at) {
			continue
		}
		if _, err := c.Write(h.answer(xid, op, at)); err != nil {
			return
		}
		if op == zkChildren && strings.HasSuffix(at, "/providers") && h.listed.Add(1) == int64(h.interfaces) {
			h.sent.now()
		}
	}
}

func (h *hostileZooKeeper) answer(xid uint32, op int32, at string) []byte {
	i := 0
	_, err := fmt.Sscanf(at, "/dubbo/com.example.I%d/providers", &i)
	is := at == "/dubbo" || at == "/" || strings.HasPrefix(at, "/dubbo/com.example.I") && strings.Count(at, "/") == 2 ||
		err == nil && strings.HasSuffix(at, "/providers")
	switch {
	case at != "" && !is:
		return zkFrame(zkHead(xid, zkNoNode))
	case op == zkGet:
		return zkFrame(zkHead(xid, 0), zkText(""), make([]byte, zkStat))
	case op != zkChildren:
		return zkFrame(zkHead(xid, 0), make([]byte, zkStat))
	case at == "/dubbo":
		var all []string
		for i := range h.interfaces {
			all = append(all, fmt.Sprintf("com.example.I%d", i))
		}
		return zkFrame(zkHead(xid, 0), zkNames(all))
	case strings.HasSuffix(at, "/providers"):
		return zkFrame(zkHead(xid, 0), zkNames(h.children(i)))
	}
	return zkFrame(zkHead(xid, 0), zkNames([]string{"providers"}))
}

func startZooKeeper(t *testing.T, h *hostileZooKeeper) *reading {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				h.talk(c)
			}()
		}
	}()
	text := fmt.Sprintf("registries:\n- name: main\n  zookeeper: {servers: ['%s'], applicationRoot: none}\n", l.Addr())
	r := startReading(t, "--registriesConfig", rig.Write(t, rig.Folder(t), "registries", []byte(text)))
	t.Cleanup(func() {
		l.Close()
		r.Kill()
	})
	return r
}

// zkProvider returns the name of the node that a provider of an interface registers.
func zkProvider(i, n int, more string) string {
	const url = "dubbo%%3A%%2F%%2F10.%d.%d.%d%%3A20880%%2Fcom.example.I%d%%3Fapplication%%3Da%s"
	return fmt.Sprintf(url, i%250, n/250, n%250, i, more)
}

func oneProvider(i int) []string { return []string{zkProvider(i, 0, "")} }

// If the providers in a ZooKeeper exceed the bound of memory, the source leaves some out, and a problem gives the bound.
func TestZooKeeperOfManyBytes(t *testing.T) {
	long := "%26x%3D" + strings.Repeat("x", 400)
	all := make([][]string, 100) // made before: a server that makes them while it answers takes the processor from the program
	for i := range all {
		for n := range 4000 {
			all[i] = append(all[i], zkProvider(i, n, long))
		}
	}
	h := &hostileZooKeeper{interfaces: len(all), children: func(i int) []string { return all[i] }}
	r := startZooKeeper(t, h)
	r.meanwhile(t, func() { r.tellsSoon(t, &h.sent, "of at most 100663296 bytes") })
	r.holds(t)
}

// The source refuses answers of a ZooKeeper that announce too many bytes, or more items than they hold. It pauses after each of them, and a
// problem gives the reason.
func TestZooKeeperOfLargeAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		body  func(xid uint32) []byte
		tells string
	}{
		"size": {func(xid uint32) []byte {
			return zkFrame(zkHead(xid, 0), make([]byte, 40<<20))
		}, "the answer is larger than maxAnswerMiB allows"},
		"names": {func(xid uint32) []byte {
			return zkFrame(zkHead(xid, 0), []byte{0x7f, 0xff, 0xff, 0xff}, make([]byte, zkStat))
		}, "main"},
	} {
		t.Run(name, func(t *testing.T) {
			h := &hostileZooKeeper{interfaces: 1, children: oneProvider}
			h.hostile = func(w net.Conn, xid uint32, op int32, at string) bool {
				if at != "/dubbo" || op != zkChildren {
					return false
				}
				_, _ = w.Write(c.body(xid))
				h.sent.now()
				return true
			}
			r := startZooKeeper(t, h)
			r.meanwhile(t, func() { r.tellsSoon(t, &h.sent, c.tells) })
			r.holds(t)
			if n := h.asked.Load(); n > 200 {
				t.Errorf("it was asked %d times", n)
			}
		})
	}
}

// If a ZooKeeper says that a node exists and then that it does not, the source pauses between its reads, and a problem says so.
func TestZooKeeperThatFlaps(t *testing.T) {
	h := &hostileZooKeeper{interfaces: 1, children: oneProvider}
	h.hostile = func(w net.Conn, xid uint32, op int32, at string) bool {
		if !strings.HasSuffix(at, "/configurators") {
			return false
		}
		if op == zkChildren {
			_, _ = w.Write(zkFrame(zkHead(xid, zkNoNode)))
			h.sent.now()
			return true
		}
		_, _ = w.Write(zkFrame(zkHead(xid, 0), make([]byte, zkStat)))
		return true
	}
	r := startZooKeeper(t, h)
	r.meanwhile(t, func() { r.tellsSoon(t, &h.sent, "it comes and goes") })
	r.holds(t)
	if n := h.asked.Load(); n > 200 {
		t.Errorf("it was asked %d times", n)
	}
}

// If a ZooKeeper sends its answers byte by byte, a problem says so within 15 s, not soon: an honest answer may take 10 s on a slow line,
// and until then nothing tells the two apart.
func TestZooKeeperThatDrips(t *testing.T) {
	h := &hostileZooKeeper{interfaces: 1, children: oneProvider}
	h.hostile = func(w net.Conn, xid uint32, op int32, at string) bool {
		if at != "/dubbo" || op != zkChildren {
			return false
		}
		_, _ = w.Write(binary.BigEndian.AppendUint32(nil, 1<<20))
		for range time.Tick(time.Second) {
			if _, err := w.Write([]byte{0}); err != nil {
				break
			}
		}
		return true
	}
	r := startZooKeeper(t, h)
	r.meanwhile(t, func() { r.tells(t, 15*time.Second, "the answer ended early") })
	r.holds(t)
}
