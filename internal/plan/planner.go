package plan

import (
	"context"
	"errors"
	"slices"

	"fairway/internal/compile"
	"fairway/internal/config"
	"fairway/internal/envoy"
	"fairway/internal/jwks"
	"fairway/internal/mesh"
	"fairway/internal/snapshot"
	"fairway/internal/table"
	"fairway/internal/trial"
	"fairway/internal/xdstype"
)

// Bounds of a change: those of a folder of rules, which a running control plane would not try.
const (
	mostObjects = 20_000
	mostBytes   = 256 << 20
	mostRows    = 20_000_000
)

// Planner plans changes on top of tables.
type Planner struct {
	graph   *compile.Graph
	trials  *trial.Trials
	between func(context.Context, func()) error
	world   *snapshot.World
}

// New builds the tables of a snapshot, which takes as long as a control plane needs to start. One goroutine at a time may use the planner.
func New(s *snapshot.Snapshot, d *config.Decoder) (*Planner, error) {
	w, err := snapshot.Load(s)
	if err != nil {
		return nil, err
	}
	trials := trial.New(trial.Options{
		Decoder: d, Shards: w.Shards, Budgets: w.Budgets, Door: w.Door, Graph: w.Graph,
		Limits: trial.Limits{Objects: mostObjects, Bytes: mostBytes, Rows: mostRows},
	})
	return &Planner{graph: w.Graph, trials: trials, between: atOnce, world: w}, nil
}

// atOnce calls a function between turns of tables that make no turns.
func atOnce(_ context.Context, f func()) error {
	f()
	return nil
}

// Running returns a planner on top of the tables of a running control plane. between calls a function between two turns, and waits for
// that. Turns wait only for the trial, not until it is put into words. Many goroutines may use the planner.
func Running(g *compile.Graph, t *trial.Trials, between func(context.Context, func()) error) *Planner {
	return &Planner{graph: g, trials: t, between: between}
}

// World returns the tables of a planner that New has made, for callers that look at a change themselves.
func (p *Planner) World() *snapshot.World { return p.world }

// Plan returns what a change would do. It fails if the change is too large, names an object twice or a source that does not exist, or when
// ctx ends.
func (p *Planner) Plan(ctx context.Context, c trial.Changes) (*Plan, error) {
	d, err := p.trials.Decode(ctx, c)
	if err != nil {
		return nil, err
	}
	return p.describe(ctx, d, everything)
}

// Look calls look with the tables as the change would make them (trial.Trials.Try).
func (p *Planner) Look(ctx context.Context, c trial.Changes, look func(table.Turn, *table.Tx)) error {
	d, err := p.trials.Decode(ctx, c)
	if err != nil {
		return err
	}
	return p.try(ctx, d, everything, look)
}

// try makes a trial turn. Issuers of keys that only the change names are not asked. If there are some, there is a second turn, in which
// they have failed to answer: the plan then shows their policies without keys. Without an answer it would not show these policies at all.
func (p *Planner) try(ctx context.Context, d *trial.Decoded, s scope, look func(table.Turn, *table.Tx)) error {
	for {
		var unanswered []jwks.Source
		var failed error
		if err := p.between(ctx, func() {
			failed = p.trials.Try(d, func(t table.Turn, tx *table.Tx) {
				if unanswered = p.unanswered(tx, d, s); len(unanswered) == 0 {
					look(t, tx)
				}
			})
		}); err != nil || failed != nil || len(unanswered) == 0 {
			return errors.Join(err, failed)
		}
		for _, from := range unanswered {
			d.Answer(from, jwks.Answer{Failing: notAsked})
		}
	}
}

// notAsked is why there are no keys of an issuer that only the change names.
const notAsked = "a plan asks no issuer"

// unanswered lists the issuers that have to be asked because of the change.
func (p *Planner) unanswered(tx *table.Tx, d *trial.Decoded, s scope) (out []jwks.Source) {
	unknown := s.unknown(tx, p.graph, d)
	for k := range table.Each(tx, p.graph.WantedKeys) {
		if _, known := table.Lookup(tx, p.graph.In.KeySets.Table, k); (!known || unknown(k)) && !d.Answered(k) {
			out = append(out, k)
		}
	}
	return out
}

// describe makes a trial turn, and describes it once it is over.
func (p *Planner) describe(ctx context.Context, d *trial.Decoded, s scope) (*Plan, error) {
	g := p.graph
	if p.world == nil {
		if err := p.light(d); err != nil {
			return nil, err
		}
	}
	var views *trial.Views
	var all *found
	var asks []string
	var added, removed []mesh.Problem
	if err := p.try(ctx, d, s, func(_ table.Turn, tx *table.Tx) {
		views = trial.Compare(g, tx, s.proxies(tx, g))
		all, asks = gather(views.Differences()), p.asks(tx, d, s)
		added, removed = g.ProblemChanges(tx)
	}); err != nil {
		return nil, err
	}
	out := all.plan(func(id mesh.ProxyID, typ xdstype.Type, name string) (e *envoy.Encoded) {
		g.Store.Read(func(tx *table.Tx) { e = views.After(tx, id, typ, name) })
		return e
	}, views.Refused()...)
	out.Namespace, out.Connected, out.Asks = s.namespace, views.Connected(), asks
	out.Added, out.Removed = problems(s.problems(added, d)), problems(s.problems(removed, d))
	return out, nil
}

// asks lists what would be asked for outside.
func (p *Planner) asks(tx *table.Tx, d *trial.Decoded, s scope) []string {
	g, out := p.graph, []string{}
	for k := range table.Each(tx, g.WantedKeys) {
		if d.Answered(k) {
			out = append(out, "the keys of "+k.String())
		}
	}
	for c := range table.Changes(g.WantedSecrets) {
		if _, has := table.Lookup(tx, g.In.Secrets, c.Key.Object()); c.Has && !has && s.sees(c.Key.Object().Namespace) {
			out = append(out, c.Key.Object().String())
		}
	}
	slices.Sort(out)
	return out
}

func problems(list []mesh.Problem) []Problem {
	out := []Problem{}
	for _, p := range list {
		out = append(out, Problem{p.Severity, p.Code, p.String()})
	}
	return out
}
