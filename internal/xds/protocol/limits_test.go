package protocol

import (
	"strconv"
	"testing"

	"fairway/internal/xdstype"
)

// TestNamesBesideAWildcardGo: a client that names resources beside the wildcard, and then the wildcard alone, leaves nothing of the names
// that do not exist: else it could go on with others for ever.
func TestNamesBesideAWildcardGo(t *testing.T) {
	for _, typ := range []string{xdstype.ClusterURL, xdstype.SecretURL} {
		k := newTalk(t, false)
		k.put(cluster("a", 1))
		k.state(typ, "", "", "*")
		for round := range 20 {
			drain := func(names ...string) {
				for resp := k.next(); resp != nil; resp = k.next() {
					g := decodeResponse(t, false, resp.Data)
					k.last[g.typ], k.vers[g.typ] = g.nonce, g.version
				}
				k.state(typ, k.last[typ], "", names...)
			}
			names := []string{"*"}
			for i := range 100 {
				names = append(names, "no-"+strconv.Itoa(round)+"-"+strconv.Itoa(i))
			}
			drain("*")
			drain(names...)
			drain(names...)
			drain("*")
		}
		n := 0
		for range k.m.subs[typ].slots.All() {
			n++
		}
		if n > 200 {
			t.Errorf("%s: %d names are kept of a client that subscribes to the wildcard alone", xdstype.Short(typ), n)
		}
	}
}

// TestNothingIsRefusedThatIsGone: a client that refused a resource, whether it has an earlier version or none, refuses nothing once the
// resource is gone.
func TestNothingIsRefusedThatIsGone(t *testing.T) {
	for _, delta := range []bool{true, false} {
		for _, before := range []bool{true, false} {
			k := newTalk(t, delta)
			if before {
				k.put(cluster("a", 1))
			}
			if delta {
				k.ask(xdstype.ClusterURL, "*")
			} else {
				k.state(xdstype.ClusterURL, "", "", "*")
			}
			drain := func() (sent int) {
				for resp := k.next(); resp != nil; resp = k.next() {
					g := decodeResponse(t, delta, resp.Data)
					k.last[g.typ], k.vers[g.typ] = g.nonce, g.version
					sent++
				}
				return sent
			}
			for drain() > 0 {
				k.ack(xdstype.ClusterURL, "*")
			}
			k.put(cluster("a", 2))
			drain()
			k.nack(xdstype.ClusterURL, "no good", "*")
			if refused := k.m.Refused(); len(refused) != 1 {
				t.Fatalf("delta=%v, before=%v: %v are refused", delta, before, refused)
			}
			k.del(xdstype.ClusterURL, "a")
			for drain() > 0 {
				k.ack(xdstype.ClusterURL, "*")
			}
			if refused := k.m.Refused(); len(refused) != 0 || k.m.Status()[xdstype.ClusterURL].Rejected != "" {
				t.Errorf("delta=%v, before=%v: %v are refused though nothing is there", delta, before, refused)
			}
		}
	}
}
