// Package etcd keeps shared state in etcd: a key for each record, a transaction for each change, and a lease of etcd's for the control
// plane that writes.
//
// It must not know the content of records. internal/store calls etcd.
package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"fairway/internal/state"
	"fairway/internal/store"
)

// Store is state below a prefix of keys.
type Store struct {
	client *clientv3.Client
	reach  store.Reach
	prefix string // ends with a slash
	cancel context.CancelFunc
}

// writer is the key of the lease, below the prefix.
const writer = "writer"

// page is how many keys one answer has.
const page = 1000

// Open returns the state below a prefix, as /fairway/default/.state. It makes no call.
func Open(reach store.Reach, prefix string) (*Store, error) {
	ctx, cancel := context.WithCancel(context.Background())
	client, err := reach.Open(ctx)
	if err != nil {
		cancel()
		return nil, err
	}
	return &Store{client, reach, strings.TrimSuffix(prefix, "/") + "/", cancel}, nil
}

// String implements state.Store.
func (s *Store) String() string { return s.reach.Name() }

// Close implements state.Store.
func (s *Store) Close() {
	s.cancel()
	_ = s.client.Close()
}

func (s *Store) explain(err error) error { return s.reach.Explain(err, s.prefix) }

// Get implements state.Store.
func (s *Store) Get(ctx context.Context, name string) (state.Record, error) {
	answer, err := s.client.Get(ctx, s.prefix+name)
	if err != nil {
		return state.Record{}, s.explain(err)
	}
	out := state.Record{Name: name}
	for _, kv := range answer.Kvs {
		out.Value, out.Revision = kv.Value, uint64(kv.ModRevision)
	}
	return out, nil
}

// List implements state.Store.
func (s *Store) List(ctx context.Context, prefix string) ([]state.Record, error) {
	var out []state.Record
	from, end := s.prefix+prefix, clientv3.GetPrefixRangeEnd(s.prefix+prefix)
	var revision int64
	for {
		answer, err := s.client.Get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(page), clientv3.WithRev(revision))
		if err != nil {
			return nil, s.explain(err)
		}
		revision = answer.Header.Revision
		for _, kv := range answer.Kvs {
			name := strings.TrimPrefix(string(kv.Key), s.prefix)
			if name != writer {
				out = append(out, state.Record{Name: name, Value: kv.Value, Revision: uint64(kv.ModRevision)})
			}
			from = string(kv.Key) + "\x00"
		}
		if len(out) > state.MostRecords {
			return nil, fmt.Errorf("%s: more than %d keys below %s", s, state.MostRecords, s.prefix+prefix)
		}
		if !answer.More {
			return out, nil
		}
	}
}

// Put implements state.Store.
func (s *Store) Put(ctx context.Context, w state.Write) error {
	key := s.prefix + w.Name
	if len(w.Value) > state.MostValue {
		return fmt.Errorf("%s: %s has %d bytes of at most %d", s, w.Name, len(w.Value), state.MostValue)
	}
	when := []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(key), "=", int64(w.Revision))}
	if w.Fence != (state.Fence{}) {
		when = append(when, clientv3.Compare(clientv3.CreateRevision(s.prefix+writer), "=", int64(w.Fence.Revision)))
	}
	do := clientv3.OpPut(key, string(w.Value))
	if w.Value == nil {
		do = clientv3.OpDelete(key)
	}
	answer, err := s.client.Txn(ctx).If(when...).Then(do).Else(clientv3.OpGet(s.prefix + writer)).Commit()
	switch {
	case err != nil:
		return s.explain(err)
	case answer.Succeeded:
		return nil
	case w.Fence != (state.Fence{}):
		held := answer.Responses[0].GetResponseRange().GetKvs()
		if len(held) == 0 || held[0].CreateRevision != int64(w.Fence.Revision) {
			return state.ErrFenced
		}
	}
	return state.ErrConflict
}

// Watch implements state.Store.
func (s *Store) Watch(ctx context.Context, prefix string, changed func()) error {
	ctx, end := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer end()
	at := s.prefix + prefix
	for answer := range s.client.Watch(ctx, at, clientv3.WithPrefix(), clientv3.WithCreatedNotify()) {
		if err := answer.Err(); err != nil {
			return s.explain(err)
		}
		others := func(e *clientv3.Event) bool { return string(e.Kv.Key) != s.prefix+writer }
		if answer.Created || slices.ContainsFunc(answer.Events, others) {
			changed()
		}
	}
	return s.explain(errors.New("the connection ended"))
}

// Acquire implements state.Store.
func (s *Store) Acquire(ctx context.Context, holder string, lasts time.Duration) (state.Lease, error) {
	held, err := s.client.Get(ctx, s.prefix+writer)
	if err != nil {
		return nil, s.explain(err)
	}
	if len(held.Kvs) > 0 {
		return nil, state.ErrHeld
	}
	granted, err := s.client.Grant(ctx, int64(lasts/time.Second))
	if err != nil {
		return nil, s.explain(err)
	}
	key := s.prefix + writer
	answer, err := s.client.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(key), "=", 0)).
		Then(clientv3.OpPut(key, holder, clientv3.WithLease(granted.ID))).Commit()
	if err == nil && answer.Succeeded {
		return &lease{s, granted.ID, state.Fence{Revision: uint64(answer.Header.Revision)}}, nil
	}
	_, _ = s.client.Revoke(ctx, granted.ID) // else it ends by itself
	if err == nil {
		return nil, state.ErrHeld
	}
	return nil, s.explain(err)
}

type lease struct {
	store *Store
	id    clientv3.LeaseID
	fence state.Fence
}

// Fence implements state.Lease.
func (l *lease) Fence() state.Fence { return l.fence }

// Renew implements state.Lease.
func (l *lease) Renew(ctx context.Context) error {
	_, err := l.store.client.KeepAliveOnce(ctx, l.id)
	if errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return state.ErrFenced
	}
	return l.store.explain(err)
}

// Release implements state.Lease.
func (l *lease) Release(ctx context.Context) error {
	_, err := l.store.client.Revoke(ctx, l.id)
	return l.store.explain(err)
}
