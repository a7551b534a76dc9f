package plan

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"slices"
	"strings"

	"fairway/internal/config"
	"fairway/internal/jwks"
	"fairway/internal/mesh"
	"fairway/internal/snapshot"
	"fairway/internal/table"
	"fairway/internal/trial"
	"fairway/internal/xdstype"
)

// Plan is what a change would do. Its JSON form is that of pilotctl plan -o json (docs/truth.md).
type Plan struct {
	Connected int `json:"connected"` // proxies
	Proxies   int `json:"proxies"`   // that would be sent something, or lose something
	// Bytes are the bytes of all new resources, once for each proxy.
	Bytes     int        `json:"bytes"`
	Types     []Count    `json:"types"`
	Dangers   []Sentence `json:"dangers"`
	Changes   []Sentence `json:"changes"` // of requests and policies
	Resources []Resource `json:"resources"`
	// Asks are things that the change needs and the snapshot does not have: the plan shows the state without them.
	Asks    []string  `json:"asks"`
	Added   []Problem `json:"problemsAdded"`
	Removed []Problem `json:"problemsRemoved"`
}

// Count counts the resources of a type that would differ, each once for all proxies that see it alike.
type Count struct {
	Type    string `json:"type"` // such as Cluster
	Added   int    `json:"added"`
	Changed int    `json:"changed"`
	Removed int    `json:"removed"`
}

// Sentence is a statement about some proxies.
type Sentence struct {
	Text    string   `json:"text"`
	Proxies int      `json:"proxies"`
	Some    []string `json:"some"` // the first of them
}

// Resource is a resource that would differ for some proxies.
type Resource struct {
	Type    string   `json:"type"`
	Name    string   `json:"name"`
	Change  string   `json:"change"` // added, changed or removed
	Proxies int      `json:"proxies"`
	Some    []string `json:"some"`
	// Fields are the fields that differ, at most MostFields; none of a Secret, and of resources that come or go.
	Fields []Field `json:"fields,omitempty"`
}

// Problem is a problem of an object.
type Problem struct {
	Severity mesh.Severity `json:"severity"`
	Code     string        `json:"code"`
	Text     string        `json:"text"`
}

// Empty reports whether the change would do nothing.
func (p *Plan) Empty() bool {
	return p.Proxies == 0 && len(p.Dangers)+len(p.Resources)+len(p.Added)+len(p.Removed) == 0
}

// someProxies is how many proxies are named.
const someProxies = 5

// Bounds of a change: those of a folder of rules, which a running control plane would not try.
const (
	mostObjects = 20_000
	mostBytes   = 256 << 20
	mostRows    = 20_000_000
)

// Planner plans changes on top of a snapshot. One goroutine at a time may use it.
type Planner struct {
	world  *snapshot.World
	trials *trial.Trials
}

// New builds the tables of a snapshot, which takes as long as a control plane needs to start.
func New(s *snapshot.Snapshot, d *config.Decoder) (*Planner, error) {
	w, err := snapshot.Load(s)
	if err != nil {
		return nil, err
	}
	return &Planner{w, trial.New(trial.Options{
		Decoder: d, Shards: w.Shards, Budgets: w.Budgets, Door: w.Door, Graph: w.Graph,
		Limits: trial.Limits{Objects: mostObjects, Bytes: mostBytes, Rows: mostRows},
	})}, nil
}

// Plan returns what a change would do. It fails if the change is too large, names an object twice or a source that does not exist, or when
// ctx ends.
func (p *Planner) Plan(ctx context.Context, c trial.Changes) (*Plan, error) {
	var out *Plan
	err := p.Look(ctx, c, func(_ table.Turn, tx *table.Tx) { out = p.describe(tx) })
	return out, err
}

// Look calls look with the tables as the change would make them (trial.Trials.Try).
func (p *Planner) Look(ctx context.Context, c trial.Changes, look func(table.Turn, *table.Tx)) error {
	decoded, err := p.trials.Decode(ctx, c)
	if err != nil {
		return err
	}
	unanswered := false
	err = p.trials.Try(decoded, func(t table.Turn, tx *table.Tx) {
		if unanswered = p.answer(tx); !unanswered {
			look(t, tx)
		}
	})
	if err != nil || !unanswered {
		return err
	}
	p.world.Settle()
	return p.trials.Try(decoded, look)
}

// notAsked is why there are no keys of an issuer that only the change names.
const notAsked = "a plan asks no issuer"

