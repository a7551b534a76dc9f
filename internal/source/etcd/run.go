package etcd

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"fairway/internal/disk/watch"
	"fairway/internal/printable"
	"fairway/internal/source"
	"fairway/internal/store"
)

// errRoom says that there may be room now for things that were left out.
var errRoom = errors.New("there may be room for objects that were left out")

// runner is a source at work. All of it belongs to the goroutine of Run.
type runner struct {
	s    *Source
	held *ledger
	root string

	cluster  uint64         // of the etcd that was read
	revision int64          // all changes are known up to it; 0: nothing is
	relist   bool           // changes after revision cannot be had
	replaced string         // why this is not the etcd that was read before; empty: it is, or it has everything that was read
	away     source.Reasons // why etcd does not answer; none: it does
	working  bool           // the connection delivered something
	answered time.Time      // when etcd answered last
}

func newRunner(s *Source) *runner {
	r := &runner{s: s, held: newLedger(s), root: s.o.Root(), answered: time.Now()}
	s.out.Name, s.out.LeftOut = s.name, func() uint64 { return uint64(r.held.leftOut()) }
	return r
}

// run goes from one connection to the next until ctx ends.
func (r *runner) run(ctx context.Context) {
	var changed <-chan struct{} // nil: there are no files
	if len(r.s.o.Files()) > 0 {
		files := watch.Follow(watch.Options{
			Files: r.s.o.Files, Quiet: r.s.times.quiet, Every: 10 * r.s.times.quiet, Log: r.s.log,
		})
		defer files.Stop()
		changed = files.Changed()
	}
	for fails := 0; ctx.Err() == nil; {
		r.working = false
		begun := time.Now()
		err := r.s.o.Connect(ctx, changed, &r.s.secrets, r.connected)
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, store.ErrFiles):
			r.s.log.Info("connecting anew", "reason", err)
			continue
		case r.working && time.Since(begun) >= r.s.times.steady:
			fails = 0
		}
		fails++
		// The end of a member is not reported while another one answers at once; nor is a list that is read again.
		again := errors.Is(err, errRoom) || errors.Is(err, rpctypes.ErrCompacted)
		if (!again || fails > mostAgain) && (fails > 1 || r.revision == 0 || time.Since(r.answered) > r.s.times.silence/2) {
			r.lose(err)
		}
		if !pause(ctx, r.s.times.retry.After(fails), changed) {
			return
		}
	}
}

// mostAgain is how often in a row everything may be read again before that is reported.
const mostAgain = 3

// pause waits, or until files change; false: ctx ended.
func pause(ctx context.Context, d time.Duration, changed <-chan struct{}) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
	case <-changed:
	}
	return true
}

// connected reads etcd over one connection, until that ends.
func (r *runner) connected(ctx context.Context, client *clientv3.Client) error {
	if err := r.resume(ctx, client); err != nil {
		return r.s.o.Explain(err, r.root)
	}
	if err := r.watch(ctx, client); err != nil {
		if errors.Is(err, errRoom) {
			return err
		}
		return r.s.o.Explain(err, r.root)
	}
	return nil
}

// resume finds out whether a watch can go on where the last one was, and reads everything if it cannot.
func (r *runner) resume(ctx context.Context, client *clientv3.Client) error {
	if r.revision == 0 {
		return r.list(ctx, client, "")
	}
	ctx1, end := context.WithTimeout(ctx, store.Within)
	defer end()
	// Only what most members agree on counts: a member may be behind.
	now, err := client.Get(ctx1, r.root, clientv3.WithCountOnly())
	switch {
	case err != nil:
		return err
	case now.Header.GetClusterId() != r.cluster:
		return r.list(ctx, client, "it is another cluster")
	case now.Header.GetRevision() < r.revision:
		return r.list(ctx, client, fmt.Sprintf("its revision went back from %d to %d", r.revision, now.Header.GetRevision()))
	}
	if at, modified := r.held.newest(); at != "" {
		then, err := client.Get(ctx1, at, clientv3.WithRev(r.revision), clientv3.WithKeysOnly())
		switch {
		case errors.Is(err, rpctypes.ErrCompacted):
			r.relist = true
		case err != nil:
			return err
		case len(then.Kvs) != 1 || then.Kvs[0].ModRevision != modified:
			return r.list(ctx, client, fmt.Sprintf("at revision %d its content is not the one that was read then", r.revision))
		}
	}
	if r.relist {
		return r.list(ctx, client, "")
	}
	return nil
}

