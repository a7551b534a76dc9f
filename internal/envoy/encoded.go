package envoy

import (
	"fmt"
	"slices"
	"unique"
	"unsafe"

	"github.com/cespare/xxhash/v2"
	"google.golang.org/protobuf/proto"
)

// Encoded is one message, marshalled once for every proxy that gets it. It is immutable.
type Encoded struct {
	Version     uint64       // the hash of Body
	Body        []byte       // deterministic bytes of the message; equal bytes are held once, for all their messages
	Needs       []string     // sorted names of the clusters that a route or listener refers to
	Secrets     []string     // sorted names of the secrets that a listener or cluster takes from the stream that it comes by
	Load        string       // of an EDS cluster: the load assignment it waits for
	Amended     []string     // the patches that matched it, in order
	Wants       Wants        // of a virtual host: what its routes need of the listeners that use it
	WithoutVHDS *WithoutVHDS // of a route configuration with vhds: how a client without VHDS gets it
	// Err is why the message may not be sent: its own validation refuses it. Proxies keep what they had before, unless Hides is set.
	Err error
	// Hides is set beside Err if proxies must not keep what they had, nor see the resource of a lower layer: they get nothing under the
	// name.
	Hides bool

	one unique.Handle[string] // of Body
}

// Wants is a set of what routes need of the listeners that use them.
type Wants uint8

const (
	// WantsNames is in the set if some route leads to a cluster that connects to the name which a request is for.
	WantsNames Wants = 1 << iota
	// WantsFilters is in the set if some route has filters of its own.
	WantsFilters
	// WantsPicker is in the set if some route has its endpoints chosen by a picker.
	WantsPicker
)

// String identifies the bytes without their content, which may be a secret's key.
func (e *Encoded) String() string {
	if e.Hides {
		return "withheld: " + e.Err.Error()
	}
	if e.Err != nil {
		return "refused: " + e.Err.Error()
	}
	return fmt.Sprintf("%016x, %d bytes", e.Version, len(e.Body))
}

// WithoutVHDS is a route configuration without vhds; the virtual hosts named <Prefix>… belong into its field virtual_hosts.
type WithoutVHDS struct {
	Body   []byte
	Prefix string
}

// As returns b with m encoded as its content; nil: m's own validation refuses it.
func (b *WithoutVHDS) As(m Message) *WithoutVHDS {
	e := Encode(m)
	if e.Err != nil {
		return nil
	}
	return &WithoutVHDS{Body: e.Body, Prefix: b.Prefix}
}

// Message is a generated Envoy message, which can validate itself.
type Message interface {
	proto.Message
	ValidateAll() error
}

// Encode marshals and validates m, and all that Any packed into it. If the message's own validation refuses it, the result has Err set and
// no body.
func Encode(m Message) *Encoded {
	return Sealed(Marshal(m))
}

// As returns m encoded, with all other fields of e.
func (e *Encoded) As(m Message) *Encoded {
	out := Encode(m)
	if out.Err == nil {
		out.Needs, out.Secrets, out.Load, out.Amended = e.Needs, e.Secrets, e.Load, e.Amended
		out.Wants, out.WithoutVHDS = e.Wants, e.WithoutVHDS
	}
	return out
}

// Sealed wraps a message that is already marshalled, or the error of marshalling it. It does not validate the bytes. It copies them, unless
// equal ones are held somewhere already: layers, and proxies of one layer, mostly have the same clusters and routes.
func Sealed(body []byte, err error) *Encoded {
	if err != nil {
		return &Encoded{Err: err}
	}
	e := &Encoded{Version: xxhash.Sum64(body)}
	if len(body) > 0 {
		e.one = unique.Make(unsafe.String(&body[0], len(body)))
		e.Body = unsafe.Slice(unsafe.StringData(e.one.Value()), len(body))
	}
	return e
}

// Same reports whether two encoded messages are the same to every proxy.
func Same(a, b *Encoded) bool {
	if a == b || a == nil || b == nil {
		return a == b
	}
	return a.Version == b.Version && a.Load == b.Load && slices.Equal(a.Needs, b.Needs) && slices.Equal(a.Secrets, b.Secrets) &&
		slices.Equal(a.Amended, b.Amended) && a.Wants == b.Wants &&
		sameWithoutVHDS(a.WithoutVHDS, b.WithoutVHDS) &&
		sameErr(a.Err, b.Err) &&
		a.Hides == b.Hides
}

func sameWithoutVHDS(a, b *WithoutVHDS) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Prefix == b.Prefix && string(a.Body) == string(b.Body)
}

func sameErr(a, b error) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return a.Error() == b.Error()
}
