package snapshot

import (
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
	Variants                             int
}

// Graph returns the options as the tables take them.
func (o Options) Graph() compile.Options {
	return compile.Options{
		DomainSuffix: o.DomainSuffix, RootNamespace: o.RootNamespace, Cluster: o.Cluster, Keys: o.Keys,
		Resolves: o.Resolves, ScopeGateways: o.ScopeGateways, Variants: o.Variants,
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

// Take reads a snapshot. Any goroutine may call it. Sources and turns wait while their rows are listed, but not while they are written.
// The snapshot also has rows that no turn has taken in yet.
func Take(head Head, from *shards.Set, g *compile.Graph) *Snapshot {
	head.Format = format
	out := &Snapshot{Head: head, Sources: from.All()}
	in, o := g.In, &out.Outside
	g.Store.Read(func(tx *table.Tx) {
		o.Proxies = rows(tx, in.Proxies.Table)
		o.Health = rows(tx, in.Health.Table)
		o.HealthReady, _ = table.Lookup(tx, in.HealthReady.Table, struct{}{})
		o.HealthStored = rows(tx, in.HealthStored.Table)
		o.Members = rows(tx, in.Members.Table)
		for k, e := range table.All(tx, in.Bundles.Table) {
			o.Roots = append(o.Roots, Row[mesh.ResourceKey, []byte]{k, e.Body})
		}
		o.KeySets = rows(tx, in.KeySets.Table)
		o.Resolved = rows(tx, in.Resolved.Table)
		o.Rejections = rows(tx, in.Rejections.Table)
		o.Unreadable = rows(tx, in.Unreadable.Table)
		o.OnDemand = table.Len(tx, g.Secrets.OnDemand.Table) > 0
		for k := range table.All(tx, g.Secrets.Read.Table) {
			o.SecretsRead = append(o.SecretsRead, k)
		}
		for _, e := range table.All(tx, in.Enforced.Table) {
			o.Enforced = append(o.Enforced, e)
		}
	})
	return out
}

func rows[K comparable, V any](tx *table.Tx, t *table.Table[K, V]) (out []Row[K, V]) {
	for k, v := range table.All(tx, t) {
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
