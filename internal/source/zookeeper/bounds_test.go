package zookeeper

import (
	"encoding/binary"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
)

// A node that is there and is not there is told, and read with pauses.
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

// Nodes whose contents are too much together keep what they said before, and that is told; small ones beside them are read.
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
		list := k.said[" budget"]
		return k.synced && len(list) == 1 && strings.Contains(list[0].Message, "at most 25165824 bytes")
	})
	k.mu.Lock()
	defer k.mu.Unlock()
	if n := len(k.hosts); n < 2 || n > 5 {
		t.Errorf("%d services are read, want the small one and two or three of the large ones", n)
	}
}
