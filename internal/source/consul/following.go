package consul

import (
	"context"
	"time"

	"github.com/hashicorp/consul/api"

	"fairway/internal/servers"
)

// pace slows down a loop when the server answers at once instead of waiting.
type pace struct {
	quick        int
	lastQuestion time.Time
}

// next waits until the next question. changed says whether the answer said something new: then a short while is enough.
func (p *pace) next(ctx context.Context, changed bool, short time.Duration) {
	took := time.Since(p.lastQuestion)
	switch {
	case took > time.Second:
		p.quick = 0
		return
	case changed:
		p.quick = 0
		if took >= short {
			return
		}
	default:
		if p.quick++; p.quick > 3 {
			servers.DefaultRetry.Wait(ctx, p.quick-3)
			return
		}
	}
	servers.Retry{Base: short, Max: short}.Wait(ctx, 1)
}

// following is a query that is asked again and again, each time for what has changed since the last answer.
type following struct {
	pace
	index uint64 // of the last answer
	of    uint64 // server.fresh of the server that gave it
}

// server waits for a server to ask. The index of one server means nothing to another.
func (f *following) server(ctx context.Context, l *line) (*server, error) {
	at, err := l.get(ctx)
	if err == nil && at.fresh != f.of {
		f.index = 0
	}
	return at, err
}

// ask asks a server what has changed.
func (f *following) ask(ctx context.Context, l *line, at *server, q query) (*api.QueryMeta, error) {
	f.lastQuestion, q.index = time.Now(), f.index
	return l.ask(ctx, at, q)
}

// answered notes the index of an answer, and reports whether it is a new one.
func (f *following) answered(at *server, meta *api.QueryMeta) bool {
	changed := meta.LastIndex != f.index
	f.index, f.of = meta.LastIndex, at.fresh
	return changed
}
