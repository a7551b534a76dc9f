package xdstest

import (
	"fmt"
	"hash/fnv"
	"strings"

	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"fairway/internal/xds/library"
	"fairway/internal/xdstype"
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

// Body is the resource's message: a text that ReadSpec reads.
func (s Spec) Body() []byte {
	return fmt.Appendf(nil, "%d needs=%s load=%s route=%s vhds=%v name=%s", s.Version, strings.Join(s.Needs, ","), s.Load, s.Route,
		s.VHDS, s.Name)
}

// ReadSpec reads a body back; of a load assignment that the server made up, the name alone.
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

// withoutEndpoints reports whether a body is a load assignment that the server made up, and returns its cluster.
func withoutEndpoints(body []byte) (name string, ok bool) {
	num, typ, n := protowire.ConsumeTag(body)
	if n < 0 || num != 1 || typ != protowire.BytesType {
		return "", false
	}
	value, m := protowire.ConsumeString(body[n:])
	return value, m >= 0 && n+m == len(body)
}

// MembersField is the field of the tests' route configurations for their virtual hosts.
const MembersField protowire.Number = 2

// Resource encodes it. Its version depends on the body alone.
func (s Spec) Resource() *library.Resource {
	o := library.ResourceOptions{Needs: s.Needs, Load: s.Load}
	if s.VHDS {
		bare := s
		bare.VHDS = false
		o.StateForm = &library.Part{Body: bare.Body(), MemberType: xdstype.VirtualHostURL, MemberPrefix: s.Name + "/", Field: MembersField}
	}
	return library.NewResource(s.Type, s.Name, HashOf(s.Body()), s.Body(), o)
}

// On puts it on a shelf.
func (s Spec) On(shelf library.ShelfKey) library.Change {
	return library.Change{Shelf: shelf, Type: s.Type, Name: s.Name, Resource: s.Resource()}
}

// Gone removes a name from a shelf.
func Gone(shelf library.ShelfKey, typ, name string) library.Change {
	return library.Change{Shelf: shelf, Type: typ, Name: name}
}

// Cluster returns a cluster that takes no load assignment.
func Cluster(name string, version uint64) Spec {
	return Spec{Type: xdstype.ClusterURL, Name: name, Version: version}
}

// EDSCluster returns a cluster that takes the load assignment of its name.
func EDSCluster(name string, version uint64) Spec {
	return Spec{Type: xdstype.ClusterURL, Name: name, Version: version, Load: name}
}

// Load returns a load assignment.
func Load(name string, version uint64) Spec {
	return Spec{Type: xdstype.EndpointURL, Name: name, Version: version}
}

// Listener returns a listener that refers to a route configuration, which may be none, and needs clusters.
func Listener(name string, version uint64, route string, needs ...string) Spec {
	return Spec{Type: xdstype.ListenerURL, Name: name, Version: version, Route: route, Needs: needs}
}

// Route returns a route configuration that is whole.
func Route(name string, version uint64, needs ...string) Spec {
	return Spec{Type: xdstype.RouteURL, Name: name, Version: version, Needs: needs}
}

// VHDSRoute returns a route configuration with virtual hosts that are resources of their own.
func VHDSRoute(name string, version uint64) Spec {
	return Spec{Type: xdstype.RouteURL, Name: name, Version: version, VHDS: true}
}

// Host returns a virtual host.
func Host(name string, version uint64, needs ...string) Spec {
	return Spec{Type: xdstype.VirtualHostURL, Name: name, Version: version, Needs: needs}
}

// Secret returns a secret.
func Secret(name string, version uint64) Spec {
	return Spec{Type: xdstype.SecretURL, Name: name, Version: version}
}

// AllTypes are the types that have a fixed order of sending.
var AllTypes = []string{
	xdstype.ClusterURL, xdstype.EndpointURL, xdstype.SecretURL, xdstype.ListenerURL, xdstype.RouteURL, xdstype.VirtualHostURL,
}

// HashOf is a version that depends on the body.
func HashOf(body []byte) uint64 {
	h := fnv.New64a()
	_, _ = h.Write(body)
	return h.Sum64()
}

// Members encodes the part of a whole route configuration behind its body.
func Members(specs ...Spec) string {
	var b []byte
	for _, s := range specs {
		b = protowire.AppendBytes(protowire.AppendTag(b, MembersField, protowire.BytesType), s.Body())
	}
	return string(b)
}

// Refusal is the error_detail of a NACK; nil without a text.
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
