// Package consul keeps shared state in Consul: a key for each record, a transaction for each change, and a session with a lock for the
// control plane that writes.
//
// It must not know the content of records.
package consul

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/hashicorp/consul/api"

	"fairway/internal/printable"
	"fairway/internal/servers"
	"fairway/internal/state"
)

// Store is state below a prefix of keys.
type Store struct {
	clients []*api.Client // one for each server that is named
	http    *http.Client
	reach   servers.Reach
	secrets *printable.Secrets
	prefix  string // ends with a slash, begins with none
}

// writer is the key of the lease, below the prefix.
const writer = "writer"

// waits is how long Consul keeps a question for changes open.
const waits = 30 * time.Second

// Open returns the state below a prefix, as fairway/default/.state. It makes no call.
func Open(reach servers.Reach, prefix string) (*Store, error) {
	if err := reach.Validate(); err != nil {
		return nil, err
	}
	s := &Store{reach: reach, secrets: &printable.Secrets{}, prefix: strings.Trim(prefix, "/") + "/"}
	s.http = reach.Client(servers.Calls{
		Header: waits + 10*time.Second, Secrets: s.secrets,
		Token: func(h http.Header, token string) { h.Set("X-Consul-Token", token) },
	})
	for _, at := range reach.URLs {
		c, err := api.NewClient(&api.Config{Address: strings.TrimSuffix(at, "/"), HttpClient: s.http})
		if err != nil {
			return nil, err
		}
		s.clients = append(s.clients, c)
	}
	return s, nil
}

// String implements state.Store.
func (s *Store) String() string {
	return "Consul at " + printable.Text(strings.Join(s.reach.URLs, ", "), printable.Long)
}

// Close implements state.Store.
func (s *Store) Close() { servers.Close(s.http) }

// each asks the servers in order until one answers.
func (s *Store) each(ctx context.Context, ask func(*api.Client) error) error {
	var errs []error
	for i, c := range s.clients {
		err := ask(c)
		if err == nil {
			return nil
		}
		errs = append(errs, s.explain(err, s.reach.URLs[i]))
		if _, answered := errors.AsType[api.StatusError](err); answered || ctx.Err() != nil {
			break
		}
	}
	return errors.Join(errs...)
}

func (s *Store) explain(err error, at string) error {
	err = s.secrets.Error(err)
	if code, is := errors.AsType[api.StatusError](err); is && code.Code == http.StatusForbidden {
		return fmt.Errorf("consul at %s: its token may not do that: it wants key_prefix %q and session write: %s", at, s.prefix,
			printable.Text(code.Body, printable.Short))
	}
	return fmt.Errorf("consul at %s: %w", at, err)
}

func query(ctx context.Context) *api.QueryOptions {
	return (&api.QueryOptions{RequireConsistent: true}).WithContext(ctx)
}

// Get implements state.Store.
func (s *Store) Get(ctx context.Context, name string) (state.Record, error) {
	out := state.Record{Name: name}
	err := s.each(ctx, func(c *api.Client) error {
		pair, _, err := c.KV().Get(s.prefix+name, query(ctx))
		if err == nil && pair != nil {
			out.Value, out.Revision = pair.Value, pair.ModifyIndex
		}
		return err
	})
	return out, err
}

// List implements state.Store.
func (s *Store) List(ctx context.Context, prefix string) ([]state.Record, error) {
	var out []state.Record
	err := s.each(ctx, func(c *api.Client) error {
		pairs, _, err := c.KV().List(s.prefix+prefix, query(ctx))
		if err == nil && len(pairs) > state.MostRecords {
			err = fmt.Errorf("more than %d keys below %s", state.MostRecords, s.prefix+prefix)
		}
		if err != nil {
			return err
		}
		for _, p := range pairs {
			if name := strings.TrimPrefix(p.Key, s.prefix); name != writer {
				out = append(out, state.Record{Name: name, Value: p.Value, Revision: p.ModifyIndex})
			}
		}
		return nil
	})
	return out, err
}

