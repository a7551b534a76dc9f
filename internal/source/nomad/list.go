package nomad

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/nomad/api"

	"fairway/internal/source/platform"
)

// list reads everything.
func (l *lane) list(ctx context.Context, c *api.Client) error {
	names, over, index, err := l.names(ctx, c)
	if err != nil {
		return err
	}
	begun := time.Now()
	read, err := l.each(ctx, c, names)
	if err != nil {
		return err
	}
	list := l.book.List()
	list.Leave(over)
	clear(l.readAt)
	for _, k := range slices.SortedFunc(maps.Keys(read), platform.CompareServiceName) { // so that the same services are left out each time
		f := read[k]
		if l.readAt[k] = f.index; f.noRoom { // the account has to know that bytes are the reason
			list.LeaveLarge(k)
			f.over--
		}
		list.Leave(f.over)
		for _, r := range f.records {
			list.Add(r)
		}
	}
	// A server with a lower index than before has lost its state, or is another's.
	l.book.Replace(list, index < l.index, begun)
	l.index, l.unsure, l.listed = max(index, 1), false, begun
	l.flush(begun)
	return nil
}

// found is the answer about one service.
type found struct {
	records []*record
	over    int  // registrations that were left out
	noRoom  bool // some of them because there is no room for their bytes
	bytes   int64
	index   uint64
}

// each reads services, some at once, and no more of them than there may be bytes.
func (l *lane) each(ctx context.Context, c *api.Client, names []service) (map[service]found, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var mu sync.Mutex
	var asking sync.WaitGroup
	bytes := int64(0)
	out := make(map[service]found, len(names))
	next := make(chan service)
	for range min(atOnce, len(names)) {
		asking.Go(func() {
			for k := range next {
				f, err := l.registrations(ctx, c, k)
				if err != nil {
					stop(fmt.Errorf("service %s: %w", shown(k.Namespace+"/"+k.Name), err))
					continue
				}
				mu.Lock()
				if bytes += f.bytes; bytes > l.bounds.Bytes {
					f = found{over: f.over + len(f.records), index: f.index, noRoom: true}
				}
				out[k] = f
				mu.Unlock()
			}
		})
	}
	for _, k := range names {
		if ctx.Err() != nil {
			break
		}
		next <- k
	}
	close(next)
	asking.Wait()
	return out, context.Cause(ctx)
}
