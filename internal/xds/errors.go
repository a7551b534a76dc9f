package xds

import (
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"fairway/internal/xds/protocol"
	"fairway/internal/xdstype"
)

// ErrDraining is the status, Unavailable, that streams end with when the server drains, and that new ones get.
var ErrDraining = status.Error(codes.Unavailable, "the server is draining: connect to another")

// errSlow ends a stream to a client that does not read.
func errSlow(o Options, typ string) error {
	return status.Errorf(codes.DeadlineExceeded, "the client did not take a %s response within %s", xdstype.Short(typ), o.SendTimeout)
}

func errTooManyStreams(limit int, holder string, has int) error {
	return status.Errorf(codes.ResourceExhausted,
		"%d streams are open, the limit of this server (--maxStreams); %s has most of them, %d, and loses its newest to others",
		limit, holder, has)
}

func errTooManyPending(limit int) error {
	return status.Errorf(codes.ResourceExhausted,
		"%d streams have not said who they are, the limit of this server: send the first request at once", limit)
}

func errSilent(o Options) error {
	return status.Errorf(codes.DeadlineExceeded, "no first request came within %s", o.FirstWait)
}

func errTooFastFrom(o Options) error {
	return status.Errorf(codes.ResourceExhausted, "more than %g new streams a second from this address, and none free within %s",
		o.AddressStreamsPerSecond, o.StreamWait)
}

func errTooFast(o Options) error {
	return status.Errorf(codes.ResourceExhausted, "more than %g new streams a second, and none free within %s", o.StreamsPerSecond,
		o.StreamWait)
}

// errTooMany ends a stream that exceeds a limit of the protocol.
func errTooMany(err *protocol.TooMany) error {
	if err.Types {
		return refuse(ReasonTypes, status.Error(codes.ResourceExhausted, err.Error()))
	}
	return refuse(ReasonNames, status.Error(codes.ResourceExhausted, err.Error()))
}

// refusal is the status for an error of Hooks.Connect.
func refusal(err error) error {
	var coded interface{ GRPCStatus() *status.Status }
	if errors.As(err, &coded) {
		return err
	}
	return status.Errorf(codes.PermissionDenied, "connect: %v", err)
}
