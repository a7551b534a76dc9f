package wire

import (
	"errors"
	"fmt"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"fairway/internal/printable"
)

// Request is what a stream reads: a DiscoveryRequest or a DeltaDiscoveryRequest. All of its strings but the detail are parts of one
// copy of the message, so code that keeps one must clone it.
type Request struct {
	Delta       bool // which of the two to decode
	SkipNode    bool // the node is known from an earlier request: it is not decoded
	MaxNames    int  // names in one list that are decoded, apart from Initial: more than any stream may subscribe to; 0 is unlimited
	Node        *corev3.Node
	Type        string
	Subscribe   []string // all names, in the state-of-the-world protocol
	Unsubscribe []string
	Initial     []Reported
	Nonce       string
	Failed      bool   // error_detail is there
	Detail      string // its message, fit to be shown and kept
	plain       bool   // the rest of the message, from the first of initial on, is ASCII
	Err         error  // why it is not to be answered: the stream's status
}

// Reported is a resource that a reconnecting client says it holds.
type Reported struct{ Name, Version string }

// errMalformed is the error for a message that is not of the expected type.
var errMalformed = errors.New("it is malformed")

// decode reads a message from its buffers. It does by hand what the generated code does, because the requests of a reconnecting
// fleet name all of its resources: one allocation for all names, not two for each.
func (r *Request) decode(data mem.BufferSlice) error {
	var b strings.Builder
	b.Grow(data.Len())
	for _, part := range data {
		b.Write(part.ReadOnlyData())
	}
	return r.parse(b.String())
}

func (r *Request) parse(s string) error {
	r.Initial = nil
	for len(s) > 0 {
		num, value, rest, err := nextField(s)
		if err != nil {
			return err
		}
		if r.Delta {
			err = r.deltaField(num, value, s)
		} else {
			err = r.stateField(num, value)
		}
		if err != nil {
			return err
		}
		s = rest
	}
	return nil
}

// deltaField reads one field; left is the rest of the message from there on.
func (r *Request) deltaField(num protowire.Number, value, left string) error {
	switch num {
	case 1:
		return r.setNode(value)
	case 2:
		r.Type = value
		return checkString("type_url", value, maxTypeBytes)
	case 3:
		return r.add(&r.Subscribe, "resource_names_subscribe", value)
	case 4:
		return r.add(&r.Unsubscribe, "resource_names_unsubscribe", value)
	case 5:
		return r.addKnown(value, left)
	case 6:
		r.Nonce = value
		return checkString("response_nonce", value, maxNonceBytes)
	case 7:
		return r.setDetail(value)
	}
	return nil
}

func (r *Request) stateField(num protowire.Number, value string) error {
	switch num {
	case 1:
		return checkString("version_info", value, maxVersionBytes)
	case 2:
		return r.setNode(value)
	case 3:
		return r.add(&r.Subscribe, "resource_names", value)
	case 4:
		r.Type = value
		return checkString("type_url", value, maxTypeBytes)
	case 5:
		r.Nonce = value
		return checkString("response_nonce", value, maxNonceBytes)
	case 6:
		return r.setDetail(value)
	}
	return nil
}

// add takes a name into a list.
func (r *Request) add(to *[]string, field, name string) error {
	if r.MaxNames > 0 && len(*to) >= r.MaxNames {
		return errTooLong(field, r.MaxNames)
	}
	*to = append(*to, name)
	return checkName(field, name)
}

// addKnown adds an entry of initial_resource_versions. It allocates for as many entries as the message has if the rest of it are
// entries like this one, but never for more than a few times the present ones: the first may be short and the others long.
func (r *Request) addKnown(value, left string) error {
	const field = "initial_resource_versions"
	k, err := parseKnown(value)
	if err != nil {
		return err
	}
	if n := len(r.Initial); n == cap(r.Initial) {
		if n >= maxReported {
			return errTooLong(field, maxReported)
		}
		room := min(len(left)/(len(value)+2)+1, max(1<<14, 4*n), maxReported-n)
		r.Initial = append(make([]Reported, 0, n+room), r.Initial...)
		r.plain = n > 0 && r.plain || ascii(left)
	}
	r.Initial = append(r.Initial, k)
	if r.plain && k.Name != "" && len(value) <= maxVersionBytes {
		return nil // as nearly all are
	}
	if err := checkName(field, k.Name); err != nil {
		return err
	}
	return checkString(field, k.Version, maxVersionBytes)
}

