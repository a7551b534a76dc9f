package wire

import (
	"fmt"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
)

// Limits on the content of one request. They are several times the sizes that Envoy and similar clients send: its longest names are
// those of clusters and virtual hosts, some 300 bytes, and the node of a stock Envoy takes 60 KiB, nearly all of it the list of its
// extensions, which this server does not read.
const (
	maxTypeBytes    = 256      // a type URL
	maxNameBytes    = 4 << 10  // a resource's name
	maxNonceBytes   = 256      // ours have at most 20
	maxVersionBytes = 1 << 10  // ours have 16, but a client reports those of the server before, too
	maxNodeBytes    = 64 << 10 // a node without the list of its extensions
	maxNodeWire     = 1 << 20  // a node with it
	maxNodeDepth    = 100      // messages within messages of a node
	maxReported     = 1 << 18  // resources that a client says it holds, of one type
)

// wrongString is an error for a string of a request that is too long or not UTF-8.
type wrongString struct {
	field string
	size  int
	limit int // exceeded, or 0: it is not UTF-8
}

func (e *wrongString) Error() string {
	switch {
	case e.limit > 0:
		return fmt.Sprintf("%s has %d bytes, the limit is %d", e.field, e.size, e.limit)
	case e.size == 0:
		return e.field + " is empty"
	}
	return e.field + " is not valid UTF-8"
}

// checkString holds a string of a request against its bound.
func checkString(field, s string, limit int) error {
	if len(s) > limit {
		return &wrongString{field, len(s), limit}
	}
	if !utf8.ValidString(s) {
		return &wrongString{field: field, size: len(s)}
	}
	return nil
}

// checkName is checkString for a resource's name, which must not be empty.
func checkName(field, s string) error {
	if s == "" {
		return &wrongString{field: field}
	}
	return checkString(field, s, maxNameBytes)
}

// nodeExtensions is the field of a node with the extensions of the client's binary.
const nodeExtensions protowire.Number = 9

// errTooLong refuses a list of a request that is too long.
func errTooLong(field string, limit int) error {
	return status.Errorf(codes.ResourceExhausted, "%s has more than %d elements, the limit of this server", field, limit)
}

// errWrong returns the status of a request that is not a discovery request, or has forbidden content.
func errWrong(err error) error {
	if _, ok := status.FromError(err); ok {
		return err
	}
	return status.Errorf(codes.InvalidArgument, "discovery request: %v", err)
}
