// Package mcpwire has the messages of the Mesh Configuration Protocol as bytes: istio.mcp.v1alpha1.RequestResources and Resources, and
// the names of its services. Modules of istio.io/api have had neither since its version 1.6; mcp/v1alpha1/mcp.proto of before is the
// specification. Both ends of the protocol use it: source/mcpxds, app/reader and app/pushed.
package mcpwire

import (
	"errors"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/emptypb"
)

// The services of MCP: a sink connects to a ResourceSource, a source connects to a ResourceSink. Both have the same messages.
const (
	SourceService = "istio.mcp.v1alpha1.ResourceSource"
	SinkService   = "istio.mcp.v1alpha1.ResourceSink"
	Stream        = "EstablishResourceStream"
	SourceMethod  = "/" + SourceService + "/" + Stream
)

// Collection is how the protocol calls the objects of a kind: "istio/networking/v1alpha3/serviceentries". group is the kind's, as
// "networking.istio.io", and version the oldest of its API.
func Collection(group, version, kind string) string {
	short, _, _ := strings.Cut(group, ".")
	plural := strings.ToLower(kind)
	if base, y := strings.CutSuffix(plural, "y"); y && !strings.ContainsAny(base[len(base)-1:], "aeiou") {
		plural = base + "ie"
	}
	return "istio/" + short + "/" + version + "/" + plural + "s"
}

// Early reports whether a collection is one that all sources of Istio's know which spoke the protocol (1.1 to 1.4).
func Early(collection string) bool {
	switch collection {
	case SyntheticEntries, "istio/networking/v1alpha3/virtualservices", "istio/networking/v1alpha3/gateways",
		"istio/networking/v1alpha3/destinationrules", "istio/networking/v1alpha3/serviceentries", "istio/networking/v1alpha3/sidecars",
		"istio/networking/v1alpha3/envoyfilters":
		return true
	}
	return false
}

// SyntheticEntries is the collection of generated ServiceEntries, for the services that a platform knows.
const SyntheticEntries = "istio/networking/v1alpha3/synthetic/serviceentries"

// MeshCollection is the one of the mesh configuration.
const MeshCollection = "istio/mesh/v1alpha1/MeshConfig"

// Message is the type that gRPC sends and receives: the fields of one of the messages below.
type Message = emptypb.Empty

// Request is a RequestResources.
type Request struct {
	Sink        string // SinkNode.id
	Collection  string
	Initial     [][]byte // entries of initial_resource_versions, as they are on the wire: field 1 the name, field 2 the version
	Nonce       string
	Error       []byte // google.rpc.Status; nil: there is none
	Incremental bool
}

// Resources is a Resources.
type Resources struct {
	Version     string
	Collection  string
	Resources   [][]byte // each a Resource
	Removed     []string
	Nonce       string
	Incremental bool
}

var errMalformed = errors.New("the message is malformed")

// Fields calls fn with each field of a message that is of bytes, and with each that is a number.
func Fields(b []byte, fn func(field protowire.Number, value []byte, number uint64)) error {
	for len(b) > 0 {
		field, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return errMalformed
		}
		b = b[n:]
		switch kind {
		case protowire.BytesType:
			value, n := protowire.ConsumeBytes(b)
			if n < 0 {
				return errMalformed
			}
			fn(field, value, 0)
			b = b[n:]
		case protowire.VarintType:
			number, n := protowire.ConsumeVarint(b)
			if n < 0 {
				return errMalformed
			}
			fn(field, nil, number)
			b = b[n:]
		default:
			if n = protowire.ConsumeFieldValue(field, kind, b); n < 0 {
				return errMalformed
			}
			b = b[n:]
		}
	}
	return nil
}

// Bytes appends a field of bytes, unless it is empty.
func Bytes[T ~[]byte | ~string](to []byte, field protowire.Number, value T) []byte {
	if len(value) == 0 {
		return to
	}
	return Append(to, field, value)
}

// Append appends a field of bytes.
func Append[T ~[]byte | ~string](to []byte, field protowire.Number, value T) []byte {
	return append(protowire.AppendVarint(protowire.AppendTag(to, field, protowire.BytesType), uint64(len(value))), value...)
}

func flag(to []byte, field protowire.Number, on bool) []byte {
	if !on {
		return to
	}
	return protowire.AppendVarint(protowire.AppendTag(to, field, protowire.VarintType), 1)
}

// fill makes a message of fields.
func fill(fields []byte) *Message {
	m := &Message{}
	m.ProtoReflect().SetUnknown(fields)
	return m
}

// Message is the request as gRPC sends it.
func (r *Request) Message() *Message {
	var b []byte
	if r.Sink != "" {
		b = Append(b, 1, Append(nil, 1, r.Sink))
	}
	b = Bytes(b, 2, r.Collection)
	for _, entry := range r.Initial {
		b = Append(b, 3, entry)
	}
	b = Bytes(b, 4, r.Nonce)
	if r.Error != nil {
		b = Append(b, 5, r.Error)
	}
	return fill(flag(b, 6, r.Incremental))
}

// ParseRequest reads a request. The result refers to parts of the message.
func ParseRequest(m *Message) (*Request, error) {
	r := &Request{}
	var inner error
	err := Fields(m.ProtoReflect().GetUnknown(), func(field protowire.Number, value []byte, number uint64) {
		switch field {
		case 1:
			inner = errors.Join(inner, Fields(value, func(field protowire.Number, value []byte, _ uint64) {
				if field == 1 {
					r.Sink = string(value)
				}
			}))
		case 2:
			r.Collection = string(value)
		case 3:
			r.Initial = append(r.Initial, value)
		case 4:
			r.Nonce = string(value)
		case 5:
			r.Error = append([]byte{}, value...)
		case 6:
			r.Incremental = number != 0
		}
	})
	return r, errors.Join(err, inner)
}

// Message is the answer as gRPC sends it.
func (r *Resources) Message() *Message {
	size := 256
	for _, one := range r.Resources {
		size += len(one) + 6
	}
	b := Bytes(make([]byte, 0, size), 1, r.Version)
	b = Bytes(b, 2, r.Collection)
	for _, one := range r.Resources {
		b = Append(b, 3, one)
	}
	for _, name := range r.Removed {
		b = Append(b, 4, name)
	}
	return fill(flag(Bytes(b, 5, r.Nonce), 6, r.Incremental))
}

// ParseResources reads an answer. The result refers to parts of the message.
func ParseResources(m *Message) (*Resources, error) {
	r := &Resources{}
	err := Fields(m.ProtoReflect().GetUnknown(), func(field protowire.Number, value []byte, number uint64) {
		switch field {
		case 1:
			r.Version = string(value)
		case 2:
			r.Collection = string(value)
		case 3:
			r.Resources = append(r.Resources, value)
		case 4:
			r.Removed = append(r.Removed, string(value))
		case 5:
			r.Nonce = string(value)
		case 6:
			r.Incremental = number != 0
		}
	})
	return r, err
}
