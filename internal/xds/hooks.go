package xds

import (
	"context"
	"net"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"fairway/internal/xds/library"
)

// Hooks connects the protocol with the program around it. Calls come from many goroutines at once.
type Hooks interface {
	// Connect is called with a stream's first request. It returns the proxy that the stream belongs to; the stream then waits until
	// the library attaches that proxy. An error ends the stream: a gRPC status is passed on, anything else becomes
	// PermissionDenied. For each call that returned no error, Disconnect is called once.
	Connect(ctx context.Context, node *corev3.Node, peer net.Addr) (library.ProxyID, error)
	// Disconnect tells that one stream of the proxy has ended. Others may still be there.
	Disconnect(id library.ProxyID)
	// Rejected tells that a client refused a resource and that it will not be sent that version again.
	Rejected(r Rejection)
}

// Rejection describes resources that a client refused.
type Rejection struct {
	Proxy   library.ProxyID
	Type    string   // type URL
	Turn    uint64   // of the change that was refused
	Names   []string // the culprits
	Version string   // of the culprit, as on the wire
	Detail  string   // the client's own words
}

// Report is a client's report about itself, in a request of a type in Options.Reports.
type Report struct {
	Proxy  library.ProxyID
	Failed bool   // the request has an error_detail
	Detail string // its message
}

// Meter counts. All of its calls must return quickly; they come from many goroutines at once.
type Meter interface {
	// Sent is called when a response has been handed to the transport.
	Sent(s Sent)
	// Acked is called when a client ACKed a response; Took is the time from the publication of the oldest turn in it.
	Acked(a Acked)
	// Nacked is called for each response that a client refused.
	Nacked(proxy library.ProxyID, typ string)
}

// Sent describes one response.
type Sent struct {
	Proxy     library.ProxyID
	Stream    uint64   // distinct for each stream
	Type      string   // type URL
	Turn      uint64   // that the response brings the client to
	Turns     []uint64 // of the changes in it, the first of them; those that answer a subscription do not count
	Resources int
	Removed   int
	Bytes     int
	Took      time.Duration // until the transport took it
	Waited    time.Duration // from the publication of the oldest of Turns until it was handed to the transport; 0: not known
}

// Acked describes one acknowledgement. Took is 0 if the time of publication is no longer known, or if the response answered a
// subscription and not a change.
type Acked struct {
	Proxy     library.ProxyID
	Type      string
	Turn      uint64   // of the oldest change
	Turns     []uint64 // of the changes, the first of them
	Resources int
	Took      time.Duration
}

type noMeter struct{}

func (noMeter) Sent(Sent)                      {}
func (noMeter) Acked(Acked)                    {}
func (noMeter) Nacked(library.ProxyID, string) {}
