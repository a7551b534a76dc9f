// Package statetest is a store of shared state in memory, for tests. Clients of it can be cut off.
//
// It must not know the content of records.
package statetest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"fairway/internal/state"
)

// Memory is what all its clients share.
type Memory struct {
	mu       sync.Mutex
	records  map[string]state.Record
	revision uint64
	changed  chan struct{}
	lease    uint64 // revision of the lease in force; 0: none
	until    time.Time
	calls    int
}

// New returns an empty store.
func New() *Memory {
	return &Memory{records: map[string]state.Record{}, changed: make(chan struct{})}
}

// Empty loses all records.
func (m *Memory) Empty() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.records = map[string]state.Record{}
	m.tell()
}

// Names returns the names of the records with a prefix, in order.
func (m *Memory) Names(prefix string) (out []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name := range m.records {
		if strings.HasPrefix(name, prefix) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// Calls returns how many reads and writes there were.
func (m *Memory) Calls() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.calls
}

// tell wakes all watches; callers hold mu.
func (m *Memory) tell() {
	close(m.changed)
	m.changed = make(chan struct{})
}

// Client is one control plane's way to the store.
type Client struct {
	memory *Memory

	mu  sync.Mutex
	cut chan struct{} // closed while it is cut off
}

var _ state.Store = (*Client)(nil)

// Client returns a new way to the store.
func (m *Memory) Client() *Client { return &Client{memory: m, cut: make(chan struct{})} }

// Cut has all calls fail, until Mend.
func (c *Client) Cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.cut)
}

// Mend has calls work again.
func (c *Client) Mend() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut = make(chan struct{})
}

var errCut = errors.New("the test has cut the way to the store")

// whole locks the store for a call; an error: the client is cut off.
func (c *Client) whole() (cut chan struct{}, err error) {
	c.mu.Lock()
	cut = c.cut
	c.mu.Unlock()
	select {
	case <-cut:
		return cut, errCut
	default:
	}
	c.memory.mu.Lock()
	c.memory.calls++
	return cut, nil
}

// String implements state.Store.
func (c *Client) String() string { return "memory" }

// Close implements state.Store.
func (c *Client) Close() {}

// Get implements state.Store.
func (c *Client) Get(_ context.Context, name string) (state.Record, error) {
	if _, err := c.whole(); err != nil {
		return state.Record{}, err
	}
	defer c.memory.mu.Unlock()
	if r, ok := c.memory.records[name]; ok {
		return r, nil
	}
	return state.Record{Name: name}, nil
}

// List implements state.Store.
func (c *Client) List(_ context.Context, prefix string) (out []state.Record, err error) {
	if _, err := c.whole(); err != nil {
		return nil, err
	}
	defer c.memory.mu.Unlock()
	for name, r := range c.memory.records {
		if strings.HasPrefix(name, prefix) {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b state.Record) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// Put implements state.Store.
func (c *Client) Put(_ context.Context, w state.Write) error {
	if _, err := c.whole(); err != nil {
		return err
	}
	m := c.memory
	defer m.mu.Unlock()
	if w.Fence != (state.Fence{}) && (w.Fence.Revision != m.lease || !time.Now().Before(m.until)) {
		return state.ErrFenced
	}
	if m.records[w.Name].Revision != w.Revision {
		return state.ErrConflict
	}
	m.revision++
	if w.Value == nil {
		delete(m.records, w.Name)
	} else {
		m.records[w.Name] = state.Record{Name: w.Name, Value: slices.Clone(w.Value), Revision: m.revision}
	}
	m.tell()
	return nil
}

// Watch implements state.Store. It calls changed after each change of the store.
func (c *Client) Watch(ctx context.Context, _ string, changed func()) error {
	for {
		cut, err := c.whole()
		if err != nil {
			return err
		}
		next := c.memory.changed
		c.memory.mu.Unlock()
		changed()
		select {
		case <-next:
		case <-cut:
			return errCut
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Acquire implements state.Store.
func (c *Client) Acquire(_ context.Context, _ string, lasts time.Duration) (state.Lease, error) {
	if _, err := c.whole(); err != nil {
		return nil, err
	}
	m := c.memory
	defer m.mu.Unlock()
	if m.lease != 0 && time.Now().Before(m.until) {
		return nil, state.ErrHeld
	}
	m.revision++
	m.lease, m.until = m.revision, time.Now().Add(lasts)
	return &lease{c, m.lease, lasts}, nil
}

type lease struct {
	client *Client
	of     uint64
	lasts  time.Duration
}

// Fence implements state.Lease.
func (l *lease) Fence() state.Fence { return state.Fence{Revision: l.of} }

// Renew implements state.Lease.
func (l *lease) Renew(context.Context) error {
	if _, err := l.client.whole(); err != nil {
		return err
	}
	m := l.client.memory
	defer m.mu.Unlock()
	if m.lease != l.of || !time.Now().Before(m.until) {
		return state.ErrFenced
	}
	m.until = time.Now().Add(l.lasts)
	return nil
}

// Release implements state.Lease.
func (l *lease) Release(context.Context) error {
	if _, err := l.client.whole(); err != nil {
		return err
	}
	m := l.client.memory
	defer m.mu.Unlock()
	if m.lease == l.of {
		m.lease = 0
	}
	return nil
}