// Put implements state.Store.
func (s *Store) Put(ctx context.Context, w state.Write) error {
	if len(w.Value) > state.MostValue {
		return fmt.Errorf("%s: %s has %d bytes of at most %d", s, w.Name, len(w.Value), state.MostValue)
	}
	var ops api.TxnOps
	if w.Fence != (state.Fence{}) {
		ops = append(ops, &api.TxnOp{KV: &api.KVTxnOp{Verb: api.KVCheckSession, Key: s.prefix + writer, Session: w.Fence.Session}})
	}
	do := &api.KVTxnOp{Verb: api.KVCAS, Key: s.prefix + w.Name, Value: w.Value, Index: w.Revision}
	if w.Value == nil {
		do.Verb = api.KVDeleteCAS
	}
	ops = append(ops, &api.TxnOp{KV: do})
	var result error
	err := s.each(ctx, func(c *api.Client) error {
		ok, answer, _, err := c.Txn().Txn(ops, query(ctx))
		if err != nil || ok {
			return err
		}
		result = state.ErrConflict
		for _, e := range answer.Errors {
			if w.Fence != (state.Fence{}) && e.OpIndex == 0 {
				result = state.ErrFenced
			} else if strings.Contains(e.What, "ermission") {
				return fmt.Errorf("its token may not write below %s: %s", s.prefix, printable.Text(e.What, printable.Short))
			}
		}
		return nil
	})
	return errors.Join(err, result)
}

// Watch implements state.Store.
func (s *Store) Watch(ctx context.Context, prefix string, changed func()) error {
	var last uint64
	for {
		var index uint64
		err := s.each(ctx, func(c *api.Client) error {
			q := (&api.QueryOptions{RequireConsistent: true, WaitIndex: last, WaitTime: waits}).WithContext(ctx)
			_, meta, err := c.KV().Keys(s.prefix+prefix, "", q)
			if err == nil {
				index = meta.LastIndex
			}
			return err
		})
		if err != nil {
			return err
		}
		if index != last {
			changed()
		}
		if last = index; index < 1 {
			last = 1
		}
	}
}

// Acquire implements state.Store.
func (s *Store) Acquire(ctx context.Context, holder string, lasts time.Duration) (state.Lease, error) {
	var out *lease
	err := s.each(ctx, func(c *api.Client) error {
		held, _, err := c.KV().Get(s.prefix+writer, query(ctx))
		if err != nil {
			return err
		}
		if held != nil && held.Session != "" {
			return nil
		}
		write := (&api.WriteOptions{}).WithContext(ctx)
		session, _, err := c.Session().CreateNoChecks(&api.SessionEntry{
			Name: "fairway writer", TTL: lasts.String(), Behavior: api.SessionBehaviorDelete, LockDelay: time.Millisecond,
		}, write)
		if err != nil {
			return err
		}
		took, _, err := c.KV().Acquire(&api.KVPair{Key: s.prefix + writer, Value: []byte(holder), Session: session}, write)
		if err != nil || !took {
			_, _ = c.Session().Destroy(session, write) // else it ends by itself
			return err
		}
		out = &lease{s, session}
		return nil
	})
	if err == nil && out == nil {
		err = state.ErrHeld
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

type lease struct {
	store   *Store
	session string
}

// Fence implements state.Lease.
func (l *lease) Fence() state.Fence { return state.Fence{Session: l.session} }

// Renew implements state.Lease.
func (l *lease) Renew(ctx context.Context) error {
	var gone bool
	err := l.store.each(ctx, func(c *api.Client) error {
		entry, _, err := c.Session().Renew(l.session, (&api.WriteOptions{}).WithContext(ctx))
		gone = err == nil && entry == nil
		return err
	})
	if gone {
		return state.ErrFenced
	}
	return err
}

// Release implements state.Lease.
func (l *lease) Release(ctx context.Context) error {
	return l.store.each(ctx, func(c *api.Client) error {
		_, err := c.Session().Destroy(l.session, (&api.WriteOptions{}).WithContext(ctx))
		return err
	})
}
