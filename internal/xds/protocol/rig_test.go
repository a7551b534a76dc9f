package protocol

import (
	"maps"
	"slices"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"fairway/internal/xds/library"
	"fairway/internal/xds/slots"
	"fairway/internal/xds/wire"
	"fairway/internal/xdstype"
)

// rig is a library and one machine, without wire, locks or time.
type rig struct {
	t      testing.TB
	lib    *library.Library
	shared *Shared
	viewer *library.Viewer
	m      *Machine
	turn   uint64
	keys   []library.ShelfKey
	events []Event
}

func newRig(t testing.TB, delta bool) *rig {
	r := &rig{t: t, lib: library.New(), shared: NewShared()}
	r.shared.firsts.few = 1
	r.lib.OnEdited(r.shared.Forget)
	r.reconnect(delta)
	r.attach("low")
	return r
}

func (r *rig) reconnect(delta bool) {
	if r.viewer != nil {
		r.viewer.Close()
	}
	r.viewer = r.lib.Open("p")
	for _, typ := range allTypes {
		r.viewer.Follow(typ)
	}
	r.m = New(delta, Limits{Bytes: 1 << 20, Names: 1000, Window: 16}, r.shared)
}

func (r *rig) attach(keys ...library.ShelfKey) { r.publishAndAttach(nil, keys...) }

// publishAndAttach publishes changes and other stacks in one turn.
func (r *rig) publishAndAttach(changes []library.Change, keys ...library.ShelfKey) {
	r.keys = keys
	r.turn++
	r.lib.Publish(r.turn, changes, library.Attach{Proxy: "p", To: r.attachment()})
}

// attachment returns the shelves that the proxy sees.
func (r *rig) attachment() *library.Attachment {
	at := &library.Attachment{Stacks: map[string][]library.ShelfKey{}}
	for _, typ := range allTypes {
		at.Stacks[typ] = r.keys
	}
	return at
}

// audit compares the machine with the resources that its stacks resolve to.
func (r *rig) audit() (out library.Audited) {
	r.viewer.Read(func(v *library.View) {
		v.CompareStacks(r.attachment(), &out)
		for _, s := range r.m.order {
			r.m.auditType(v, s, &out)
		}
	})
	return out
}

func (r *rig) publish(changes ...library.Change) {
	r.turn++
	r.lib.Publish(r.turn, changes)
}

// put publishes the specs on the lowest shelf.
func (r *rig) put(specs ...spec) {
	var changes []library.Change
	for _, s := range specs {
		changes = append(changes, s.On("low"))
	}
	r.publish(changes...)
}

func (r *rig) next() (resp *wire.Response) {
	r.viewer.Read(func(v *library.View) { resp = r.m.Next(v) })
	r.events = append(r.events, r.m.Events()...)
	return resp
}

// receive has the machine take a request. Another stream makes the first request of each type before, so that the machine finds it
// in the cache, if it can be there.
func (r *rig) receive(req *wire.Request) (err error) {
	r.viewer.Read(func(v *library.View) {
		if r.m.delta && r.m.subs[req.Type] == nil && len(req.Initial) > 0 {
			before := New(true, r.m.limits, r.shared)
			if err := before.Receive(v, req); err != nil {
				r.t.Logf("a stream before: %v", err)
			}
		}
		err = r.m.Receive(v, req)
	})
	return err
}

func (r *rig) view() (out *library.View) {
	r.viewer.Read(func(v *library.View) { out = v })
	return out
}

// lookup returns the resource that the proxy sees under a name.
func lookup(v *library.View, typ, name string) *library.Resource {
	return v.Stack(typ).Resolve(v.Enter(name))
}

// slot returns the machine's state of a name.
func (r *rig) slot(typ, name string) slots.Slot { return r.m.subs[typ].slots.Get(r.view().Enter(name)) }

// got is a response of either protocol, decoded by the generated code.
type got struct {
	typ, nonce, version string
	names               []string
	versions            map[string]string // delta only
	bodies              map[string][]byte
	removed             []string
}

func (g got) String() string {
	out := xdstype.Short(g.typ)
	for _, n := range g.names {
		out += " " + n
	}
	for _, n := range g.removed {
		out += " -" + n
	}
	return out
}

// decodeResponse decodes a response. State-of-the-world resources have no name on the wire: their bodies tell it.
func decodeResponse(t testing.TB, delta bool, data mem.BufferSlice) got {
	t.Helper()
	g := got{versions: map[string]string{}, bodies: map[string][]byte{}}
	if delta {
		var d discoveryv3.DeltaDiscoveryResponse
		if err := proto.Unmarshal(data.Materialize(), &d); err != nil {
			t.Fatalf("decode: %v", err)
		}
		g.typ, g.nonce, g.removed, g.version = d.TypeUrl, d.Nonce, d.RemovedResources, d.SystemVersionInfo
		for _, r := range d.Resources {
			if r.Resource.TypeUrl != g.typ {
				t.Errorf("a %s in a response of %s", r.Resource.TypeUrl, g.typ)
			}
			g.names = append(g.names, r.Name)
			g.versions[r.Name] = r.Version
			g.bodies[r.Name] = r.Resource.Value
		}
	} else {
		var d discoveryv3.DiscoveryResponse
		if err := proto.Unmarshal(data.Materialize(), &d); err != nil {
			t.Fatalf("decode: %v", err)
		}
		g.typ, g.nonce, g.version = d.TypeUrl, d.Nonce, d.VersionInfo
		for _, r := range d.Resources {
			name := readSpec(r.Value).Name
			g.names = append(g.names, name)
			g.bodies[name] = r.Value
		}
	}
	seen := slices.Clone(g.names)
	slices.Sort(seen)
	if len(slices.Compact(seen)) != len(g.names) {
		t.Errorf("a name twice in one response: %v", g.names)
	}
	return g
}

func encoded(t testing.TB, delta bool, m proto.Message) *wire.Request {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	r := &wire.Request{Delta: delta}
	if err := wire.NewCodec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(b)}, r); err != nil || r.Err != nil {
		t.Fatal(err, r.Err)
	}
	return r
}

func sortedNames[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// holds is how many resources of a type the client holds, those with an unknown version too.
func (m *Machine) holds(typ string) (n int) {
	for sl := range m.subs[typ].slots.All() {
		if sl.Is(has) {
			n++
		}
	}
	return n
}
