package xds

import (
	"errors"
	"fmt"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// request is what a stream reads: a DiscoveryRequest or a DeltaDiscoveryRequest. All of its strings are parts of one
// copy of the message, so whoever keeps one must clone it.
type request struct {
	delta       bool // which of the two to decode
	node        *corev3.Node
	typ         string
	subscribe   []string // all names, in the state-of-the-world protocol
	unsubscribe []string
	initial     []known
	nonce       string
	failed      bool   // error_detail is there
	detail      string // its message
}

// known is a resource that a reconnecting client says it holds.
type known struct{ name, version string }

// errMalformed is what a message that is not of the expected type decodes to.
var errMalformed = errors.New("malformed discovery request")

// decode reads a message from its buffers. It does by hand what the generated code does, because the requests of a
// reconnecting fleet name everything that it holds: one allocation for all names, not two for each.
func (r *request) decode(data mem.BufferSlice) error {
	var b strings.Builder
	b.Grow(data.Len())
	for _, part := range data {
		b.Write(part.ReadOnlyData())
	}
	return r.parse(b.String())
}

func (r *request) parse(s string) error {
	r.initial = nil
	size := len(s)
	for len(s) > 0 {
		num, value, rest, err := nextField(s)
		if err != nil {
			return err
		}
		s = rest
		if r.delta {
			err = r.deltaField(num, value, size)
		} else {
			err = r.stateField(num, value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *request) deltaField(num protowire.Number, value string, size int) error {
	switch num {
	case 1:
		return r.setNode(value)
	case 2:
		r.typ = value
	case 3:
		r.subscribe = append(r.subscribe, value)
	case 4:
		r.unsubscribe = append(r.unsubscribe, value)
	case 5:
		k, err := parseKnown(value)
		if r.initial == nil {
			r.initial = make([]known, 0, size/(len(value)+2)+1)
		}
		r.initial = append(r.initial, k)
		return err
	case 6:
		r.nonce = value
	case 7:
		return r.setDetail(value)
	}
	return nil
}

func (r *request) stateField(num protowire.Number, value string) error {
	switch num {
	case 2:
		return r.setNode(value)
	case 3:
		r.subscribe = append(r.subscribe, value)
	case 4:
		r.typ = value
	case 5:
		r.nonce = value
	case 6:
		return r.setDetail(value)
	}
	return nil
}

// parseKnown reads an entry of initial_resource_versions.
func parseKnown(s string) (k known, err error) {
	for len(s) > 0 {
		num, value, rest, err := nextField(s)
		if err != nil {
			return k, err
		}
		switch num {
		case 1:
			k.name = value
		case 2:
			k.version = value
		}
		s = rest
	}
	return k, nil
}

func (r *request) setNode(value string) error {
	r.node = &corev3.Node{}
	if err := proto.Unmarshal([]byte(value), r.node); err != nil {
		return fmt.Errorf("decode node: %w", err)
	}
	return nil
}

// setDetail reads the message of a google.rpc.Status.
func (r *request) setDetail(s string) error {
	r.failed = true
	for len(s) > 0 {
		num, value, rest, err := nextField(s)
		if err != nil {
			return err
		}
		if num == 2 {
			r.detail = value
		}
		s = rest
	}
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
