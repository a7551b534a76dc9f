package wire

import (
	"crypto/sha256"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

// Field numbers of envoy.config.core.v3.Node.
const (
	nodeID       protowire.Number = 1
	nodeCluster  protowire.Number = 2
	nodeMetadata protowire.Number = 3
	nodeLocality protowire.Number = 4
)

// HashNode returns a hash of the parts of an encoded Node message that configuration may depend on. The order of the metadata does not
// count, because Envoy writes it in another order each time.
func HashNode(node []byte) [sha256.Size]byte {
	var said []byte
	_ = fields(node, func(num protowire.Number, _ int, value []byte) error { // what cannot be read tells nothing apart
		switch num {
		case nodeMetadata:
			var metadata structpb.Struct
			if proto.Unmarshal(value, &metadata) == nil {
				value, _ = proto.MarshalOptions{Deterministic: true}.Marshal(&metadata)
			}
		case nodeID, nodeCluster, nodeLocality:
		default:
			return nil // the list of extensions, and what Envoy is
		}
		said = appendField(said, num, value)
		return nil
	})
	return sha256.Sum256(said)
}
