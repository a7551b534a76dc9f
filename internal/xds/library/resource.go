package library

import (
	"cmp"
	"hash/fnv"
	"strings"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"

	"fairway/internal/xdstype"
)

// Resource is one immutable encoded resource, shared by every proxy that sees it. It is built by [NewResource]. It may be published many
// times, but only in one [Library] at a time, because it holds entries of that library's catalog.
type Resource struct {
	// Name is the resource's name, unique within its type and stack.
	Name string

	typ     string
	version uint64
	sum     uint64 // name and version mixed, so that the sums of a set combine by xor
	opts    ResourceOptions
	links   links
	rows    int             // of shelves that have it; guarded by the library's lock
	delta   mem.SliceBuffer // the bytes before body in the field DeltaDiscoveryResponse.resources
	state   mem.SliceBuffer // its tail: the bytes before body in the field DiscoveryResponse.resources
	body    mem.SliceBuffer // the message
}

// links is a resource's names in the library that it was published in last; it is guarded by that library's lock.
type links struct {
	names       *catalog
	name        *Entry
	needs       []*Entry
	load        *Entry // nil if there is none
	memberOwner *Entry // the owner of the members; nil if there is none
}

// link sets the resource's entries in a library's catalog. A resource is published in one library at a time.
func (r *Resource) link(name *Entry, names *catalog) {
	if r.links.names == names {
		return
	}
	k := links{names: names, name: name}
	for _, need := range r.opts.Needs {
		k.needs = append(k.needs, names.publish(need))
	}
	if r.opts.Load != "" {
		k.load = names.publish(r.opts.Load)
	}
	if r.opts.StateForm != nil {
		k.memberOwner = names.publish(strings.TrimSuffix(r.opts.StateForm.MemberPrefix, "/"))
	}
	r.links, r.rows = k, 0
}

// ResourceOptions says how a resource depends on others. The zero value is a resource that depends on none.
type ResourceOptions struct {
	// Needs names the clusters that this listener, route configuration or virtual host refers to. It is held back
	// from a proxy until the proxy has ACKed those of them that it is about to receive.
	Needs []string
	// Load is, for a cluster that takes its endpoints from EDS, the name of its load assignment: it is sent, unasked
	// and even if unchanged, right behind the cluster whenever the cluster is sent to a client that subscribes to it.
	Load string
	// StateForm is, for a route configuration with vhds, its form for a client of the state-of-the-world protocol.
	StateForm *Part
	// Message is the type URL of the message, if it differs from the type that clients ask for.
	Message string
}

// Part is a message that is completed by members, which are resources of their own: its bytes are followed by each member's bytes as one
// more element of a repeated field. Nothing is encoded again.
type Part struct {
	// Body is the deterministic encoding of the message without its members.
	Body []byte
	// MemberType is the type URL of the members, and MemberPrefix the name of this resource and a slash, like "80/": the beginning of the
	// members' names up to their last slash.
	MemberType   string
	MemberPrefix string
	// Field is the number of the repeated field that takes the members.
	Field protowire.Number
}

// Field numbers of the messages that are encoded by hand; see envoy/service/discovery/v3/discovery.proto.
const (
	anyTypeURL = 1
	anyValue   = 2

	resourceVersion = 1
	resourceAny     = 2
	resourceName    = 3

	// responseResources is the number of `resources` in both responses. It equals resourceAny, and so does the wire
	// type: that is why the tail of a delta frame is a state-of-the-world frame.
	responseResources = 2
)

// NewResource encodes one resource. The version is a hash of its content: equal versions mean equal resources. The body is the
// deterministic encoding of the message; it is shared with the caller and must not be modified.
func NewResource(typeURL, name string, version uint64, body []byte, opts ResourceOptions) *Resource {
	message := cmp.Or(opts.Message, typeURL)
	anyLen := sizeBytes(anyTypeURL, len(message)) + sizeBytes(anyValue, len(body))
	inner := sizeBytes(resourceName, len(name)) + sizeBytes(resourceVersion, versionLen) + sizeBytes(resourceAny, anyLen)
	b := make([]byte, 0, sizeBytes(responseResources, inner)-len(body))
	b = protowire.AppendTag(b, responseResources, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(inner))
	b = appendString(b, resourceName, name)
	b = appendString(b, resourceVersion, FormatVersion(version))
	tail := len(b)
	b = protowire.AppendTag(b, resourceAny, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(anyLen))
	b = appendString(b, anyTypeURL, message)
	b = protowire.AppendTag(b, anyValue, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(len(body)))
	return &Resource{
		Name: name, typ: typeURL, version: version, sum: mixVersion(name, version), opts: opts,
		delta: b, state: b[tail:], body: body,
	}
}

