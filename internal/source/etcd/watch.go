package etcd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"fairway/internal/printable"
)

// received is one answer of a watch, or how it ended.
type received struct {
	answer *etcdserverpb.WatchResponse
	err    error
}

// watch follows changes until the connection ends. It speaks to etcd itself: the client's own watches begin again in silence when a
// connection ends, and wait for ever if etcd's revision went back.
func (r *runner) watch(ctx context.Context, client *clientv3.Client) error {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	var wait sync.WaitGroup
	defer wait.Wait()
	defer cancel()
	stream, err := etcdserverpb.NewWatchClient(client.ActiveConnection()).Watch(ctx, grpc.MaxCallRecvMsgSize(r.s.o.Answer()))
	if err != nil {
		return err
	}
	if err := stream.Send(&etcdserverpb.WatchRequest{RequestUnion: &etcdserverpb.WatchRequest_CreateRequest{
		CreateRequest: &etcdserverpb.WatchCreateRequest{
			Key: []byte(r.root), RangeEnd: []byte(clientv3.GetPrefixRangeEnd(r.root)),
			// The watch begins at the last known revision, and known changes are skipped: etcd does not report the progress of a
			// watch that begins later.
			StartRevision: r.revision, ProgressNotify: true, Fragment: true,
		},
	}}); err != nil && !errors.Is(err, io.EOF) { // Recv returns why it ended
		return err
	}
	answers := make(chan received)
	wait.Go(func() {
		for {
			answer, err := stream.Recv()
			select {
			case answers <- received{answer, err}:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	})
	return r.follow(ctx, stream, answers)
}

// follow takes answers, and asks for some if none come.
func (r *runner) follow(ctx context.Context, stream etcdserverpb.Watch_WatchClient, answers <-chan received) error {
	r.answered = time.Now()
	probe := time.NewTimer(r.s.times.probe)
	defer probe.Stop()
	var rest fragments
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case h := <-answers:
			if errors.Is(h.err, io.EOF) {
				return errors.New("the connection ended")
			}
			if h.err != nil {
				return h.err
			}
			r.answered = time.Now()
			if err := r.answer(h.answer, &rest); err != nil {
				return err
			}
			if h.answer.Created {
				ask(stream)
				probe.Reset(r.often())
			}
		case <-probe.C:
			switch quiet := time.Since(r.answered); {
			case quiet > r.s.times.silence:
				return fmt.Errorf("it sent nothing for %s", quiet.Round(time.Second))
			case quiet > r.s.times.silence/2:
				r.lose(fmt.Errorf("it has sent nothing for %s", quiet.Round(time.Second)))
				ask(stream)
			case quiet > r.s.times.probe/2, r.away.Last() != "":
				ask(stream)
			}
			probe.Reset(r.often())
		}
	}
}

// often returns how long to wait for etcd to report its progress. etcd does not report it for a watch that is still catching up, so it is
// asked more often until the state is known to be complete.
func (r *runner) often() time.Duration {
	if r.away.Last() != "" {
		return r.s.times.again
	}
	return r.s.times.probe
}

// ask asks etcd how far it is. An error is one of the stream, which receiving returns.
func ask(stream etcdserverpb.Watch_WatchClient) {
	_ = stream.Send(&etcdserverpb.WatchRequest{
		RequestUnion: &etcdserverpb.WatchRequest_ProgressRequest{ProgressRequest: &etcdserverpb.WatchProgressRequest{}},
	})
}

// fragments are events of a revision that may have more.
type fragments struct {
	events []*mvccpb.Event
	size   int
}

// eventBytes is what an event takes in memory beside its key and value.
const eventBytes = 256

// answer takes one answer of a watch.
func (r *runner) answer(a *etcdserverpb.WatchResponse, rest *fragments) error {
	switch {
	case a.CompactRevision > 0:
		r.relist = true
		return rpctypes.ErrCompacted
	case a.Canceled:
		return errors.New(printable.Text(a.CancelReason, printable.Long))
	case a.Created:
		return nil
	}
	all := len(a.Events)
	for _, e := range a.Events {
		if e.Kv == nil {
			return errors.New("it sent a change without a key")
		}
	}
	events := append(rest.events, slices.DeleteFunc(a.Events, func(e *mvccpb.Event) bool { return e.Kv.ModRevision <= r.revision })...)
	rest.events, rest.size = nil, 0
	if a.Fragment { // the last revision may go on
		whole := len(events)
		for whole > 0 && events[whole-1].Kv.ModRevision == events[len(events)-1].Kv.ModRevision {
			whole--
		}
		rest.events = append(rest.events, events[whole:]...)
		for _, e := range rest.events {
			rest.size += eventBytes + len(e.Kv.Key) + len(e.Kv.Value)
		}
		if events = events[:whole]; rest.size > r.s.o.Answer() {
			return fmt.Errorf("one transaction is larger than %d MiB (maxAnswerMiB)", r.s.o.Answer()>>20)
		}
	}
	if len(events) > 0 {
		return r.change(events)
	}
	if all == 0 && !a.Fragment && a.Header != nil { // it says how far it is
		r.revision = max(r.revision, a.Header.Revision)
		r.upToDate()
	}
	return nil
}

// change applies changes, and hands over the results at once.
func (r *runner) change(events []*mvccpb.Event) error {
	var puts []*mvccpb.KeyValue
	for _, e := range events {
		if e.Type == mvccpb.Event_PUT {
			puts = append(puts, e.Kv)
		}
	}
	values := r.held.decode(puts, nil)
	room := false
	for _, e := range events {
		if e.Type == mvccpb.Event_PUT {
			r.held.set(values[0], false)
			values = values[1:]
		} else {
			room = r.held.remove(string(e.Kv.Key)) || room
		}
		r.revision = max(r.revision, e.Kv.ModRevision)
	}
	r.working = true
	r.hand(false)
	if room {
		r.relist = true
		return errRoom
	}
	return nil
}
