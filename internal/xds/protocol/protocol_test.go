package protocol

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

	"fairway/internal/xds/library"
	"fairway/internal/xds/wire"
	"fairway/internal/xdstype"
)

// talk is a conversation with a machine, as a script of one-line steps.
type talk struct {
	*rig
	delta bool
	last  map[string]string // nonce of the last response, by type
	vers  map[string]string
}

func newTalk(t *testing.T, delta bool) *talk {
	return &talk{rig: newRig(t, delta), delta: delta, last: map[string]string{}, vers: map[string]string{}}
}

func (k *talk) del(typ string, names ...string) {
	var changes []library.Change
	for _, n := range names {
		changes = append(changes, gone("low", typ, n))
	}
	k.publish(changes...)
}

// ask sends an incremental request: names are subscribed to, names with a minus unsubscribed.
func (k *talk) ask(typ string, names ...string) {
	k.t.Helper()
	d := &discoveryv3.DeltaDiscoveryRequest{TypeUrl: typ}
	for _, n := range names {
		if rest, ok := strings.CutPrefix(n, "-"); ok {
			d.ResourceNamesUnsubscribe = append(d.ResourceNamesUnsubscribe, rest)
		} else {
			d.ResourceNamesSubscribe = append(d.ResourceNamesSubscribe, n)
		}
	}
	k.deliver(encoded(k.t, true, d))
}

func (k *talk) deliver(r *wire.Request) {
	k.t.Helper()
	if err := k.receive(r); err != nil {
		k.t.Fatalf("receive: %v", err)
	}
}

// initial is the first request of a reconnecting client.
func (k *talk) initial(typ string, names []string, held ...spec) {
	d := &discoveryv3.DeltaDiscoveryRequest{TypeUrl: typ, ResourceNamesSubscribe: names, InitialResourceVersions: map[string]string{}}
	for _, s := range held {
		d.InitialResourceVersions[s.Name] = library.FormatVersion(s.Resource().Version())
	}
	k.deliver(encoded(k.t, true, d))
}

// ack answers the last response of a type, nack refuses it. In the state-of-the-world protocol the request repeats
// the names.
func (k *talk) ack(typ string, names ...string)        { k.answer(typ, "", k.last[typ], names) }
func (k *talk) nack(typ, text string, names ...string) { k.answer(typ, text, k.last[typ], names) }
func (k *talk) answer(typ, text, nonce string, names []string) {
	k.t.Helper()
	if k.delta {
		k.deliver(encoded(k.t, true, &discoveryv3.DeltaDiscoveryRequest{TypeUrl: typ, ResponseNonce: nonce, ErrorDetail: nackStatus(text)}))
		return
	}
	k.state(typ, nonce, text, names...)
}

// state sends a state-of-the-world request.
func (k *talk) state(typ, nonce, text string, names ...string) {
	k.t.Helper()
	k.deliver(encoded(k.t, false, &discoveryv3.DiscoveryRequest{
		TypeUrl: typ, ResponseNonce: nonce, ResourceNames: names, VersionInfo: k.vers[typ], ErrorDetail: nackStatus(text),
	}))
}

// expect checks the responses that are sent now, one by one, and then that there are no more.
func (k *talk) expect(want ...string) {
	k.t.Helper()
	var have []string
	for resp := k.next(); resp != nil; resp = k.next() {
		g := decodeResponse(k.t, k.delta, resp.Data)
		k.last[g.typ], k.vers[g.typ] = g.nonce, g.version
		have = append(have, g.String())
	}
	if !slices.Equal(have, want) {
		k.t.Fatalf("sent\n\t%s\nwant\n\t%s", strings.Join(have, "\n\t"), strings.Join(want, "\n\t"))
	}
}

func (k *talk) rejected() (out []string) {
	for _, e := range k.events {
		if e.Kind == EventReject {
			out = append(out, xdstype.Short(e.Type)+" "+e.Name)
		}
	}
	k.events = nil
	return out
}

const (
	subHints   = "How the client specifies what resources to return"
	subSub     = "Incremental xDS, Subscribing to Resources"
	subUnsub   = "Incremental xDS, Unsubscribing from Resources"
	subMissing = "Knowing When a Requested Resource Does Not Exist"
	subDelta   = "Incremental xDS"
	subGroup   = "Grouping Resources into Responses"
	subDelete  = "Deleting Resources"
	subAck     = "ACK/NACK and resource type instance version"
	subUpdate  = "Resource updates"
	subSequel  = "Eventual consistency considerations"
	subWarm    = "Resource warming"
)

// scenario is one behaviour of the protocol, with the section and sentence of the xDS protocol page that asks for it.
type scenario struct {
	name     string
	section  string
	sentence string
	run      func(k *talk)
}

func runScenarios(t *testing.T, delta bool, all []scenario) {
	for _, s := range all {
		t.Run(s.name, func(t *testing.T) {
			if s.section == "" || s.sentence == "" {
				t.Error("cites nothing")
			}
			s.run(newTalk(t, delta))
		})
	}
}

func TestSplitResponses(t *testing.T) {
	r := newRig(t, true)
	r.m.limits.Bytes = 3000
	var all []spec
	for i := range 40 {
		all = append(all, edsCluster(fmt.Sprintf("c%02d", i), 1))
	}
	r.put(all...)
	if err := r.receive(encoded(t, true, &discoveryv3.DeltaDiscoveryRequest{TypeUrl: xdstype.ClusterURL})); err != nil {
		t.Fatal(err)
	}
	var names []string
	n := 0
	for resp := r.next(); resp != nil; resp = r.next() {
		if n++; resp.Size() > 3200 {
			t.Errorf("a response of %d bytes", resp.Size())
		}
		names = append(names, decodeResponse(t, true, resp.Data).names...)
	}
	if n < 2 || len(names) != 40 || !slices.IsSorted(names) {
		t.Errorf("%d responses with %v", n, names)
	}
}
