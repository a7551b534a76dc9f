// Package xdstest is what the tests of the xDS rooms have in common: resources whose bodies a test can read back, and a mesh for
// benchmarks. It knows the library only.
package xdstest

import (
	"fmt"
	"hash/fnv"
	"strings"

	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"fairway/internal/xds/library"
)

// Spec is a resource as the tests write it: its body is text that the model client can read back.
type Spec struct {
	Type, Name string
	Version    uint64
	Needs      []string // clusters
	Load       string   // of a cluster
	Route      string   // of a listener
	VHDS       bool     // of a route configuration
}

func (s Spec) Body() []byte {
	return fmt.Appendf(
		nil,
		"%d needs=%s load=%s route=%s vhds=%v name=%s",
		s.Version,
		strings.Join(s.Needs, ","),
		s.Load,
		s.Route,
		s.VHDS,
		s.Name,
	)
}

func ReadSpec(body []byte) (s Spec) {
	if name, ok := withoutEndpoints(body); ok {
		return Spec{Name: name}
	}
	text, _, _ := strings.Cut(string(body), "\x12")
	var needs, load, route string
	for i, f := range strings.Split(text, " ") {
		_, value, _ := strings.Cut(f, "=")
		switch i {
		case 0:
			_, _ = fmt.Sscan(f, &s.Version)
		case 1:
			needs = value
		case 2:
			load = value
		case 3:
			route = value
		case 4:
			s.VHDS = value == "true"
		case 5:
			s.Name = value
		}
	}
	if needs != "" {
		s.Needs = strings.Split(needs, ",")
	}
	s.Load, s.Route = load, route
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
const MembersField protowire.Number = 2

func (s Spec) Resource() *library.Resource {
	o := library.ResourceOptions{Needs: s.Needs, Load: s.Load}
	if s.VHDS {
		bare := s
		bare.VHDS = false
		o.Bare = &library.Part{Body: bare.Body(), MemberType: library.VirtualHostType, MemberPrefix: s.Name + "/", Field: MembersField}
	}
	return library.NewResource(s.Type, s.Name, HashOf(s.Body()), s.Body(), o)
}

func (s Spec) On(shelf library.ShelfKey) library.Change {
	return library.Change{Shelf: shelf, Type: s.Type, Name: s.Name, Resource: s.Resource()}
}

func Gone(shelf library.ShelfKey, typ, name string) library.Change {
	return library.Change{Shelf: shelf, Type: typ, Name: name}
}

func Cluster(name string, version uint64) Spec {
	return Spec{Type: library.ClusterType, Name: name, Version: version}
}
func EDSCluster(name string, version uint64) Spec {
	return Spec{Type: library.ClusterType, Name: name, Version: version, Load: name}
}
func Load(name string, version uint64) Spec {
	return Spec{Type: library.EndpointType, Name: name, Version: version}
}
func Listener(name string, version uint64, route string, needs ...string) Spec {
	return Spec{Type: library.ListenerType, Name: name, Version: version, Route: route, Needs: needs}
}
func Route(name string, version uint64, needs ...string) Spec {
	return Spec{Type: library.RouteType, Name: name, Version: version, Needs: needs}
}
func VHDSRoute(name string, version uint64) Spec {
	return Spec{Type: library.RouteType, Name: name, Version: version, VHDS: true}
}
func Host(name string, version uint64, needs ...string) Spec {
	return Spec{Type: library.VirtualHostType, Name: name, Version: version, Needs: needs}
}

func Secret(name string, version uint64) Spec {
	return Spec{Type: library.SecretType, Name: name, Version: version}
}

var AllTypes = []string{library.ClusterType, library.EndpointType, library.SecretType, library.ListenerType, library.RouteType, library.VirtualHostType}

// HashOf is a version that depends on the body.
func HashOf(body []byte) uint64 {
	h := fnv.New64a()
	_, _ = h.Write(body)
	return h.Sum64()
}

func Members(specs ...Spec) string {
	var b []byte
	for _, s := range specs {
		b = protowire.AppendBytes(protowire.AppendTag(b, MembersField, protowire.BytesType), s.Body())
	}
	return string(b)
}

func Refusal(text string) *statuspb.Status {
	if text == "" {
		return nil
	}
	return &statuspb.Status{Code: 13, Message: text}
}

// Field encodes one length-delimited field of a message.
func Field(num protowire.Number, value string) string {
	return string(protowire.AppendString(protowire.AppendTag(nil, num, protowire.BytesType), value))
}
