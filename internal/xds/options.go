package xds

import (
	"context"
	"net"
	"time"
)

// Options sets the limits of a server. The zero value of each field means its default.
type Options struct {
	// MaxResponseBytes is about where an answer is split into several responses; 4 MiB. A single resource may exceed
	// it, and so may the full state that the state-of-the-world protocol demands.
	MaxResponseBytes int
	// MaxRequestBytes is the largest request taken; 16 MiB.
	MaxRequestBytes int
	// MaxStreams is how many streams may be open at once; 0 is unlimited.
	MaxStreams int
	// MaxSubscriptions is how many names one stream may subscribe to by name, over all types; 100,000.
	MaxSubscriptions int
	// StreamsPerSecond limits new streams; a stream waits up to StreamWait for its turn. 0 is unlimited.
	StreamsPerSecond float64
	// StreamWait is how long a new stream waits under StreamsPerSecond; 1 s.
	StreamWait time.Duration
	// SendTimeout is how long one response may wait for the client to take it before the stream is cut; 30 s.
	SendTimeout time.Duration
	// Window is how many responses of one type may be un-ACKed; further changes coalesce until an ACK. 16.
	Window int
	// Reports are types of requests that subscribe to nothing: with them a client tells something of itself, as an error_detail or the lack of one. Each
	// such request is handed to its function, which must return quickly, and is not answered.
	Reports map[string]func(Report)
	// Withhold tells that a stream gets nothing of a type, whatever its proxy sees: what is sent to nobody who did not prove who he is. It is asked with
	// the stream's context and the client's address, many times, from many goroutines at once. Nil withholds nothing.
	Withhold func(ctx context.Context, peer net.Addr, typ string) bool
	// Meter counts what is sent; nil counts nothing.
	Meter Meter
}

func (o Options) withDefaults() Options {
	orInt := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	orTime := func(v *time.Duration, d time.Duration) {
		if *v == 0 {
			*v = d
		}
	}
	orInt(&o.MaxResponseBytes, 4<<20)
	orInt(&o.MaxRequestBytes, 16<<20)
	orInt(&o.MaxSubscriptions, 100_000)
	orInt(&o.Window, 16)
	orTime(&o.StreamWait, time.Second)
	orTime(&o.SendTimeout, 30*time.Second)
	if o.Meter == nil {
		o.Meter = noMeter{}
	}
	return o
}