// answer stages a failed answer for each issuer that only the change names, and reports whether there is one. The plan then shows the
// issuers' policies without keys. Without an answer it would not show these policies at all.
func (p *Planner) answer(tx *table.Tx) (staged bool) {
	g := p.world.Graph
	for k := range table.Each(tx, g.WantedKeys) {
		if _, has := table.Lookup(tx, g.In.KeySets.Table, k); !has {
			g.In.KeySets.Set(k, jwks.Answer{Failing: notAsked})
			staged = true
		}
	}
	return staged
}

// asks lists what would be asked for outside.
func (p *Planner) asks(tx *table.Tx) []string {
	g, out := p.world.Graph, []string{}
	for k := range table.Each(tx, g.WantedKeys) {
		if a, _ := table.Lookup(tx, g.In.KeySets.Table, k); a.Failing == notAsked {
			out = append(out, "the keys of "+k.String())
		}
	}
	for c := range table.Changes(g.WantedSecrets) {
		if _, has := table.Lookup(tx, g.In.Secrets, c.Key.Object()); c.Has && !has {
			out = append(out, c.Key.Object().String())
		}
	}
	slices.Sort(out)
	return out
}

// World returns the tables, for callers that look at a change themselves.
func (p *Planner) World() *snapshot.World { return p.world }

// describe describes the last turn.
func (p *Planner) describe(tx *table.Tx) *Plan {
	g := p.world.Graph
	said := newSentences(tx, g)
	out := said.plan(trial.Differences(g, tx), table.Len(tx, g.Out.Attachments))
	out.Asks = p.asks(tx)
	added, removed := g.ProblemChanges(tx)
	out.Added, out.Removed = problems(added), problems(removed)
	said.refused(g)
	out.Dangers, out.Changes = said.list(true), said.list(false)
	return out
}

// plan groups the differences of the connected proxies, and says what there is to say about each group.
func (s *sentences) plan(all iter.Seq2[mesh.ProxyID, iter.Seq[trial.Difference]], connected int) *Plan {
	out := &Plan{Connected: connected, Added: []Problem{}, Removed: []Problem{}, Resources: []Resource{}, Asks: []string{}}
	groups := map[groupKey]*group{}
	for id, differences := range all {
		some := false
		for d := range differences {
			some = true
			k := groupKey{d.Type, d.Name, version(d.Old), version(d.New)}
			if groups[k] == nil {
				groups[k] = &group{Difference: d, proxies: map[mesh.ProxyID]struct{}{}}
			}
			groups[k].proxies[id] = struct{}{}
			if d.New != nil {
				out.Bytes += len(d.New.Body)
			}
		}
		if some {
			out.Proxies++
		}
	}
	sorted := slices.SortedFunc(maps.Values(groups), compareGroups)
	for _, one := range sorted {
		out.Resources = append(out.Resources, one.resource())
		s.about(one)
	}
	out.Types = count(sorted)
	return out
}

// groupKey names a difference that proxies have alike.
type groupKey struct {
	typ      xdstype.Type
	name     string
	old, now uint64
}

// group is a difference, and the proxies that have it.
type group struct {
	trial.Difference
	proxies map[mesh.ProxyID]struct{}
}

func compareGroups(a, b *group) int {
	return cmp.Or(cmp.Compare(a.Type, b.Type), strings.Compare(a.Name, b.Name), cmp.Compare(version(a.Old), version(b.Old)),
		cmp.Compare(version(a.New), version(b.New)))
}

// change says how the resource changes.
func (g *group) change() string {
	switch {
	case absent(g.Old):
		return "added"
	case absent(g.New):
		return "removed"
	}
	return "changed"
}

func (g *group) resource() Resource {
	out := Resource{Type: g.Type.String(), Name: g.Name, Change: g.change(), Proxies: len(g.proxies), Some: first(g.proxies)}
	if out.Change == "changed" && g.Type != xdstype.Secrets {
		out.Fields = fields(message(g.Type, g.Old), message(g.Type, g.New))
	}
	return out
}

// first names the first proxies.
func first(proxies map[mesh.ProxyID]struct{}) (out []string) {
	for _, id := range slices.Sorted(maps.Keys(proxies)) {
		if len(out) == someProxies {
			break
		}
		out = append(out, string(id))
	}
	return out
}

func count(all []*group) []Count {
	out := []Count{}
	for _, g := range all {
		if n := len(out); n == 0 || out[n-1].Type != g.Type.String() {
			out = append(out, Count{Type: g.Type.String()})
		}
		c := &out[len(out)-1]
		switch g.change() {
		case "added":
			c.Added++
		case "removed":
			c.Removed++
		default:
			c.Changed++
		}
	}
	return out
}

func problems(list []mesh.Problem) []Problem {
	out := []Problem{}
	for _, p := range list {
		out = append(out, Problem{p.Severity, p.Code, p.String()})
	}
	return out
}
