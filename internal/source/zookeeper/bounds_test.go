package zookeeper

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"fairway/internal/source"
)

// A node that exists and does not exist is reported, and read with pauses.
func TestANodeThatComesAndGoes(t *testing.T) {
	var asked atomic.Int64
	f := &fake{nodes: map[string]string{providerNode: ""}}
	f.answer = func(xid uint32, op int32, at string) []byte {
		switch {
		case at != "/dubbo/com.example.A/configurators":
			return nil
		case op == opChildren:
			asked.Add(1)
			return framed(head(xid, -101))
		}
		return framed(append(head(xid, 0), make([]byte, statSize)...))
	}
	k := run(t, Options{Servers: []string{serve(t, f)}})
	k.until(t, "that the node comes and goes", func() bool {
		list := k.said["/dubbo/com.example.A"]
		return len(list) == 1 && strings.Contains(list[0].Message, "it comes and goes")
	})
	if n := asked.Load(); n > 30 {
		t.Errorf("it was asked for %d times until that was told", n)
	}
}

// Nodes with too much content together keep their earlier state, and that is reported; small ones beside them are read.
func TestNodesOfTooManyBytes(t *testing.T) {
	nodes := map[string]string{providerNode: ""}
	for i := range 32 {
		nodes[fmt.Sprintf("/dubbo/com.example.Large%d/providers/x", i)] = ""
	}
	var many []byte
	const names = 8000
	many = binary.BigEndian.AppendUint32(many, names)
	for i := range names {
		const url = "dubbo%%3A%%2F%%2F10.0.%d.%d%%3A20880%%2Fx%%3Fa%%3D%s"
		many = append(many, text(fmt.Sprintf(url, i/250, i%250, strings.Repeat("x", 200)))...)
	}
	many = append(many, make([]byte, statSize)...)
	f := &fake{nodes: nodes}
	f.answer = func(xid uint32, op int32, at string) []byte {
		if op == opChildren && strings.Contains(at, ".Large") && strings.HasSuffix(at, "/providers") {
			return framed(append(head(xid, 0), many...))
		}
		return nil
	}
	k := run(t, Options{Servers: []string{serve(t, f)}, MaxBytes: 24 << 20})
	k.until(t, "what is left out", func() bool {
		list := k.said["budget"]
		return k.synced && len(list) == 1 && strings.Contains(list[0].Message, "at most 25165824 bytes")
	})
	k.mu.Lock()
	defer k.mu.Unlock()
	if n := len(k.hosts); n < 2 || n > 5 {
		t.Errorf("%d services are read, want the small one and two or three of the large ones", n)
	}
}

// A node that there was no room for is read again once there may be room. Until all has been read for the first time, no node is read
// again: a slow reading would never end otherwise.
func TestNodesThatWereLeftOutAreReadAgain(t *testing.T) {
	const small, large = "/dubbo/a/providers", "/dubbo/b/providers"
	providers := func(from, to int) (all []string) {
		for n := from; n < to; n++ {
			all = append(all, fmt.Sprintf("dubbo%%3A%%2F%%2F10.0.0.%d%%3A20880%%2Fx", n))
		}
		return all
	}
	tr := newTree("ZooKeeper/one", Options{Servers: []string{"a:1"}, ApplicationRoot: none, MaxBytes: 20_000}.filled())
	tr.begin()
	begun := time.Now()
	take := func(path string, names ...string) {
		t.Helper()
		if err := tr.take(answer{path: path, names: names, begun: begun}); err != nil {
			t.Fatal(err)
		}
	}
	wanted := func() (all []string) {
		for path := tr.next(); path != ""; path = tr.next() {
			all = append(all, path)
			tr.done(path)
		}
		return all
	}
	take("/dubbo", "a", "b")
	take(small, providers(1, 11)...)
	take(large, providers(11, 16)...)
	if !tr.nodes[large].full {
		t.Fatalf("%d bytes are kept, and all fits", tr.account.Used().Bytes)
	}
	wanted()

	s := &sitting{Source: &Source{o: tr.o, tree: tr}, up: true}
	looks := func(what string, after time.Duration, fresh, want bool) {
		t.Helper()
		s.fresh = fresh
		if err := s.look(begun.Add(after)); err != nil {
			t.Fatal(err)
		}
		if got := slices.Contains(wanted(), large); got != want {
			t.Errorf("%s: it is read again: %t, want %t", what, got, want)
		}
	}
	looks("there is no room", time.Hour, true, false)
	take(small, providers(1, 2)...)
	looks("not all has been read", time.Hour, false, false)
	looks("it was just read", time.Second, true, false)
	looks("there is room", time.Hour, true, true)
}

// The state of 5,000 interfaces of 10 providers fits into the default bound, and takes far less memory than is charged for it and its
// rows: nothing keeps the URLs that it was read from.
func TestWhatIsKeptOfProviders(t *testing.T) {
	const services, each = 5000, 10
	o := Options{Servers: []string{"a:1"}, ApplicationRoot: none}.filled()
	before := heap()
	tr := newTree("ZooKeeper/one", o)
	tr.begin()
	take := func(path string, names ...string) {
		t.Helper()
		if err := tr.take(answer{path: path, names: names, begun: time.Now()}); err != nil {
			t.Fatal(err)
		}
		if n := tr.nodes[path]; n.full {
			t.Fatalf("there is no room for %s", path)
		}
	}
	var names []string
	for i := range services {
		names = append(names, fmt.Sprintf("com.example.service.I%d", i))
	}
	take("/dubbo", names...)
	more := strings.Repeat("%26methods%3DsayHello%2CsayHelloAsync", 20)
	for i, name := range names {
		var all []string
		for n := range each {
			const url = "dubbo%%3A%%2F%%2F10.%d.%d.%d%%3A20880%%2F%s%%3Fapplication%%3Dapp-%d%%26release%%3D3.2.0" +
				"%%26timestamp%%3D1699331%d%s"
			all = append(all, fmt.Sprintf(url, i/250, i%250, n, name, i/10, n, more))
		}
		take("/dubbo/"+name+"/providers", all...)
		take("/dubbo/" + name + "/configurators")
	}
	is := int(heap()-before) / (services * each)
	t.Logf("%d bytes are kept of a provider, %d are charged", is, tr.account.Used().Bytes/(services*each))
	if is > 400 {
		t.Errorf("%d bytes are kept of a provider, want at most 400", is)
	}
	runtime.KeepAlive(tr)
}

// A large change is handed on in parts of as many rows as one turn takes in, each once the one before is in force.
func TestLargeChangesGoOnInParts(t *testing.T) {
	nodes := map[string]string{}
	for i := range 1200 {
		nodes[fmt.Sprintf("/dubbo/com.example.I%d/providers/dubbo%%3A%%2F%%2F10.0.0.1%%3A20880%%2Fx", i)] = ""
	}
	k := run(t, Options{Servers: []string{serve(t, &fake{nodes: nodes})}, ApplicationRoot: none})
	k.until(t, "all services", func() bool { return k.synced && len(k.hosts) == 1200 })
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.most > source.PieceRows {
		t.Errorf("%d rows are handed on at once, want at most %d", k.most, source.PieceRows)
	}
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
