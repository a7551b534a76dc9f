package wire

import "google.golang.org/protobuf/encoding/protowire"

// Field numbers of envoy.service.discovery.v3.DeltaDiscoveryRequest, and of an entry of initial_resource_versions.
const (
	requestNode        protowire.Number = 1
	requestType        protowire.Number = 2
	requestSubscribe   protowire.Number = 3
	requestUnsubscribe protowire.Number = 4
	requestInitial     protowire.Number = 5
	requestNonce       protowire.Number = 6
	requestError       protowire.Number = 7

	entryKey   protowire.Number = 1
	entryValue protowire.Number = 2
)

// Request holds the fields of a DeltaDiscoveryRequest.
type Request struct {
	Node        []byte
	Type        string
	Subscribe   []string
	Unsubscribe []string
	Initial     []Versioned
	Nonce       string
	Failure     []byte // google.rpc.Status
	Failed      bool   // Failure is set, even if it is empty
}

// DecodeRequest parses an encoded DeltaDiscoveryRequest. Unknown fields are skipped; Node and Failure share the memory of raw.
func DecodeRequest(raw []byte) (r Request, err error) {
	err = fields(raw, func(num protowire.Number, _ int, value []byte) error {
		switch num {
		case requestNode:
			r.Node = value
		case requestType:
			r.Type = string(value)
		case requestSubscribe:
			r.Subscribe = append(r.Subscribe, string(value))
		case requestUnsubscribe:
			r.Unsubscribe = append(r.Unsubscribe, string(value))
		case requestInitial:
			v, err := decodeVersioned(value, entryKey, entryValue)
			r.Initial = append(r.Initial, v)
			return err
		case requestNonce:
			r.Nonce = string(value)
		case requestError:
			r.Failure, r.Failed = value, true
		}
		return nil
	})
	return r, err
}

// Encode returns the encoded DeltaDiscoveryRequest.
func (r Request) Encode() Message {
	var out []byte
	if r.Node != nil {
		out = appendField(out, requestNode, r.Node)
	}
	out = appendField(out, requestType, r.Type)
	for _, name := range r.Subscribe {
		out = appendField(out, requestSubscribe, name)
	}
	for _, name := range r.Unsubscribe {
		out = appendField(out, requestUnsubscribe, name)
	}
	var entry []byte
	for _, v := range r.Initial {
		entry = appendField(entry[:0], entryKey, v.Name)
		entry = appendField(entry, entryValue, v.Version)
		out = appendField(out, requestInitial, entry)
	}
	if r.Nonce != "" {
		out = appendField(out, requestNonce, r.Nonce)
	}
	if r.Failed {
		out = appendField(out, requestError, r.Failure)
	}
	return Message{out}
}
