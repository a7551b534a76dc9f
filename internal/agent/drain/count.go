package drain

import (
	"context"
	"fmt"
	"strings"
)

// Count counts what is open at an Envoy's listeners.
type Count struct {
	Busy int64 // requests under way, connections that are not HTTP, and those with bytes that have not gone out
	Idle int64 // connections of HTTP that nothing happens on
}

// Endings of the gauges that are read.
const (
	active   = ".downstream_cx_active"
	requests = ".downstream_rq_active"
	unsent   = ".downstream_cx_tx_bytes_buffered"
)

// connections counts the requests and connections that are open at the listeners.
func (o Options) connections(ctx context.Context) (Count, error) {
	stats, err := o.Admin.Stats(ctx, `^(listener|http|tcp\.inbound).*\.downstream_(cx_active|rq_active|cx_tx_bytes_buffered)$`)
	if err != nil {
		return Count{}, fmt.Errorf("count envoy's connections: %w", err)
	}
	return Connections(stats, o.Inbound, o.Ignore), nil
}

// own are the connection managers of probes, metrics and the administration.
var own = map[string]bool{"http.admin": true, "http.prometheus": true, "http.readiness": true}

// Connections adds up gauges: those of all listeners except the administration and those at ignored ports. If inbound is set, only
// inbound connection managers and TCP proxies count: the control plane begins their names with "inbound".
func Connections(stats map[string]int64, inbound bool, ignore []uint16) Count {
	var c Count
	var all, http int64
	for name, n := range stats {
		manager, is := strings.CutSuffix(name, active)
		switch {
		case !is, own[manager]:
		case strings.HasPrefix(name, "http.inbound"), strings.HasPrefix(name, "http.") && !inbound:
			http += n
			busy := busyOf(stats, manager, n)
			c.Busy, c.Idle = c.Busy+busy, c.Idle+max(0, n-busy)
		case inbound && strings.HasPrefix(name, "tcp.inbound"), !inbound && counts(name, ignore):
			all += n
		}
	}
	if inbound {
		http = 0 // TCP proxies count only connections that are not HTTP
	}
	c.Busy += max(0, all-http)
	return c
}

// busyOf returns how many requests or connections of a connection manager are busy: all connections if its requests are not counted.
func busyOf(stats map[string]int64, manager string, connections int64) int64 {
	under, counted := stats[manager+requests]
	switch {
	case !counted:
		return connections
	case under == 0 && stats[manager+unsent] > 0:
		return 1
	}
	return under
}

// counts reports whether a statistic counts the connections of a listener: not the administration's, nor one at an ignored port.
func counts(name string, ignore []uint16) bool {
	return strings.HasPrefix(name, "listener.") && !strings.HasPrefix(name, "listener.admin.") && !strings.Contains(name, ".worker_") &&
		!atPort(name, ignore)
}

func atPort(name string, ports []uint16) bool {
	for _, p := range ports {
		if strings.HasSuffix(name, fmt.Sprintf("_%d%s", p, active)) {
			return true
		}
	}
	return false
}