// list reads everything, at one revision. replaced says why etcd is not the one that was read before; empty: it may be.
func (r *runner) list(ctx context.Context, client *clientv3.Client, replaced string) error {
	pages := store.Pages{Client: client, Root: r.root}
	var all []*mvccpb.KeyValue
	var size int64
	more := 0 // keys that there is no room for
	for !pages.Done() && more == 0 {
		kvs, err := pages.Next(ctx)
		if err != nil {
			return err
		}
		for i, kv := range kvs {
			if size += int64(len(kv.Key) + len(kv.Value)); len(all) >= r.held.most || size > r.held.room {
				more = len(kvs) - i + int(min(pages.Left, math.MaxInt32))
				break
			}
			all = append(all, kv)
		}
	}
	if pages.Revision <= 0 {
		return errors.New("its answer has no revision, so it is not etcd")
	}
	if replaced == "" && r.revision > 0 {
		replaced = r.rewritten(pages.Cluster, all)
	}
	r.take(all, more, replaced != "")
	if replaced != "" {
		r.s.log.Error("etcd is not the one that was read before; what it lost stays in force",
			"reason", replaced, "lost", r.held.lost, "holds", len(all))
		r.replaced = replaced
	}
	r.cluster, r.revision, r.relist, r.working = pages.Cluster, pages.Revision, false, true
	r.away.Clear()
	r.answered = time.Now()
	r.hand(true)
	r.s.log.Info("read all objects", "objects", r.held.objects(), "revision", r.revision)
	return nil
}

// rewritten returns why the listed state cannot be a successor of the state that was read; empty: it can. Everything up to the
// revision that was reached was known, so nothing of that time can be new.
func (r *runner) rewritten(cluster uint64, all []*mvccpb.KeyValue) string {
	if cluster != r.cluster {
		return "it is another cluster"
	}
	if r.held.leftOut() > 0 {
		return ""
	}
	for _, kv := range all {
		if kv.ModRevision > r.revision {
			continue
		}
		if e := r.held.entries[string(kv.Key)]; e == nil || e.modified != kv.ModRevision {
			return fmt.Sprintf("it holds what it did not at revision %d, when all of it was read", r.revision)
		}
	}
	return ""
}

// take takes a whole list. If etcd was replaced, the objects that it lost are kept.
func (r *runner) take(all []*mvccpb.KeyValue, more int, replaced bool) {
	same := func(kv *mvccpb.KeyValue) bool {
		e := r.held.entries[string(kv.Key)]
		return !replaced && e != nil && !e.lost && !e.noRoom && e.modified == kv.ModRevision
	}
	values := r.held.decode(all, same)
	listed := make(map[string]bool, len(all))
	for _, kv := range all {
		listed[string(kv.Key)] = true
	}
	for at := range r.held.entries {
		switch {
		case listed[at]:
		case replaced || r.held.entries[at].lost:
			r.held.lose(at)
		default:
			r.held.remove(at)
		}
	}
	r.held.left = more
	for _, v := range values {
		if v.key.Kind != "" || v.foreign != "" {
			r.held.set(v, replaced)
		}
	}
}

// lose notes that the connection to etcd is lost, and why.
func (r *runner) lose(err error) {
	why := "the connection ended"
	if err != nil {
		why = printable.Text(err.Error(), printable.Long)
	}
	if r.away.Add(why) {
		r.s.log.Warn("etcd does not answer; the last state that was read stays in force", "reason", why)
	}
	r.report()
}

// upToDate notes that everything in etcd is known.
func (r *runner) upToDate() {
	r.working = true
	if r.away.Last() != "" {
		r.s.log.Info("etcd answers again", "revision", r.revision)
		r.away.Clear()
	}
	r.report()
}

// hand hands over what became different.
func (r *runner) hand(whole bool) {
	shard, problems := r.held.flush(whole)
	var shards []source.Shard
	if whole || shard.Rows.Len()+shard.Gone.Len() > 0 {
		shards = []source.Shard{shard}
	}
	r.s.out.Has(r.held.objects())
	r.s.out.Synced(r.answered, shards, problems)
	r.report()
}

// report hands on the state of the source.
func (r *runner) report() {
	r.s.revision.Store(r.revision)
	if r.held.lost == 0 {
		r.replaced = ""
	}
	why := r.away.String()
	if r.replaced != "" {
		why = fmt.Sprintf("%s is not the one that was read before: %s; %d objects that it does not have stay in force: "+
			"apply them again, or restart the control plane to do without them", r.s.o.Name(), r.replaced, r.held.lost)
	}
	r.s.out.SetStale(why)
}
