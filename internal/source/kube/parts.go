package kube

import (
	"context"
	"maps"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"

	"fairway/internal/mesh"
	"fairway/internal/source"
	"fairway/internal/source/budget"
	"fairway/internal/source/kube/rows"
)

// part is what a feed knows of one namespace.
type part struct {
	reader rows.Reader
	costs  *budget.Ledger[uint64] // of each object that the reader has
	wrong  map[string]bool        // places with problems
	// since is the version at which this namespace alone was listed. A watch that is behind still sends older events, which are
	// skipped. 0: no event is skipped.
	since uint64
}

// partOf returns the part that an object of a namespace is in.
func (f *feed) partOf(namespace string) string {
	if f.scope == nil {
		return ""
	}
	return namespace
}

// part returns a part, and adds it if it is missing.
func (f *feed) part(home string) *part {
	p := f.parts[home]
	if p == nil {
		p = &part{reader: f.kind.read(nil), costs: budget.NewLedger[uint64](f.o.account), wrong: map[string]bool{}}
		f.parts[home] = p
	}
	return p
}

func (f *feed) shard(home string) source.ShardKey {
	at := source.ShardKey{Cluster: f.o.Cluster, Kind: f.kind.name, Part: home}
	if f.kind.one != (rows.ID{}) {
		at.Part = f.kind.one.String()
	}
	return at
}

// otherwise holds a token when other namespaces are seen.
func (f *feed) otherwise() <-chan struct{} {
	if f.scope == nil {
		return nil
	}
	return f.scope.more
}

// reads reports whether an event about a namespace in a watch is read.
func (f *feed) reads(namespace, version string) bool {
	if f.scope == nil {
		return true
	}
	if _, later := f.pending[namespace]; later || !f.picture.has(namespace) {
		return false
	}
	p := f.parts[namespace]
	if p == nil || p.since == 0 {
		return true
	}
	if number, err := strconv.ParseUint(version, 10, 64); err == nil && number <= p.since {
		return false
	}
	p.since = 0
	return true
}

// mostCome is how many namespaces are read one by one; when more come at once, all are listed again.
const mostCome = 16

// rescope takes which namespaces are seen, and waits until that is known. Namespaces that are not seen any more go; new
// ones are pending, or the whole kind is to be listed. false: ctx ended.
func (f *feed) rescope(ctx context.Context) bool {
	if f.scope == nil {
		return true
	}
	before := f.picture.all
	come, gone, anew, known := f.scope.take(&f.picture)
	for !known {
		select {
		case <-ctx.Done():
			return false
		case <-f.scope.more:
		}
		come, gone, anew, known = f.scope.take(&f.picture)
	}
	if anew {
		if !before || f.picture.all {
			f.version = ""
			return true
		}
		for home := range f.parts { // there were all
			if !f.picture.has(home) {
				gone = append(gone, home)
			}
		}
	}
	for _, home := range gone {
		f.drop(home)
	}
	for _, home := range come {
		f.pending[home] = struct{}{}
	}
	if len(f.pending) > mostCome {
		f.version = ""
	}
	return true
}

// drop takes all of a namespace away.
func (f *feed) drop(home string) {
	delete(f.pending, home)
	p := f.parts[home]
	if p == nil {
		return
	}
	delete(f.parts, home)
	p.costs.Drop()
	f.kind.read(p.reader).Listed()
	problems := map[string][]mesh.Problem{}
	for at := range p.wrong {
		problems[at] = nil
		f.refused.Remove(at)
	}
	f.out.put([]source.Shard{{Key: f.shard(home), Whole: true}}, problems)
	f.report()
}

// catchUp reads namespaces that are pending, each by itself. The watch goes on where it is.
func (f *feed) catchUp(ctx context.Context) error {
	for _, home := range slices.Sorted(maps.Keys(f.pending)) {
		if err := f.catch(ctx, home); err != nil {
			return err
		}
	}
	return nil
}

