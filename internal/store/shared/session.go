package shared

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"fairway/internal/printable"
	"fairway/internal/store"
)

// session is one connection.
type session struct {
	*Records
	client *clientv3.Client
	at     string // the prefix of this control plane's records
	lease  clientv3.LeaseID
	shared bool // own records were written, and those of others were read
}

// errLease ends a session after its lease is gone: etcd was away for too long, or has lost its data.
var errLease = errors.New("the lease is gone")

// opsOfTxn is how many writes one transaction holds; etcd takes 128.
const opsOfTxn = 100

// run writes the own records, reads those of others, and follows both until something fails.
func (s *session) run(ctx context.Context) error {
	short, end := context.WithTimeout(ctx, store.Within)
	defer end()
	lease, err := s.client.Grant(short, int64(s.lasts/time.Second))
	if err != nil {
		return err
	}
	s.lease = lease.ID
	alive, err := s.client.KeepAlive(ctx, s.lease)
	if err != nil {
		return err
	}
	if err := s.write(ctx, s.takeChanged(true)); err != nil {
		return err
	}
	revision, err := s.read(ctx)
	if err != nil {
		return err
	}
	s.shared = true
	s.tell(s.room())
	return s.follow(ctx, alive, revision)
}

// room says that some records of others had no room; empty: all had.
func (s *session) room() string {
	if !s.left {
		return ""
	}
	return fmt.Sprintf("other control planes share more than %d records or %d MiB, or records of more than %d bytes: the rest is not read",
		MostRecords, mostBytes>>20, mostValue)
}

// follow follows changes here and elsewhere.
func (s *session) follow(ctx context.Context, alive <-chan *clientv3.LeaseKeepAliveResponse, revision int64) error {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	others := s.client.Watch(ctx, s.o.Shared(), clientv3.WithPrefix(), clientv3.WithRev(revision+1))
	missing := time.NewTicker(time.Second)
	defer missing.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case _, ok := <-alive:
			if !ok {
				return errLease
			}
		case <-s.some:
			if err := s.write(ctx, s.takeChanged(false)); err != nil {
				return err
			}
		case answer, ok := <-others:
			if err := answer.Err(); err != nil {
				return err
			}
			if !ok {
				return errors.New("the connection ended")
			}
			s.take(answer.Events)
		case now := <-missing.C:
			s.giveUp(now)
		}
	}
}

// write has etcd take own records.
func (s *session) write(ctx context.Context, all []write) error {
	for len(all) > 0 {
		part := all[:min(len(all), opsOfTxn)]
		var ops []clientv3.Op
		for _, w := range part {
			if w.value == nil {
				ops = append(ops, clientv3.OpDelete(s.at+w.name))
			} else {
				ops = append(ops, clientv3.OpPut(s.at+w.name, string(w.value), clientv3.WithLease(s.lease)))
			}
		}
		short, end := context.WithTimeout(ctx, store.Within)
		_, err := s.client.Txn(short).Then(ops...).Commit()
		end()
		if err != nil {
			s.giveBack(all)
			return err
		}
		all = all[len(part):]
	}
	return nil
}

// read reads the records of others, and returns the revision of the read. Missing records are removed later.
func (s *session) read(ctx context.Context) (int64, error) {
	pages := store.Pages{Client: s.client, Root: s.o.Shared()}
	there := map[ID]bool{}
	var out []Change
	s.left = false
	for !pages.Done() && !s.left {
		kvs, err := pages.Next(ctx)
		if err != nil {
			return 0, err
		}
		for _, kv := range kvs {
			id, ok := s.idOf(kv)
			if !ok {
				continue
			}
			there[id] = true
			if before := s.others[id]; before != nil && before.revision == kv.ModRevision {
				before.goes = time.Time{}
			} else if c, ok := s.keep(id, kv.Value, kv.ModRevision); ok {
				out = append(out, c)
			} else {
				s.left = true
			}
		}
	}
	goes := time.Now().Add(s.lasts)
	for id, k := range s.others {
		if !there[id] && k.goes.IsZero() {
			k.goes = goes
		}
	}
	s.o.Change(out)
	return pages.Revision, nil
}

// take takes changes of others' records.
func (s *session) take(events []*clientv3.Event) {
	var out []Change
	left := s.left
	for _, e := range events {
		id, ok := s.idOf(e.Kv)
		switch {
		case !ok:
		case e.Type == mvccpb.DELETE:
			if s.others[id] != nil {
				out = append(out, s.drop(id))
			}
		default:
			if c, ok := s.keep(id, slices.Clone(e.Kv.Value), e.Kv.ModRevision); ok {
				out = append(out, c)
			} else {
				s.left = true
			}
		}
	}
	if len(out) > 0 {
		s.o.Change(out)
	}
	if s.left != left {
		s.tell(s.room())
	}
}

// idOf names the record of a key; false: it is an own one, or no record.
func (s *session) idOf(kv *mvccpb.KeyValue) (ID, bool) {
	rest, ok := strings.CutPrefix(string(kv.Key), s.o.Shared())
	if !ok || !printable.Is(rest, mostName) {
		return ID{}, false
	}
	writer, name, ok := strings.Cut(rest, "/")
	return ID{writer, name}, ok && writer != "" && name != "" && writer != s.o.Writer
}
