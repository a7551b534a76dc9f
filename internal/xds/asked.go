package xds

import (
	"context"
	"net"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"fairway/internal/xds/wire"
)

// Asker answers requests that ask the program about itself. They subscribe to nothing, and no proxy sends them. A stream whose first
// request is such a question is no proxy's: Hooks and Library do not learn of it. Its caller is the one that Options.Arrive admitted.
type Asker interface {
	// Asks reports whether requests of a type are questions.
	Asks(typ string) bool
	// Answer returns the message for one question, a DiscoveryResponse. An error ends the stream: it is a gRPC status.
	Answer(ctx context.Context, peer net.Addr, q Question) (proto.Message, error)
}

// Question is a request to an Asker.
type Question struct {
	Type  string
	Names []string
}

// Limits of streams of questions.
const (
	mostAsking  = 64 // streams at once
	askingIdle  = time.Minute
	answerAfter = time.Minute // at most
)

var (
	errTooManyAsking = status.Errorf(codes.ResourceExhausted, "%d streams ask about this server already: ask again later", mostAsking)
	errAskInState    = status.Error(codes.InvalidArgument, "ask by StreamAggregatedResources: questions have no incremental form")
	errAskNoMore     = status.Errorf(codes.DeadlineExceeded, "no question came within %s", askingIdle)
)

// asks reports whether a stream's first request is a question.
func (s *Server) asks(first *wire.Request) bool {
	return s.opts.Asker != nil && s.opts.Asker.Asks(first.Type)
}

// answers answers a stream's questions, one after the other, until it ends.
func (s *stream) answers(ctx context.Context, q *wire.Request) error {
	if s.delta {
		return refuse(ReasonRequest, errAskInState)
	}
	if s.server.asking.Add(1) > mostAsking {
		s.server.asking.Add(-1)
		return refuse(ReasonStreams, errTooManyAsking)
	}
	defer s.server.asking.Add(-1)
	idle := time.NewTimer(askingIdle)
	defer idle.Stop()
	for {
		if q != nil && q.Nonce == "" { // a request with one acknowledges an answer
			if err := s.answer(ctx, q); err != nil {
				return err
			}
		}
		idle.Reset(askingIdle)
		select {
		case q = <-s.in:
			if !s.server.asks(q) {
				return refuse(ReasonRequest, status.Errorf(codes.InvalidArgument, "this stream is for questions: open another one"))
			}
		case <-idle.C:
			return refuse(ReasonSilent, errAskNoMore)
		case err := <-s.failed:
			return closing(err)
		case <-ctx.Done():
			return ended(ctx)
		case <-s.stop:
			return ErrDraining
		}
	}
}

// answer answers one question. A client that does not take the answer in time loses its stream.
func (s *stream) answer(ctx context.Context, q *wire.Request) error {
	within, stop := context.WithTimeout(ctx, answerAfter)
	defer stop()
	message, err := s.server.opts.Asker.Answer(within, s.peer, Question{Type: q.Type, Names: q.Subscribe})
	if err != nil {
		return err
	}
	s.server.inner.Add(1)
	go func() {
		defer s.server.inner.Done()
		defer s.server.caught("answer", func(err error) { s.sent <- err })
		s.sent <- s.wire.SendMsg(message)
	}()
	late := time.NewTimer(s.server.opts.SendTimeout)
	defer late.Stop()
	select {
	case err := <-s.sent:
		return err
	case <-late.C:
		return errSlow(s.server.opts, q.Type)
	case <-ctx.Done():
		return ended(ctx)
	case <-s.stop:
		return ErrDraining
	}
}
