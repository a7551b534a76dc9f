package xds

import (
	"context"
	"net"
	"time"

	"google.golang.org/grpc"
)

// Options sets the limits of a server. The zero value of each field means its default.
type Options struct {
	// MaxResponseBytes is the approximate size at which an answer is split into several responses; 4 MiB. A single resource may
	// exceed it, and so may the full state that the state-of-the-world protocol demands.
	MaxResponseBytes int
	// MaxRequestBytes is the largest request taken; 16 MiB.
	MaxRequestBytes int
	// MaxStreams is how many streams that have identified themselves may be open at once; 0 is unlimited.
	MaxStreams int
	// MaxPending is how many streams that have not identified themselves may be open at once; 1,000. If there are more, the oldest
	// one of the address with the most is ended.
	MaxPending int
	// AddressPending is how many of them are read from at once of one address; 64. The others wait for their turn.
	AddressPending int
	// FirstWait is how long a stream may take until its first request is there, its turn included; 10 s.
	FirstWait time.Duration
	// MaxConnectionStreams is how many streams one connection may have open at once, those of other services included; 100.
	MaxConnectionStreams uint32
	// MaxSubscriptions is how many names one stream may subscribe to by name, over all types; 100,000.
	MaxSubscriptions int
	// StreamsPerSecond limits new streams; a stream waits up to StreamWait for its turn. 0 is unlimited.
	StreamsPerSecond float64
	// AddressStreamsPerSecond limits new streams of one address, before StreamsPerSecond does, in the same way; a fifth of that. As
	// many as StreamsPerSecond may come at once. If more than half of this burst is unused by other addresses, waiting streams may
	// use the surplus. IPv6 addresses count by their network of 64 bits.
	AddressStreamsPerSecond float64
	// StreamWait is how long a new stream waits under StreamsPerSecond; 5 s.
	StreamWait time.Duration
	// SendTimeout is how long one response may wait for the client to take it before the stream is cut; 30 s.
	SendTimeout time.Duration
	// Window is how many responses of one type may be un-ACKed; further changes coalesce until an ACK. 16.
	Window int
	// Reports are types of requests that subscribe to nothing: with them a client tells something of itself, as an
	// error_detail or the lack of one. Each such request is handed to its function, which must return quickly, and is
	// not answered.
	Reports map[string]func(Report)
	// Warming are reports of what clients have acknowledged and do not use yet; nil: there are none.
	Warming *WarmingReports
	// Withhold reports whether a stream gets no resources of a type, whatever its proxy sees: these are only for authenticated
	// clients. It is called with the stream's context and the client's address, many times, from many goroutines at once. Nil
	// withholds nothing.
	Withhold func(ctx context.Context, peer net.Addr, typ string) bool
	// Arrive is called for each stream before anything is read from it. Its context has the credentials of the connection and the
	// headers, as gRPC keeps them. An error ends the stream: a gRPC status is passed on, anything else becomes PermissionDenied.
	// Nil admits all.
	Arrive func(ctx context.Context, peer net.Addr) error
	// Certified returns the identity that a stream's context proves, without a call to another server; empty: none is proved.
	// Streams with an identity do not wait for others at their address. Nil: no identity is proved.
	Certified func(ctx context.Context) string
	// Holder returns the holder of a stream once Arrive has admitted it; empty: the stream's address is the holder. If MaxStreams
	// are open, the holder with the most streams loses its newest one to others. Nil: the address is always the holder.
	Holder func(ctx context.Context) string
	// Refused is called for each stream that was refused; it must return quickly. Nil: there is no call.
	Refused func(Refusal)
	// Panicked is called for each panic that ended a stream, with the goroutine's name, the value and the stack. Nil logs it.
	Panicked func(where string, value any, stack []byte)
	// Services are further services that let clients speak incremental xDS in another encoding.
	Services []Service
	// Asker answers questions about the program; nil: requests of such types are like those of other unknown types.
	Asker Asker
	// Meter counts the sent responses; nil counts nothing.
	Meter Meter
}

// Service is a service with streams that follow the incremental protocol once they are adapted.
type Service struct {
	Name, Stream string // as gRPC has them
	// Adapt makes a stream of it that receives a *wire.Request and sends a *wire.Response.
	Adapt func(grpc.ServerStream) grpc.ServerStream
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
	orInt(&o.MaxPending, 1000)
	orInt(&o.AddressPending, 64)
	if o.MaxConnectionStreams == 0 {
		o.MaxConnectionStreams = 100
	}
	if o.AddressStreamsPerSecond == 0 {
		o.AddressStreamsPerSecond = o.StreamsPerSecond / 5
	}
	orTime(&o.FirstWait, 10*time.Second)
	orTime(&o.StreamWait, 5*time.Second)
	orTime(&o.SendTimeout, 30*time.Second)
	if o.Panicked == nil {
		o.Panicked = logPanic
	}
	if o.Meter == nil {
		o.Meter = noMeter{}
	}
	return o
}
