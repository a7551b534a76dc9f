package zookeeper

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"fairway/internal/mesh"
	"fairway/internal/source"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake answers as a ZooKeeper server does, from a map of nodes, unless a test has it answer otherwise.
type fake struct {
	listener net.Listener
	group    sync.WaitGroup
	nodes    map[string]string // by path; parents are made of them
	// first answers the request for a session; answer one for a node. Nil, or what they return nil for, is answered well.
	first  func() []byte
	answer func(xid uint32, op int32, path string) []byte

	mu    sync.Mutex
	conns []net.Conn
}

func serve(t *testing.T, f *fake) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f.listener = l
	f.group.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			f.mu.Lock()
			f.conns = append(f.conns, c)
			f.mu.Unlock()
			f.group.Go(func() {
				defer c.Close()
				f.talk(c)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		f.mu.Lock()
		for _, c := range f.conns {
			c.Close()
		}
		f.mu.Unlock()
		f.group.Wait()
	})
	return l.Addr().String()
}

func framed(body []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
}

func text(s string) []byte { return append(binary.BigEndian.AppendUint32(nil, uint32(len(s))), s...) }

// head is that of an answer.
func head(xid uint32, code int32) []byte {
	out := binary.BigEndian.AppendUint32(nil, xid)
	out = binary.BigEndian.AppendUint64(out, 1)
	return binary.BigEndian.AppendUint32(out, uint32(code))
}

// session returns the answer to the request for one.
func session(timeout uint32) []byte {
	out := binary.BigEndian.AppendUint32(nil, 0)
	out = binary.BigEndian.AppendUint32(out, timeout)
	out = binary.BigEndian.AppendUint64(out, 7)
	return append(out, text(strings.Repeat("p", 16))...)
}

func (f *fake) talk(c net.Conn) {
	if _, err := request(c); err != nil {
		return
	}
	hello := framed(session(10000))
	if f.first != nil {
		hello = f.first()
	}
	if _, err := c.Write(hello); err != nil {
		return
	}
	for {
		q, err := request(c)
		if err != nil || len(q) < 8 {
			return
		}
		xid, op := binary.BigEndian.Uint32(q), int32(binary.BigEndian.Uint32(q[4:]))
		var at string
		if (op == opExists || op == opGetData || op == opChildren) && len(q) >= 12 {
			at = string(q[12 : 12+binary.BigEndian.Uint32(q[8:])])
		}
		var out []byte
		if f.answer != nil {
			out = f.answer(xid, op, at)
		}
		if out == nil {
			out = framed(f.well(xid, op, at))
		}
		if _, err := c.Write(out); err != nil {
			return
		}
	}
}

func request(c net.Conn) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(c, size[:]); err != nil {
		return nil, err
	}
	out := make([]byte, binary.BigEndian.Uint32(size[:]))
	_, err := io.ReadFull(c, out)
	return out, err
}

func (f *fake) children(at string) (out []string, there bool) {
	for p := range f.nodes {
		if rest, below := strings.CutPrefix(p, at+"/"); below {
			out, there = append(out, strings.SplitN(rest, "/", 2)[0]), true
		}
		there = there || p == at
	}
	slices.Sort(out)
	return slices.Compact(out), there
}

func (f *fake) well(xid uint32, op int32, at string) []byte {
	names, there := f.children(at)
	if at != "" && !there {
		return head(xid, -101)
	}
	out := head(xid, 0)
	switch op {
	case opGetData:
		out = append(out, text(f.nodes[at])...)
	case opChildren:
		out = binary.BigEndian.AppendUint32(out, uint32(len(names)))
		for _, n := range names {
			out = append(out, text(n)...)
		}
	}
	return append(out, make([]byte, statSize)...)
}

// kept is a sink.
type kept struct {
	mu     sync.Mutex
	ahead  int                     // rows that were handed over since it was last waited for that they are in force
	most   int                     // the most that ahead was
	hosts  map[source.ShardKey]int // endpoints
	said   map[string][]mesh.Problem
	stale  string
	synced bool
	wake   chan struct{}
}

func (k *kept) Apply(u source.Update) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, part := range u.Shards {
		k.ahead += part.Rows.Len() + part.Gone.Len()
	}
	k.most = max(k.most, k.ahead)
	for _, s := range u.Shards {
		delete(k.hosts, s.Key)
		for _, sl := range s.Rows.Slices {
			k.hosts[s.Key] += len(sl.Endpoints)
		}
	}
	for at, list := range u.Problems {
		k.said[at] = list
	}
	k.synced = k.synced || u.Synced
	if u.Stale != "" {
		k.stale = u.Stale
	}
	if u.Fresh {
		k.stale = ""
	}
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// InForce implements source.Paced: an update is in force as soon as somebody waits for it.
func (k *kept) InForce() <-chan struct{} {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ahead = 0
	done := make(chan struct{})
	close(done)
	return done
}

// until waits until what a sink was handed is as it should be.
func (k *kept) until(t *testing.T, what string, is func() bool) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	for {
		k.mu.Lock()
		ok := is()
		stale, said := k.stale, len(k.said)
		k.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-k.wake:
		case <-deadline:
			t.Fatalf("never: %s (stale: %q, %d places with problems)", what, stale, said)
		}
	}
}

