package wire

import "google.golang.org/protobuf/encoding/protowire"

// Field numbers of envoy.service.discovery.v3.DeltaDiscoveryResponse.
const (
	responseResource protowire.Number = 2
	responseType     protowire.Number = 4
	responseNonce    protowire.Number = 5
	responseRemoved  protowire.Number = 6
)

// Field numbers of envoy.service.discovery.v3.Resource, and of the google.protobuf.Any in it.
const (
	resourceBody    protowire.Number = 2
	resourceVersion protowire.Number = 1
	resourceName    protowire.Number = 3
	anyType         protowire.Number = 1
	anyValue        protowire.Number = 2
)

// Item is a resource within a response: At and Size are the position of its Resource message in the encoded response.
type Item struct {
	Versioned
	At, Size int
}

// Response holds the fields of a DeltaDiscoveryResponse that the relay reads.
type Response struct {
	Type, Nonce string
	Items       []Item
	Removed     []string
}

// DecodeResponse parses an encoded DeltaDiscoveryResponse. Unknown fields are skipped, and bodies of resources are not read.
func DecodeResponse(raw []byte) (r Response, err error) {
	err = fields(raw, func(num protowire.Number, at int, value []byte) error {
		switch num {
		case responseType:
			r.Type = string(value)
		case responseNonce:
			r.Nonce = string(value)
		case responseRemoved:
			r.Removed = append(r.Removed, string(value))
		case responseResource:
			v, err := decodeVersioned(value, resourceName, resourceVersion)
			r.Items = append(r.Items, Item{v, at, len(value)})
			return err
		}
		return nil
	})
	return r, err
}

// Encode returns an encoded response with the given Resource messages. The type and the removed names are those of r.
func (r Response) Encode(bodies [][]byte, nonce string) []byte {
	size := len(r.Type) + len(nonce) + 16
	for _, body := range bodies {
		size += len(body) + 6
	}
	out := appendField(make([]byte, 0, size), responseType, r.Type)
	if nonce != "" {
		out = appendField(out, responseNonce, nonce)
	}
	for _, body := range bodies {
		out = appendField(out, responseResource, body)
	}
	for _, name := range r.Removed {
		out = appendField(out, responseRemoved, name)
	}
	return out
}

// WithNonce gives a response another nonce without touching it: of a field that comes twice the last one counts
// (protobuf, "Last One Wins").
func WithNonce(m Message, nonce string) Message {
	return append(m[:len(m):len(m)], appendField(nil, responseNonce, nonce))
}

// Body returns the message within an encoded Resource, without a copy; nil if there is none.
func Body(raw []byte) (body []byte) {
	_ = fields(raw, func(num protowire.Number, _ int, value []byte) error { // it was read once already
		if num != resourceBody {
			return nil
		}
		return fields(value, func(num protowire.Number, _ int, value []byte) error {
			if num == anyValue {
				body = value
			}
			return nil
		})
	})
	return body
}

// EncodeResource returns the Resource message of an encoded message of a type. v's version may be empty.
func EncodeResource(typ string, v Versioned, body []byte) []byte {
	packed := appendField(appendField(nil, anyType, typ), anyValue, body)
	out := appendField(nil, resourceBody, packed)
	if v.Version != "" {
		out = appendField(out, resourceVersion, v.Version)
	}
	return appendField(out, resourceName, v.Name)
}

// ReplaceResources returns an encoded response with other Resource messages. The keys of others are the positions (Item.At) of the
// messages that they replace. raw must be a response that DecodeResponse has accepted.
func ReplaceResources(raw []byte, others map[int][]byte) ([]byte, Response) {
	var out []byte
	_ = fields(raw, func(num protowire.Number, at int, value []byte) error { // it was read once already
		if other, is := others[at]; is {
			value = other
		}
		out = appendField(out, num, value)
		return nil
	})
	r, _ := DecodeResponse(out)
	return out, r
}
