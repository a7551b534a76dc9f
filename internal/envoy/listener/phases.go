package listener

import (
	"slices"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
)

// Phase is a place in the order of the filters that features and users add for requests and connections (WasmPlugin.phase,
// TrafficExtension.phase).
type Phase uint8

// The phases, in order. The first two come before requests are counted, delayed or answered.
const (
	Authentication Phase = iota // identifies callers
	Authorization               // decides what callers may do
	Statistics                  // after all filters that may refuse, before requests are counted
	Last                        // right before the router: filters without a phase
	phases
)

// Phased holds filters that features and users add, by phase; within a phase, in the order in which they were added. The zero value has
// none; a copy is independent of the original.
type Phased struct {
	http        [phases][]*hcmv3.HttpFilter
	connections [phases][]*listenerv3.Filter
}

// WithHTTP adds filters of requests. They do nothing on connections that are not HTTP.
func (f Phased) WithHTTP(at Phase, filters ...*hcmv3.HttpFilter) Phased {
	f.http[at] = slices.Concat(f.http[at], filters)
	return f
}

// WithConnections adds filters of connections, whatever goes over them. All of them pass before the first request.
func (f Phased) WithConnections(at Phase, filters ...*listenerv3.Filter) Phased {
	f.connections[at] = slices.Concat(f.connections[at], filters)
	return f
}

// before returns the filters of connections of all phases, followed by last, the final filter.
func (f Phased) before(last *listenerv3.Filter) []*listenerv3.Filter {
	return append(slices.Concat(f.connections[:]...), last)
}
