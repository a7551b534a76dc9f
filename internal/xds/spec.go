// Package xdstest is what the tests of the xDS rooms have in common: resources whose bodies a test can read back, and a mesh for
// benchmarks. It knows the library only.
package xds

import (
	"fmt"
	"hash/fnv"
	"strings"

	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/encoding/protowire"
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
	num, typ, n := protowire.ConsumeTag(body)
	if n < 0 || num != 1 || typ != protowire.BytesType {
		return "", false
	}
	value, m := protowire.ConsumeString(body[n:])
	return value, m >= 0 && n+m == len(body)
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
	return NewResource(s.typ, s.name, hashOf(s.body()), s.body(), o)
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

// hashOf is a version that depends on the body.
func hashOf(body []byte) uint64 {
	h := fnv.New64a()
	_, _ = h.Write(body)
	return h.Sum64()
}

func members(specs ...spec) string {
	var b []byte
	for _, s := range specs {
		b = protowire.AppendBytes(protowire.AppendTag(b, membersField, protowire.BytesType), s.body())
	}
	return string(b)
}

func nackStatus(text string) *statuspb.Status {
	if text == "" {
		return nil
	}
	return &statuspb.Status{Code: 13, Message: text}
}

// field encodes one length-delimited field of a message.
func field(num protowire.Number, value string) string {
	return string(protowire.AppendString(protowire.AppendTag(nil, num, protowire.BytesType), value))
}
