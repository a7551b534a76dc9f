package interpret

import (
	"net/netip"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"fairway/internal/interpret/upstream"
	"fairway/internal/interpret/way"
)

// The answer, as package way describes it.
type (
	Answer   = way.Answer
	Way      = way.Way
	Step     = way.Step
	Passed   = way.Passed
	Outcome  = way.Outcome
	Endpoint = way.Endpoint
	Kind     = way.Kind
)

// The kinds of outcomes.
const (
	Unknown   = way.Unknown
	Answered  = way.Answered
	Forwarded = way.Forwarded
	Closed    = way.Closed
)

// Explain follows a request through the resources of a proxy. It returns an error if the request is too large, or if a resource that the
// request meets is invalid.
func Explain(config Config, request Request) (Answer, error) {
	if err := request.check(); err != nil {
		return Answer{}, err
	}
	s := &shared{config: config}
	return way.Explore(func(on *way.Walk) {
		w := &walk{Walk: on, shared: s, asked: request, destination: request.Destination, source: request.Source}
		w.connect()
	})
}

// shared is the part of an interpretation that all its ways share.
type shared struct {
	config Config
	hosts  map[string][]*routev3.VirtualHost // virtual hosts that are resources of their own, by route configuration
}

// walk is the state of one way.
type walk struct {
	*way.Walk
	*shared
	asked Request

	destination, source netip.AddrPort
	tlsSeen             bool     // a listener filter reads the TLS hello
	terminated          bool     // the filter chain ended the client's TLS
	protocols           []string // application protocols that listener filters found
	name                string   // server name that listener filters found
	http                *http
}

// forward ends the way at a cluster.
func (w *walk) forward(o way.Outcome) {
	if w.http != nil {
		o.GRPC = w.grpc()
	}
	upstream.Forward(w.Walk, upstream.Resources{Cluster: w.config.cluster, LoadAssignment: w.config.loadAssignment}, w.destination, o)
}
