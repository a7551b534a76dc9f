package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"fairway/internal/mesh"
)

// Made describes an object that is made of another one, which users wrote. Such an object never comes from a source. It is immutable.
type Made struct {
	// Fields lists what the fields are made of, so that problems name the field that the user wrote.
	Fields []MadeOf
	// ByPath says for a VirtualService that its prefixes match whole path elements, and that routes of such VirtualServices have precedence
	// by how specific their matches are, not by their order (Kubernetes' Ingress, and the Gateway API).
	ByPath bool
	// Within are the hostnames that the hosts of a VirtualService were written as, by host, if requests for a host go first to rules that
	// name a narrower one (HTTPRouteSpec.hostnames).
	Within map[mesh.Host]mesh.Host
	// Routes are what the routes of requests of a VirtualService have beside their fields there: one for each, or none.
	Routes []MadeRoute
	// Alone says for a Gateway that it selects only proxies of its own namespace, and that its server answers 404 for its hosts where no
	// route does: requests for them go to no other server of the port, even if that has a wildcard above.
	Alone bool
	// Datagrams says for a Gateway that its port takes UDP. A Gateway that users write cannot ask for that.
	Datagrams bool
	// Granted are the credentials of other namespaces that a Gateway may name, because their owners allow it (ReferenceGrant). They are
	// written as the Gateway names them, with their namespaces.
	Granted []string
	// Ports are the port names of destinations, by the destination's field. A VirtualService itself has only port numbers.
	Ports map[string]string
}

// MadeRoute is what the Gateway API says of a route of requests, and a VirtualService cannot.
type MadeRoute struct {
	// Missing is the status of requests to a destination that is not there; 0: 503.
	Missing uint32
	// Prefix takes the place of the path prefix that a request was matched by, as whole path elements
	// (HTTPPathModifier.replacePrefixMatch). nil: paths stay, or the VirtualService says how they change.
	Prefix *string
	// TryTimeout is the timeout of each try (HTTPRouteTimeouts.backendRequest); 0: that of the whole request.
	TryTimeout time.Duration
	// Upto is the share of the requests that the route and those before it with the same matches take, of a million; 0: all that match.
	Upto uint32
	// Picker chooses the endpoint of each request; zero: the cluster does.
	Picker mesh.Picker
}

// MadeOf says that a field, with all below it, is made of a field of the other object.
type MadeOf struct {
	Field, Of string
	Moved     bool // Field is a copy of Of in another place: fields below one are below the other
	Foreign   bool // Field belongs to a third object, named by Of: its problems are that object's
}

// Origin returns the field that a field is made of, or the field itself if neither it nor a field around it is listed. m may be nil.
func (m *Made) Origin(field string) string {
	if m == nil {
		return field
	}
	f := m.of(field)
	switch {
	case f == nil:
		return field
	case f.Moved:
		return f.Of + strings.TrimPrefix(field, f.Field)
	}
	return f.Of
}

// Foreign reports whether a field belongs to a third object. m may be nil.
func (m *Made) Foreign(field string) bool {
	if m == nil {
		return false
	}
	f := m.of(field)
	return f != nil && f.Foreign
}

// MayName reports whether the object may name a credential of another namespace. m may be nil.
func (m *Made) MayName(credential string) bool {
	return m != nil && slices.Contains(m.Granted, credential)
}

// of returns the entry of a field, or of the nearest field around it; nil if there is none.
func (m *Made) of(field string) *MadeOf {
	var out *MadeOf
	for i, f := range m.Fields {
		if (out == nil || len(f.Field) > len(out.Field)) && within(field, f.Field) {
			out = &m.Fields[i]
		}
	}
	return out
}

// within reports whether a field is another one, or below it.
func within(field, above string) bool {
	rest, ok := strings.CutPrefix(field, above)
	return ok && (rest == "" || above == "" || rest[0] == '.' || rest[0] == '[')
}

// NewMade makes an object out of another one. Users should not be able to write its name, so that it never conflicts with an object of
// theirs; its problems name the other object.
func NewMade(key Key, of *Object, spec proto.Message, made *Made) *Object {
	o := &Object{Key: key, Created: of.Created, Spec: spec, Made: made, Ref: of.Unplaced().Ref}
	o.Hash = hash(o)
	return o
}

// String describes the parts of an object that are not in its specification; it is part of the object's content.
func (m *Made) String() string {
	if m == nil {
		return ""
	}
	out := fmt.Sprint(m.Fields, m.ByPath, m.Ports, m.Alone)
	if len(m.Granted) > 0 {
		out += fmt.Sprint(" ", m.Granted)
	}
	if len(m.Within) > 0 {
		out += fmt.Sprint(" ", m.Within) // in the order of the hosts
	}
	for _, r := range m.Routes {
		out += fmt.Sprint(" ", r.Missing, r.TryTimeout, r.Upto, r.Picker)
		if r.Prefix != nil {
			out += " " + strconv.Quote(*r.Prefix)
		}
	}
	return out
}
