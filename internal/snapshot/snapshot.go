package snapshot

import (
	"iter"
	"slices"
	"time"

	"fairway/internal/compile"
	"fairway/internal/compile/input"
	"fairway/internal/compile/secret"
	"fairway/internal/config"
	"fairway/internal/jwks"
	"fairway/internal/mesh"
	"fairway/internal/source/shards"
	"fairway/internal/table"
)

// Snapshot is the input of a control plane. It is immutable.
type Snapshot struct {
	Head    Head
	Sources []shards.Said // in order of precedence
	Outside Outside
}

// Head describes a snapshot.
type Head struct {
	Format  int
	Program string    // the version of the control plane
	Turn    uint64    // the last one at that time
	Taken   time.Time // when
	Options Options
	Waiting int `json:",omitempty"` // changes that waited at the door; a snapshot has them in force
}

// Options are the options of a control plane that its tables depend on.
type Options struct {
	DomainSuffix, RootNamespace, Cluster string
	Keys                                 input.Keys
	Resolves, ScopeGateways              bool
	DeployGateways                       bool `json:",omitempty"`
	Variants                             int
}

// Graph returns the options as the tables take them.
func (o Options) Graph() compile.Options {
	return compile.Options{
		DomainSuffix: o.DomainSuffix, RootNamespace: o.RootNamespace, Cluster: o.Cluster, Keys: o.Keys,
		Resolves: o.Resolves, ScopeGateways: o.ScopeGateways, DeployGateways: o.DeployGateways, Variants: o.Variants,
	}
}

// Row is a row of an input.
type Row[K, V any] struct {
	Key   K
	Value V
}

// Outside is the knowledge of a control plane that does not come from its sources.
type Outside struct {
	Proxies      []Row[mesh.ProxyID, mesh.Proxy]
	Health       []Row[mesh.ProxyID, mesh.HealthReport] `json:",omitempty"`
	HealthReady  bool
	SourcesRead  bool                                 `json:",omitempty"`
	HealthStored []Row[config.Key, bool]              `json:",omitempty"`
	Members      []Row[mesh.ProxyID, input.Member]    `json:",omitempty"`
	Roots        []Row[mesh.ResourceKey, []byte]      `json:",omitempty"` // certificates of authorities
	KeySets      []Row[jwks.Source, jwks.Answer]      `json:",omitempty"` // public keys
	Resolved     []Row[mesh.Host, input.Resolved]     `json:",omitempty"`
	Rejections   []Row[input.Rejected, input.Refusal] `json:",omitempty"`
	Unreadable   []Row[input.File, string]            `json:",omitempty"`
	Enforced     []*config.Object                     `json:"-"`
	// OnDemand says that Secrets are read once something names them. SecretsRead are those that have been looked for.
	OnDemand    bool         `json:",omitempty"`
	SecretsRead []secret.Key `json:",omitempty"`
}

// Take reads a snapshot. Any goroutine may call it. Sources wait while some rows are listed, and turns while those of one input are, but
// neither for all of it. So inputs may be of different turns, and the snapshot also has rows that no turn has taken in yet.
func Take(head Head, from *shards.Set, g *compile.Graph) *Snapshot {
	head.Format = format
	in := g.In
	out := &Snapshot{Head: head, Sources: from.All(), Outside: Outside{
		Proxies: rows(g, in.Proxies), Health: rows(g, in.Health), HealthReady: len(rows(g, in.HealthReady)) > 0,
		SourcesRead:  len(rows(g, in.SourcesRead)) > 0,
		HealthStored: rows(g, in.HealthStored), Members: rows(g, in.Members), KeySets: rows(g, in.KeySets), Resolved: rows(g, in.Resolved),
		Rejections: rows(g, in.Rejections), Unreadable: rows(g, in.Unreadable), OnDemand: len(rows(g, g.Secrets.OnDemand)) > 0,
	}}
	o := &out.Outside
	for _, r := range rows(g, in.Bundles) {
		o.Roots = append(o.Roots, Row[mesh.ResourceKey, []byte]{r.Key, r.Value.Body})
	}
	for _, r := range rows(g, g.Secrets.Read) {
		o.SecretsRead = append(o.SecretsRead, r.Key)
	}
	for _, r := range rows(g, in.Enforced) {
		o.Enforced = append(o.Enforced, r.Value)
	}
	return out
}

// rows returns the rows of an input, in order.
func rows[K comparable, V any](g *compile.Graph, of *table.Input[K, V]) (out []Row[K, V]) {
	var all iter.Seq2[K, V]
	g.Store.Read(func(tx *table.Tx) { all = table.Snapshot(tx, of.Table, nil) })
	for k, v := range all {
		out = append(out, Row[K, V]{k, v})
	}
	return out
}

// Merge returns a snapshot of several control planes that read the same sources: the first one's, with what only the others know of their
// own proxies.
func Merge(all ...*Snapshot) *Snapshot {
	out := *all[0]
	for _, s := range all[1:] {
		o := &out.Outside
		o.Proxies = merged(o.Proxies, s.Outside.Proxies)
		o.Health = merged(o.Health, s.Outside.Health)
		o.HealthStored = merged(o.HealthStored, s.Outside.HealthStored)
		o.Members = merged(o.Members, s.Outside.Members)
		o.KeySets = merged(o.KeySets, s.Outside.KeySets)
		o.Resolved = merged(o.Resolved, s.Outside.Resolved)
		o.Rejections = merged(o.Rejections, s.Outside.Rejections)
		o.Unreadable = merged(o.Unreadable, s.Outside.Unreadable)
	}
	return &out
}

// merged adds the rows of more with new keys.
func merged[K comparable, V any](rows, more []Row[K, V]) []Row[K, V] {
	has := make(map[K]bool, len(rows))
	for _, r := range rows {
		has[r.Key] = true
	}
	out := slices.Clip(rows)
	for _, r := range more {
		if !has[r.Key] {
			out = append(out, r)
		}
	}
	return out
}