// ascii reports whether all of a text is: then so is each part of it.
func ascii(s string) bool {
	for len(s) >= 8 {
		if (s[0]|s[1]|s[2]|s[3]|s[4]|s[5]|s[6]|s[7])&0x80 != 0 {
			return false
		}
		s = s[8:]
	}
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

// parseKnown reads an entry of initial_resource_versions.
func parseKnown(s string) (k Reported, err error) {
	const name, version = 1<<3 | byte(protowire.BytesType), 2<<3 | byte(protowire.BytesType)
	if len(s) > 4 && s[0] == name && s[1] < 0x80 && int(s[1])+4 <= len(s) { // as nearly all are written
		if at := 2 + int(s[1]); s[at] == version && s[at+1] < 0x80 && at+2+int(s[at+1]) == len(s) {
			return Reported{s[2:at], s[at+2:]}, nil
		}
	}
	for len(s) > 0 {
		num, value, rest, err := nextField(s)
		if err != nil {
			return k, err
		}
		switch num {
		case 1:
			k.Name = value
		case 2:
			k.Version = value
		}
		s = rest
	}
	return k, nil
}

// setNode decodes the node, without the list of extensions that the client's binary has: the list is nine tenths of what Envoy
// sends, and is not used. A node that comes in parts is merged, as the generated code does.
func (r *Request) setNode(value string) error {
	if r.SkipNode {
		return nil
	}
	if len(value) > maxNodeWire {
		return &wrongString{"node", len(value), maxNodeWire}
	}
	text, err := withoutExtensions(value)
	if err != nil {
		return err
	}
	if len(text) > maxNodeBytes {
		return &wrongString{"node without its extensions", len(text), maxNodeBytes}
	}
	if r.Node == nil {
		r.Node = &corev3.Node{}
	}
	if err := (proto.UnmarshalOptions{Merge: true, DiscardUnknown: true, RecursionLimit: maxNodeDepth}).Unmarshal(text,
		r.Node); err != nil {
		return fmt.Errorf("node: %w", err)
	}
	return nil
}

// withoutExtensions copies the encoding of a node without its extensions.
func withoutExtensions(node string) ([]byte, error) {
	var out []byte
	for len(node) > 0 {
		num, _, rest, err := nextField(node)
		if err != nil {
			return nil, err
		}
		if num != nodeExtensions {
			out = append(out, node[:len(node)-len(rest)]...)
		}
		node = rest
	}
	return out, nil
}

// setDetail reads the message of a google.rpc.Status. It keeps a short, printable copy, which does not keep the request in memory.
func (r *Request) setDetail(s string) error {
	r.Failed = true
	for len(s) > 0 {
		num, value, rest, err := nextField(s)
		if err != nil {
			return err
		}
		if num == 2 {
			r.Detail = value
		}
		s = rest
	}
	r.Detail = strings.Clone(printable.Lines(r.Detail, printable.Long))
	return nil
}

// nextField takes the first field off a message. A field that is not length-delimited comes with its number negated,
// and no value: none of those matters here.
func nextField(s string) (num protowire.Number, value, rest string, err error) {
	tag, n := uvarint(s)
	if n <= 0 || tag>>3 == 0 || tag>>3 > uint64(protowire.MaxValidNumber) {
		return 0, "", "", errMalformed
	}
	num, s = protowire.Number(tag>>3), s[n:]
	if protowire.Type(tag&7) != protowire.BytesType {
		n := scalarLen(s, protowire.Type(tag&7))
		if n <= 0 || n > len(s) {
			return 0, "", "", errMalformed
		}
		return -num, "", s[n:], nil
	}
	size, n := uvarint(s)
	if n <= 0 || size > uint64(len(s)-n) {
		return 0, "", "", errMalformed
	}
	end := n + int(size)
	return num, s[n:end], s[end:], nil
}

// scalarLen returns the length of a field's value that is not length-delimited, or 0. Groups do not occur in these
// messages.
func scalarLen(s string, typ protowire.Type) int {
	switch typ {
	case protowire.VarintType:
		_, n := uvarint(s)
		return n
	case protowire.Fixed32Type:
		return 4
	case protowire.Fixed64Type:
		return 8
	}
	return 0
}

// uvarint reads a base-128 number from the start of a string, and returns it with its length, or 0.
func uvarint(s string) (v uint64, n int) {
	for i := 0; i < len(s) && i < 10; i++ {
		v |= uint64(s[i]&0x7f) << (7 * i)
		if s[i] < 0x80 {
			return v, i + 1
		}
	}
	return 0, 0
}