func (f *feed) catch(ctx context.Context, home string) error {
	g := f.gathering()
	defer g.end()
	p := g.part(home)
	version, err := f.pages(ctx, f.at.In(home), g)
	if err != nil {
		return err
	}
	g.commit()
	p.since, _ = strconv.ParseUint(version, 10, 64) // one that is not a number tells nothing
	delete(f.pending, home)
	f.parts[home] = p
	f.out.put([]source.Shard{{Key: f.shard(home), Whole: true, Rows: g.made[home].Rows}}, g.problems)
	p.reader.Listed()
	f.report()
	return nil
}

// takeBack adds an empty list to problems for each place that the feed reported problems of, if problems does not name it.
func (f *feed) takeBack(problems map[string][]mesh.Problem) {
	for _, p := range f.parts {
		for at := range p.wrong {
			if _, again := problems[at]; !again {
				problems[at] = nil
			}
		}
	}
}

// gathering is what a list makes.
type gathering struct {
	feed      *feed
	parts     map[string]*part
	made      map[string]*rows.Made
	problems  map[string][]mesh.Problem
	refused   *budget.Refusals
	ownsParts bool // the parts are the feed's
}

func (f *feed) gathering() *gathering {
	return &gathering{
		feed: f, refused: f.refused, parts: map[string]*part{}, made: map[string]*rows.Made{}, problems: map[string][]mesh.Problem{},
	}
}

// commit charges the list in place of the one before.
func (g *gathering) commit() {
	for home, p := range g.parts {
		p.costs.Commit()
		if l, is := p.reader.(rows.Lister); is {
			l.Settle(g.made[home])
		}
		for slice, n := range g.made[home].Left {
			if at := g.feed.placeLeft(slice); n > 0 {
				g.problems[at] = g.feed.leftOf(slice, n)
				g.feed.settle(g.refused, p, at, g.problems)
			}
		}
	}
	g.ownsParts, g.feed.refused = true, g.refused
}

// end gives back the charges of a list that was not read to its end.
func (g *gathering) end() {
	if g.ownsParts {
		return
	}
	for _, p := range g.parts {
		p.costs.Drop()
	}
}

// part returns the list's part of a namespace. Its reader may look at the known state.
func (g *gathering) part(home string) *part {
	p := g.parts[home]
	if p == nil {
		var before rows.Reader
		costs := budget.NewLedger[uint64](g.feed.o.account)
		if old := g.feed.parts[home]; old != nil {
			before, costs = old.reader, old.costs.Draft()
		}
		p = &part{reader: g.feed.kind.read(before), costs: costs, wrong: map[string]bool{}}
		g.parts[home], g.made[home] = p, new(rows.Made)
		if l, is := p.reader.(rows.Lister); is {
			l.Begin()
		}
	}
	return p
}

// set takes an object of the list.
func (g *gathering) set(o runtime.Object) {
	about, err := meta.Accessor(o)
	if err != nil {
		g.feed.log.Warn("the API server handed over what has no name", "error", err)
		return
	}
	home := g.feed.partOf(about.GetNamespace())
	if g.feed.scope != nil && !g.feed.picture.has(home) {
		return
	}
	p := g.part(home)
	g.feed.set(p, o, g.made[home], g.problems)
	g.feed.settle(g.refused, p, g.feed.place(about), g.problems)
}

// shards returns everything of the kind.
func (g *gathering) shards() []source.Shard {
	whole := source.Shard{Key: g.feed.shard(""), Whole: true}
	if m := g.made[""]; m != nil {
		whole.Rows = m.Rows
	}
	out := []source.Shard{whole}
	for _, home := range slices.Sorted(maps.Keys(g.made)) {
		if home != "" {
			out = append(out, source.Shard{Key: g.feed.shard(home), Whole: true, Rows: g.made[home].Rows})
		}
	}
	return out
}