// NoEndpoints returns the load assignment of a cluster that has none: see envoy/config/endpoint/v3/endpoint.proto.
func NoEndpoints(cluster string) *Resource {
	return NewResource(xdstype.EndpointURL, cluster, 0, appendString(nil, 1, cluster), ResourceOptions{})
}

// Type returns the type URL.
func (r *Resource) Type() string { return r.typ }

// Version returns the content version.
func (r *Resource) Version() uint64 { return r.version }

// Body returns the encoded message; the caller must not modify it.
func (r *Resource) Body() []byte { return r.body }

// Options returns what the resource was built with; the caller must not modify it.
func (r *Resource) Options() ResourceOptions { return r.opts }

// Sum returns a number that depends on name and version. The sums of a set of resources combine by xor.
func (r *Resource) Sum() uint64 { return r.sum }

// StateForm returns the form of the resource for a client of the state-of-the-world protocol, if it is completed by members; else nil.
func (r *Resource) StateForm() *Part { return r.opts.StateForm }

// Entry returns the entry of the resource's name, in the library that it was published in last.
func (r *Resource) Entry() *Entry { return r.links.name }

// Needs returns the entries of the clusters that the resource needs.
func (r *Resource) Needs() []*Entry { return r.links.needs }

// Load returns the entry of the load assignment of a cluster, or nil.
func (r *Resource) Load() *Entry { return r.links.load }

// MembersOwner returns the entry that owns the members that complete the resource, or nil.
func (r *Resource) MembersOwner() *Entry { return r.links.memberOwner }

// AppendDelta appends the resource as one element of DeltaDiscoveryResponse.resources. The bytes are shared and must not be modified.
func (r *Resource) AppendDelta(to mem.BufferSlice) mem.BufferSlice {
	return append(to, &r.delta, &r.body)
}

// AppendState appends the resource as one element of DiscoveryResponse.resources. The bytes are shared and must not be modified.
func (r *Resource) AppendState(to mem.BufferSlice) mem.BufferSlice {
	return append(to, &r.state, &r.body)
}

// Size returns the bytes that the resource takes in an incremental response, framing included.
func (r *Resource) Size() int { return len(r.delta) + len(r.body) }

const versionLen = 16

// FormatVersion returns a version in the form of the protocol: sixteen hexadecimal digits.
func FormatVersion(v uint64) string {
	const digits = "0123456789abcdef"
	var b [versionLen]byte
	for i := versionLen - 1; i >= 0; i-- {
		b[i] = digits[v&15]
		v >>= 4
	}
	return string(b[:])
}

// ParseVersion reads back what FormatVersion wrote. Versions of another server do not parse, and equal none of ours.
func ParseVersion(s string) (uint64, bool) {
	if len(s) != versionLen {
		return 0, false
	}
	var v uint64
	for i := range versionLen {
		switch c := s[i]; {
		case '0' <= c && c <= '9':
			v = v<<4 | uint64(c-'0')
		case 'a' <= c && c <= 'f':
			v = v<<4 | uint64(c-'a'+10)
		default:
			return 0, false
		}
	}
	return v, true
}

// mixVersion hashes a name and its version to one number.
func mixVersion(name string, version uint64) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name))
	return Mix(h.Sum64() ^ Mix(version))
}

// Mix is the finalizer of SplitMix64: each bit of the result depends on each bit of the argument.
func Mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Same reports whether two resources of one name have the same content; nil has the same as nil.
func (r *Resource) Same(other *Resource) bool {
	return r == other || r != nil && other != nil && r.version == other.version
}

func sizeBytes(field protowire.Number, n int) int {
	return protowire.SizeTag(field) + protowire.SizeBytes(n)
}

func appendString(b []byte, field protowire.Number, s string) []byte {
	b = protowire.AppendTag(b, field, protowire.BytesType)
	return protowire.AppendString(b, s)
}
