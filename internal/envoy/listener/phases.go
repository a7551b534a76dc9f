package listener

import (
	"slices"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
)

// Phase is a place in the order in which requests and connections pass filters that features and users add
// (WasmPlugin.phase, TrafficExtension.phase).
type Phase uint8

// The phases, in order. What is in the first two passes before requests are counted, delayed or answered.
const (
	Authentication Phase = iota // who calls
	Authorization               // whether they may
	Statistics                  // after all that may refuse, before requests are counted
	Last                        // right before the router: filters that do not say when
	phases
)

// Phased is filters that features and users add, by phase, and of each phase in the order in which they were added. The zero
// value has none; a copy is independent of what it was copied from.
type Phased struct {
	http        [phases][]*hcmv3.HttpFilter
	connections [phases][]*listenerv3.Filter
}

// WithHTTP adds filters of requests. They do nothing where connections are not HTTP.
func (f Phased) WithHTTP(at Phase, filters ...*hcmv3.HttpFilter) Phased {
	f.http[at] = slices.Concat(f.http[at], filters)
	return f
}

// WithConnections adds filters of connections, whatever goes over them. All of them pass before the first request.
func (f Phased) WithConnections(at Phase, filters ...*listenerv3.Filter) Phased {
	f.connections[at] = slices.Concat(f.connections[at], filters)
	return f
}

// before is the filters of connections of all phases, with the one at last that the connections end in.
func (f Phased) before(last *listenerv3.Filter) []*listenerv3.Filter {
	return append(slices.Concat(f.connections[:]...), last)
}
