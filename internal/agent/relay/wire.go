package relay

import (
	"errors"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// message is one encoded protobuf message: the concatenation of its parts.
type message [][]byte

// codec passes messages as they are.
type codec struct{}

var _ encoding.CodecV2 = codec{}

// errCodec is a mistake within this package: only messages travel here.
var errCodec = errors.New("relay: not a message")

// Marshal implements encoding.CodecV2.
func (codec) Marshal(v any) (mem.BufferSlice, error) {
	m, ok := v.(*message)
	if !ok {
		return nil, errCodec
	}
	out := make(mem.BufferSlice, len(*m))
	for i, part := range *m {
		out[i] = mem.SliceBuffer(part)
	}
	return out, nil
}

// Unmarshal implements encoding.CodecV2.
func (codec) Unmarshal(data mem.BufferSlice, v any) error {
	m, ok := v.(*message)
	if !ok {
		return errCodec
	}
	*m = message{data.Materialize()}
	return nil
}

// Name implements encoding.CodecV2: on the wire it is protobuf.
func (codec) Name() string { return proto.Name }

// Field numbers of envoy.service.discovery.v3: of DeltaDiscoveryRequest,
const (
	requestNode        protowire.Number = 1
	requestType        protowire.Number = 2
	requestSubscribe   protowire.Number = 3
	requestUnsubscribe protowire.Number = 4
	requestInitial     protowire.Number = 5
	requestNonce       protowire.Number = 6
	requestError       protowire.Number = 7
)

// of DeltaDiscoveryResponse,
const (
	responseResource protowire.Number = 2
	responseType     protowire.Number = 4
	responseNonce    protowire.Number = 5
	responseRemoved  protowire.Number = 6
)

// of Resource, and of an entry of initial_resource_versions.
const (
	resourceVersion protowire.Number = 1
	resourceName    protowire.Number = 3
	entryKey        protowire.Number = 1
	entryValue      protowire.Number = 2
)

// request is a DeltaDiscoveryRequest.
type request struct {
	node        []byte
	typ         string
	subscribe   []string
	unsubscribe []string
	initial     []versioned
	nonce       string
	failure     []byte // google.rpc.Status
	failed      bool   // failure is there, even if empty
}

type versioned struct{ name, version string }

// item is a resource within a response: the position of its Resource message.
type item struct {
	versioned
	at, size int
}

// response holds the fields of a DeltaDiscoveryResponse that the relay reads.
type response struct {
	typ, nonce string
	items      []item
	removed    []string
}

// fields calls do for each length-delimited field, with where its value begins; others are passed over.
func fields(raw []byte, do func(num protowire.Number, at int, value []byte) error) error {
	for at := 0; at < len(raw); {
		num, typ, n := protowire.ConsumeTag(raw[at:])
		if n < 0 {
			return protowire.ParseError(n)
		}
		at += n
		if typ != protowire.BytesType {
			if n = protowire.ConsumeFieldValue(num, typ, raw[at:]); n < 0 {
				return protowire.ParseError(n)
			}
			at += n
			continue
		}
		value, n := protowire.ConsumeBytes(raw[at:])
		if n < 0 {
			return protowire.ParseError(n)
		}
		at += n
		if err := do(num, at-len(value), value); err != nil {
			return err
		}
	}
	return nil
}

func decodeRequest(raw []byte) (r request, err error) {
	err = fields(raw, func(num protowire.Number, _ int, value []byte) error {
		switch num {
		case requestNode:
			r.node = value
		case requestType:
			r.typ = string(value)
		case requestSubscribe:
			r.subscribe = append(r.subscribe, string(value))
		case requestUnsubscribe:
			r.unsubscribe = append(r.unsubscribe, string(value))
		case requestInitial:
			v, err := decodeVersioned(value, entryKey, entryValue)
			r.initial = append(r.initial, v)
			return err
		case requestNonce:
			r.nonce = string(value)
		case requestError:
			r.failure, r.failed = value, true
		}
		return nil
	})
	return r, err
}

func decodeVersioned(raw []byte, name, version protowire.Number) (v versioned, err error) {
	err = fields(raw, func(num protowire.Number, _ int, value []byte) error {
		switch num {
		case name:
			v.name = string(value)
		case version:
			v.version = string(value)
		}
		return nil
	})
	return v, err
}

func decodeResponse(raw []byte) (r response, err error) {
	err = fields(raw, func(num protowire.Number, at int, value []byte) error {
		switch num {
		case responseType:
			r.typ = string(value)
		case responseNonce:
			r.nonce = string(value)
		case responseRemoved:
			r.removed = append(r.removed, string(value))
		case responseResource:
			v, err := decodeVersioned(value, resourceName, resourceVersion)
			r.items = append(r.items, item{v, at, len(value)})
			return err
		}
		return nil
	})
	return r, err
}

func (r request) encode() message {
	var out []byte
	if r.node != nil {
		out = appendField(out, requestNode, r.node)
	}
	out = appendField(out, requestType, r.typ)
	for _, name := range r.subscribe {
		out = appendField(out, requestSubscribe, name)
	}
	for _, name := range r.unsubscribe {
		out = appendField(out, requestUnsubscribe, name)
	}
	var entry []byte
	for _, v := range r.initial {
		entry = appendField(entry[:0], entryKey, v.name)
		entry = appendField(entry, entryValue, v.version)
		out = appendField(out, requestInitial, entry)
	}
	if r.nonce != "" {
		out = appendField(out, requestNonce, r.nonce)
	}
	if r.failed {
		out = appendField(out, requestError, r.failure)
	}
	return message{out}
}

func appendField[T string | []byte](to []byte, num protowire.Number, value T) []byte {
	to = protowire.AppendTag(to, num, protowire.BytesType)
	to = protowire.AppendVarint(to, uint64(len(value)))
	return append(to, value...)
}

// withNonce gives a response another nonce without touching it: of a field that comes twice the last one counts
// (protobuf, "Last One Wins").
func withNonce(m message, nonce string) message {
	return append(m[:len(m):len(m)], appendField(nil, responseNonce, nonce))
}
