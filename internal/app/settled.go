package app

import (
	"context"
	"errors"
	"slices"

	"fairway/internal/mesh"
	"fairway/internal/table"
	"fairway/internal/xds"
)

// errNotSynced is why a control plane is not ready: it serves no proxy before it has read everything once.
var errNotSynced = errors.New("sources are still being read")

// Synced is closed once every source has been read and the first complete configuration is published.
func (d *Discovery) Synced() <-chan struct{} { return d.synced }

// Settled waits until all that sources had handed over when it was called is in force: turned, published, sent, and
// acknowledged by every connected proxy. A policy is once the keys that it needs have been asked for.
func (d *Discovery) Settled(ctx context.Context) error {
	for {
		var turn, last uint64
		var pending bool
		err := d.between(ctx, func() {
			d.turn()
			turn, last, pending = d.library.Turn(), d.LastTurn().Version, d.graph.Pending()
		})
		if err != nil {
			return err
		}
		if !pending {
			return d.server.Wait(ctx, turn)
		}
		if err := d.AfterTurn(ctx, last); err != nil {
			return err
		}
	}
}

// between has the loop call f between two turns, and waits for that.
func (d *Discovery) between(ctx context.Context, f func()) error {
	done := make(chan struct{})
	select {
	case d.asked <- func() { defer close(done); f() }:
	case <-ctx.Done():
		return ctx.Err()
	}
	<-done
	return nil
}

// Ready says why proxies are not served yet; nil once they are.
func (d *Discovery) Ready() error {
	select {
	case <-d.synced:
		return nil
	default:
		return errNotSynced
	}
}

// Problems lists what users wrote that does not do what it says, the worst first, then in order of object and line.
func (d *Discovery) Problems() []mesh.Problem { return d.standing.Problems() }

// Behind lists, in a line each, the sources that are not kept up to date for now.
func (d *Discovery) Behind() []string { return d.standing.Behind() }

// Streams is the protocol server, for tests that look at what proxies hold.
func (d *Discovery) Streams() *xds.Server { return d.server }

// AfterTurn waits until a later turn than the given one is in force, whether or not it changed anything for proxies.
func (d *Discovery) AfterTurn(ctx context.Context, turn uint64) error {
	for {
		d.mu.Lock()
		last, next := d.last.Version, d.next
		d.mu.Unlock()
		if last > turn {
			return nil
		}
		select {
		case <-next:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Connected waits until the proxy with this node id has a stream that has asked for that many types and has all of it acknowledged.
func (d *Discovery) Connected(ctx context.Context, node string, types int) error {
	return d.server.WaitUntil(ctx, func(streams []xds.ProxyStatus) bool {
		return slices.ContainsFunc(streams, func(s xds.ProxyStatus) bool {
			return mesh.ProxyID(s.Proxy).Node() == node && len(s.Types) >= types && s.Synced
		})
	})
}

// LastTurn describes the last turn that had something to do.
func (d *Discovery) LastTurn() table.Turn {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.last
}