func run(t *testing.T, o Options) *kept {
	t.Helper()
	s, err := New("ZooKeeper/one", o, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	k := &kept{hosts: map[source.ShardKey]int{}, said: map[string][]mesh.Problem{}, wake: make(chan struct{}, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx, k) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	return k
}

const providerNode = "/dubbo/com.example.A/providers/dubbo%3A%2F%2F10.0.0.1%3A20880%2Fcom.example.A"

// TestHostileServers: a server that is not ZooKeeper, or lies, ends nothing here, takes no memory and is reported with its
// address.
func TestHostileServers(t *testing.T) {
	long := func(n uint32) func() []byte {
		return func() []byte { return binary.BigEndian.AppendUint32(nil, n) }
	}
	atDubbo := func(make func(xid uint32) []byte) func(uint32, int32, string) []byte {
		return func(xid uint32, op int32, at string) []byte {
			if at != "/dubbo" || op != opChildren {
				return nil
			}
			return make(xid)
		}
	}
	for _, c := range []struct {
		name string
		f    *fake
		want string
	}{
		{
			"it speaks another protocol", &fake{first: func() []byte { return []byte("HTTP/1.1 400 Bad Request\r\n\r\n") }},
			"does not speak ZooKeeper's",
		},
		{"a first answer of 4 GB", &fake{first: long(1<<32 - 1)}, "does not speak ZooKeeper's"},
		{"a session of no time", &fake{first: func() []byte { return framed(session(0)) }}, "a session of 0 ms"},
		{"an answer of 4 bytes", &fake{answer: atDubbo(func(uint32) []byte { return framed([]byte("1234")) })}, "its length is 4"},
		{"an answer of 4 GB", &fake{answer: atDubbo(func(uint32) []byte { return long(1<<32 - 1)() })}, "not valid for ZooKeeper"},
		{"4 billion children", &fake{answer: atDubbo(func(xid uint32) []byte {
			return framed(append(append(head(xid, 0), 0xff, 0xff, 0xff, 0xff), make([]byte, 100)...))
		})}, "not valid for ZooKeeper"},
		{"a name longer than its answer", &fake{answer: atDubbo(func(xid uint32) []byte {
			return framed(append(append(head(xid, 0), 0, 0, 0, 1, 0x7f, 0xff, 0xff, 0xff), make([]byte, 100)...))
		})}, "not valid for ZooKeeper"},
		{
			"no stat", &fake{answer: atDubbo(func(xid uint32) []byte { return framed(append(head(xid, 0), 0, 0, 0, 0)) })},
			"not valid for ZooKeeper",
		},
		{
			"an event of nothing", &fake{answer: atDubbo(func(uint32) []byte { return framed(head(1<<32-1, 0)) })},
			"not valid for ZooKeeper",
		},
		{"refused", &fake{answer: atDubbo(func(xid uint32) []byte { return framed(head(xid, -102)) })}, "access list refuses it"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.f.nodes = map[string]string{providerNode: ""}
			at := serve(t, c.f)
			k := run(t, Options{Servers: []string{at}, MaxAnswer: 1, SessionTimeoutSeconds: 1})
			k.until(t, c.want, func() bool { return strings.Contains(k.stale, "ZooKeeper/one") && strings.Contains(k.stale, c.want) })
			if k.synced {
				t.Error("it is synced all the same")
			}
		})
	}
}

// TestTooLarge: a node with too large an answer is reported, and does not affect the others.
func TestTooLarge(t *testing.T) {
	f := &fake{nodes: map[string]string{providerNode: "", "/dubbo/com.example.B/providers/x": "", "/services/web/big": ""}}
	f.answer = func(xid uint32, op int32, at string) []byte {
		switch {
		case at == "/dubbo/com.example.B/providers" && op == opChildren:
			return framed(append(head(xid, 0), make([]byte, 3<<20)...))
		case at == "/services/web/big" && op == opGetData:
			return framed(append(head(xid, 0), make([]byte, 2<<20)...))
		}
		return nil
	}
	k := run(t, Options{Servers: []string{serve(t, f)}, MaxAnswer: 1})
	k.until(t, "the problems", func() bool {
		return k.synced && len(k.said["/dubbo/com.example.B"]) == 1 && len(k.said["/services/web"]) == 1
	})
	k.mu.Lock()
	defer k.mu.Unlock()
	if p := k.said["/dubbo/com.example.B"][0]; p.Code != "TooMuch" || !strings.Contains(p.Fix, "maxAnswerMiB") {
		t.Errorf("it says %v", p)
	}
	if len(k.hosts) != 1 {
		t.Errorf("services %v, want that of com.example.A", k.hosts)
	}
}

// TestSeveralServers: those that are away, or no servers, are passed over.
func TestSeveralServers(t *testing.T) {
	good := serve(t, &fake{nodes: map[string]string{providerNode: ""}})
	bad := serve(t, &fake{first: func() []byte { return []byte("nonsense that is long enough") }})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	away := l.Addr().String()
	l.Close()
	k := run(t, Options{Servers: []string{away, bad, good}})
	k.until(t, "synced", func() bool { return k.synced && len(k.hosts) == 1 })
}

// TestBounds: nodes beyond the bounds are left out and reported.
func TestBounds(t *testing.T) {
	f := &fake{nodes: map[string]string{}}
	for _, i := range []string{"a", "b", "c"} {
		for _, p := range []string{"1", "2", "3"} {
			f.nodes["/dubbo/"+i+"/providers/dubbo%3A%2F%2F10.0.0."+p+"%3A20880%2F"+i] = ""
		}
	}
	at := serve(t, f)
	k := run(t, Options{Servers: []string{at}, MaxServices: 2, MaxInstances: 4})
	k.until(t, "a problem", func() bool { return k.synced && len(k.said["/"]) > 0 })
	k.mu.Lock()
	defer k.mu.Unlock()
	total := 0
	for key, n := range k.hosts {
		total += n
		if path.Base(key.Part) == "c" {
			t.Error("the third interface is read")
		}
	}
	if total != 4 {
		t.Errorf("%d providers, want 4", total)
	}
}
