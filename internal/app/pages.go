package app

import (
	"context"
	"slices"
	"strings"
	"time"

	"fairway"
	"fairway/internal/admin"
	"fairway/internal/admin/scrape"
	"fairway/internal/app/secure"
	"fairway/internal/identity/authn"
	"fairway/internal/identity/ca"
	"fairway/internal/mesh"
	"fairway/internal/snapshot"
	"fairway/internal/table"
	"fairway/internal/xds"
)

// counted returns the sources of the metrics.
func counted(in incoming, out outgoing) scrape.State {
	return scrape.State{
		Problems: out.standing.Counts, Refusing: out.server.Refusing, Versions: in.proxies.Versions, Sources: in.shards.Phases,
		Updates: out.standing.Updates, Stale: out.standing.Staleness, LeftOut: out.standing.LeftOut,
		Clusters: in.others.Count, Phases: in.others.Phases, Registries: in.registered.Stats, Reduced: in.proxies.Reduced,
		Waiting: in.door.Waits, Questions: out.questions.Waiting, Graph: in.graph,
	}
}

// pages returns the sources of the debug pages.
func (d *Discovery) pages() *admin.Pages {
	opts := d.setup.opts
	out := &admin.Pages{
		Graph:     d.graph,
		Streams:   d.server,
		Questions: d.questions,
		Compare:   func(ctx context.Context, of []uint64) { d.auditor.Compare(ctx, d.questions.Between, of) },
		Metrics:   d.setup.metrics,
		Ready:     d.Ready,
		Behind:    d.Behind,
		Problems:  d.Problems,
		Applies:   d.Applies,
		Live:      d.live.Live,
		Plan:      d.plans.Plan,
		Snapshot:  d.Snapshot,
		Lines:     d.setup.lines.Text,
		Levels:    opts.Levels,
		History:   d.history.Turns,
		Sources:   func() any { return d.shards.Standings() },
		Origin:    d.shards.OriginOf,
		Clusters:  func() any { return d.others.Standings() },
		Proxy:     d.proxies.Find,
		Shown:     d.proxies.Certificates,
		Keys:      func() any { return d.keys.States() },
		Version:   fairway.Version,
		Access: admin.Access{
			System: opts.Namespace, Names: secure.CalledNames(opts.Namespace, opts.Revision, opts.Identity.Names), Profiles: opts.Profiles,
			Secure: d.HTTPSAddr(), Log: opts.Log,
		},
	}
	if d.cluster != nil {
		out.Writes = func() any { return d.cluster.View() }
	}
	if d.setup.secure != nil {
		out.Access.Prove = d.setup.secure.Prove
		if authority := d.Authority(); authority != nil {
			out.Authority = func() any { return authority.Status() }
		}
	}
	return out
}

// Snapshot returns the control plane's input. It lists all rows, while sources and turns wait.
func (d *Discovery) Snapshot() *snapshot.Snapshot {
	return snapshot.Take(snapshot.Head{
		Program: fairway.Version, Turn: d.clock.Last().Version, Taken: time.Now().UTC(), Options: d.setup.tables(), Waiting: d.door.Waits(),
	}, d.shards, d.graph)
}

// GRPCAddr returns the address of xDS in plaintext; empty: none.
func (d *Discovery) GRPCAddr() string { return d.sockets.GRPCAddr() }

// HTTPAddr returns the address of readiness and debug pages; empty: none.
func (d *Discovery) HTTPAddr() string { return d.sockets.HTTPAddr() }

// HTTPSAddr returns the address of pages with TLS; empty: none.
func (d *Discovery) HTTPSAddr() string { return d.sockets.HTTPSAddr() }

// SecureAddr returns the address of xDS and certificates with TLS; empty: none.
func (d *Discovery) SecureAddr() string { return d.setup.secure.Addr() }

// Authority returns the certificate authority; nil: there is none. Tests drive its rotations.
func (d *Discovery) Authority() *ca.CA { return d.setup.secure.Authority() }

// JoinTokens makes and revokes the tokens that machines join with; nil: no folder keeps them.
func (d *Discovery) JoinTokens() *authn.JoinTokens { return d.setup.secure.JoinTokens() }

// Streams returns the protocol server, for tests that check the resources of proxies.
func (d *Discovery) Streams() *xds.Server { return d.server }

// Synced returns a channel that is closed once every source has been read and the first complete configuration is published.
func (d *Discovery) Synced() <-chan struct{} { return d.clock.Synced() }

// Ready returns why proxies are not served yet, or get no certificates; nil once they are and do.
func (d *Discovery) Ready() error {
	if err := d.clock.Ready(); err != nil {
		return err
	}
	return d.setup.secure.Ready()
}

// LastTurn describes the last turn that had something to do.
func (d *Discovery) LastTurn() table.Turn { return d.clock.Last() }

// AfterTurn waits until a later turn than the given one is in force, whether or not it changed anything for proxies.
func (d *Discovery) AfterTurn(ctx context.Context, turn uint64) error {
	return d.clock.After(ctx, turn)
}

// Problems lists the mistakes in users' objects, the worst first, then in order of object and line.
func (d *Discovery) Problems() []mesh.Problem { return d.standing.Problems() }

// Rows prints the rows of a table, as /debug/tablez does.
func (d *Discovery) Rows(name string) (string, error) {
	var b strings.Builder
	var err error
	d.graph.Store.Read(func(tx *table.Tx) { err = d.graph.Store.Print(&b, tx, name, "") })
	return b.String(), err
}

// Behind lists, in a line each, the sources that are not kept up to date for now.
func (d *Discovery) Behind() []string { return d.standing.Behind() }

// Settled waits until all that sources had handed over when it was called is in force: turned, published, sent, and
// acknowledged by every connected proxy. A policy is once the keys that it needs have been asked for.
func (d *Discovery) Settled(ctx context.Context) error {
	turn, err := d.loop.Settle(ctx, d.library.Turn)
	if err != nil {
		return err
	}
	return d.server.Wait(ctx, turn)
}

// Connected waits until the proxy with this node id has a stream that has asked for that many types and has all of it acknowledged.
func (d *Discovery) Connected(ctx context.Context, node string, types int) error {
	return d.server.WaitUntil(ctx, func(streams []xds.ProxyStatus) bool {
		return slices.ContainsFunc(streams, func(s xds.ProxyStatus) bool {
			return mesh.ProxyID(s.Proxy).Node() == node && len(s.Types) >= types && s.Synced
		})
	})
}
