package xds

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// spec is a resource as the tests write it: its body is text that the model client can read back.
type spec struct {
	typ, name string
	version   uint64
	needs     []string // clusters
	load      string   // of a cluster
	route     string   // of a listener
	vhds      bool     // of a route configuration
}

func (s spec) body() []byte {
	return fmt.Appendf(
		nil,
		"%d needs=%s load=%s route=%s vhds=%v name=%s",
		s.version,
		strings.Join(s.needs, ","),
		s.load,
		s.route,
		s.vhds,
		s.name,
	)
}

func readSpec(body []byte) (s spec) {
	if name, ok := withoutEndpoints(body); ok {
		return spec{name: name}
	}
	text, _, _ := strings.Cut(string(body), "\x12")
	var needs, load, route string
	for i, f := range strings.Split(text, " ") {
		_, value, _ := strings.Cut(f, "=")
		switch i {
		case 0:
			_, _ = fmt.Sscan(f, &s.version)
		case 1:
			needs = value
		case 2:
			load = value
		case 3:
			route = value
		case 4:
			s.vhds = value == "true"
		case 5:
			s.name = value
		}
	}
	if needs != "" {
		s.needs = strings.Split(needs, ",")
	}
	s.load, s.route = load, route
	return s
}

// withoutEndpoints tells whether a body is a load assignment that the server made up, and for which cluster.
func withoutEndpoints(body []byte) (name string, ok bool) {
	num, value, rest, err := nextField(string(body))
	return value, err == nil && num == 1 && rest == ""
}

// membersField is where the tests' route configurations take their virtual hosts.
const membersField protowire.Number = 2

func (s spec) resource() *Resource {
	o := ResourceOptions{Needs: s.needs, Load: s.load}
	if s.vhds {
		bare := s
		bare.vhds = false
		o.Bare = &Part{Body: bare.body(), MemberType: VirtualHostType, MemberPrefix: s.name + "/", Field: membersField}
	}
	return NewResource(s.typ, s.name, mixVersion(string(s.body()), s.version), s.body(), o)
}

func (s spec) on(shelf ShelfKey) Change {
	return Change{Shelf: shelf, Type: s.typ, Name: s.name, Resource: s.resource()}
}

func gone(shelf ShelfKey, typ, name string) Change {
	return Change{Shelf: shelf, Type: typ, Name: name}
}

func cluster(name string, version uint64) spec {
	return spec{typ: ClusterType, name: name, version: version}
}
func edsCluster(name string, version uint64) spec {
	return spec{typ: ClusterType, name: name, version: version, load: name}
}
func load(name string, version uint64) spec {
	return spec{typ: EndpointType, name: name, version: version}
}
func listener(name string, version uint64, route string, needs ...string) spec {
	return spec{typ: ListenerType, name: name, version: version, route: route, needs: needs}
}
func route(name string, version uint64, needs ...string) spec {
	return spec{typ: RouteType, name: name, version: version, needs: needs}
}
func vhdsRoute(name string, version uint64) spec {
	return spec{typ: RouteType, name: name, version: version, vhds: true}
}
func host(name string, version uint64, needs ...string) spec {
	return spec{typ: VirtualHostType, name: name, version: version, needs: needs}
}

func secret(name string, version uint64) spec {
	return spec{typ: SecretType, name: name, version: version}
}

var allTypes = []string{ClusterType, EndpointType, SecretType, ListenerType, RouteType, VirtualHostType}

// rig is a library and one machine, without wire, locks or time.
type rig struct {
	t      testing.TB
	lib    *Library
	viewer *viewer
	m      *machine
	turn   uint64
	keys   []ShelfKey
	events []event
}

func newRig(t testing.TB, delta bool) *rig {
	r := &rig{t: t, lib: NewLibrary()}
	r.lib.memories.few = 1
	r.reconnect(delta)
	r.attach("low")
	return r
}

func (r *rig) reconnect(delta bool) {
	if r.viewer != nil {
		r.lib.close("p", r.viewer)
	}
	r.viewer = r.lib.open("p")
	for _, typ := range allTypes {
		r.lib.follow(r.viewer, typ)
	}
	r.m = newMachine(delta, limits{bytes: 1 << 20, names: 1000, window: 16})
}

func (r *rig) attach(keys ...ShelfKey) { r.publishAndAttach(nil, keys...) }

// publishAndAttach publishes changes and other stacks in one turn.
func (r *rig) publishAndAttach(changes []Change, keys ...ShelfKey) {
	r.keys = keys
	r.turn++
	r.lib.Publish(r.turn, changes, Attach{Proxy: "p", To: r.attachment()})
}

// attachment is what the proxy was told to see.
func (r *rig) attachment() *Attachment {
	at := &Attachment{Stacks: map[string][]ShelfKey{}}
	for _, typ := range allTypes {
		at.Stacks[typ] = r.keys
	}
	return at
}

// audit compares the machine with what its stacks resolve to.
func (r *rig) audit() (out Audited) {
	r.lib.read(r.viewer, func(v *view) {
		r.lib.compareStacks(v.at, r.attachment(), &out)
		for _, s := range r.m.order {
			r.m.audit(v, s, &out)
		}
	})
	return out
}

func (r *rig) publish(changes ...Change) {
	r.turn++
	r.lib.Publish(r.turn, changes)
}

// put publishes the specs on the lowest shelf.
func (r *rig) put(specs ...spec) {
	var changes []Change
	for _, s := range specs {
		changes = append(changes, s.on("low"))
	}
	r.publish(changes...)
}

func (r *rig) next() (resp *response) {
	r.lib.read(r.viewer, func(v *view) { resp = r.m.next(v) })
	r.events = append(r.events, r.m.events...)
	r.m.events = nil
	return resp
}

// receive has the machine take a request. The first of a type was made by another stream before, so that the
// machine finds a memory of it where there can be one.
func (r *rig) receive(req *request) (err error) {
	r.lib.read(r.viewer, func(v *view) {
		if r.m.delta && r.m.subs[req.typ] == nil && len(req.initial) > 0 {
			before := newMachine(true, r.m.limits)
			before.withhold = r.m.withhold
			if err := before.receive(v, req); err != nil {
				r.t.Logf("a stream before: %v", err)
			}
		}
		err = r.m.receive(v, req)
	})
	return err
}

func (r *rig) view() (out *view) {
	r.lib.read(r.viewer, func(v *view) { out = v })
	return out
}

// lookup returns the resource that the proxy sees under a name.
func (v *view) lookup(typ, name string) *Resource { return v.stack(typ).resolve(v.enter(name)) }

// slot returns what the machine knows of a name.
func (r *rig) slot(typ, name string) slot { return r.m.subs[typ].slots.get(r.view().enter(name)) }

// got is a response of either protocol, decoded by the generated code.
type got struct {
	typ, nonce, version string
	names               []string
	versions            map[string]string // delta only
	bodies              map[string][]byte
	removed             []string
}

func (g got) String() string {
	out := shortType(g.typ)
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
			name := readSpec(r.Value).name
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

func wire(t testing.TB, delta bool, m proto.Message) *request {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	r := &request{delta: delta}
	if err := r.decode(mem.BufferSlice{mem.SliceBuffer(b)}); err != nil {
		t.Fatal(err)
	}
	return r
}

func nackStatus(text string) *statuspb.Status {
	if text == "" {
		return nil
	}
	return &statuspb.Status{Code: 13, Message: text}
}

func sortedNames[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
