package xds

import "context"

// Await blocks until the given turn, or a later one, is published.
func (l *Library) Await(ctx context.Context, turn uint64) error {
	for {
		next := l.nextTurn()
		if l.Turn() >= turn {
			return nil
		}
		select {
		case <-next:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// WaitUntil blocks until ready says so of the streams' status, which it is asked about again after each turn and each
// progress of any stream.
func (s *Server) WaitUntil(ctx context.Context, ready func([]ProxyStatus) bool) error {
	return s.await(ctx, func() bool { return ready(s.Status()) })
}
