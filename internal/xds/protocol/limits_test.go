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
