// Package trial tries changes of objects. It shows the tables as they would be, what proxies would be sent, and which problems would come
// and go. A trial takes the way of a real change, and leaves no trace:
//
//	documents ─► config (decode, validate) ─► shards (which version counts) ─► quota (what is kept back) ─► door ─► a turn, taken back
//
// Each station computes what it would hand on, and hands on nothing. Two things differ from a real change. A large change is tried in one
// turn, where package pace would hand it on in pieces. And no change of the trial waits at the door: the trial shows the mesh as it is once
// the grace is over.
package trial

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	"fairway/internal/compile"
	"fairway/internal/config"
	"fairway/internal/door"
	"fairway/internal/jwks"
	"fairway/internal/mesh"
	"fairway/internal/quota"
	"fairway/internal/source"
	"fairway/internal/source/shards"
	"fairway/internal/table"
)

// Limits of one trial in a running control plane.
const (
	MostObjects = 1000    // objects to set and keys to remove
	MostBytes   = 8 << 20 // of documents and objects
	// MostRows is how many rows the objects of a trial may make, as package quota estimates it. A turn with so many rows takes some
	// seconds, and no other turn is made meanwhile.
	MostRows = 50_000
)

// ErrTooLarge reports that changes are more than a trial may change, or would make more rows than it may make.
var ErrTooLarge = errors.New("too large for one trial")

// Limits bound one trial. A field that is 0 has the value of its constant.
type Limits struct{ Objects, Bytes, Rows int }

// Changes are what a trial changes.
type Changes struct {
	// Source is the name of the source that the changes come from. If it is empty, an object that exists changes in the source with the
	// version that counts, and a new one comes from the first source in order of precedence.
	Source string
	// Documents are objects as users write them, of any kind but the mesh's own configuration.
	Documents []config.Document
	// Objects are objects that are decoded already.
	Objects []*config.Object
	// Gone are objects to remove. Objects that are also set are ignored.
	Gone []config.Key
	// Created is the creation time of new objects whose text has none, in Unix seconds, as an API server would set it. 0: none, as in
	// files.
	Created int64
}

// Options of Trials. All but Limits are required.
type Options struct {
	Decoder *config.Decoder
	Shards  *shards.Set
	Budgets *quota.Gate
	Door    *door.Door
	Graph   *compile.Graph
	// Limits replace the usual ones, for tables that serve no proxies.
	Limits Limits
}

// Trials tries changes in one control plane.
type Trials struct{ o Options }

// New returns a Trials.
func New(o Options) *Trials {
	o.Limits = Limits{
		Objects: cmp.Or(o.Limits.Objects, MostObjects), Bytes: cmp.Or(o.Limits.Bytes, MostBytes), Rows: cmp.Or(o.Limits.Rows, MostRows),
	}
	return &Trials{o}
}

// Decoded are changes that have been decoded and validated. A document with an error changes nothing: the last good version of its object
// stays in force, and the trial shows the problems of the document.
type Decoded struct {
	trial   shards.Trial
	answers map[jwks.Source]jwks.Answer
}

// Keys lists the objects that the changes set or remove, and those that documents with problems are about.
func (d *Decoded) Keys() (out []config.Key) {
	for _, o := range d.trial.Set {
		out = append(out, o.Key)
	}
	out = append(out, d.trial.Gone...)
	for _, p := range d.Problems() {
		out = append(out, config.KeyOf(p.Object))
	}
	return out
}

// Objects are the objects that the changes set.
func (d *Decoded) Objects() []*config.Object { return d.trial.Set }

// Problems lists the problems of the documents alone.
func (d *Decoded) Problems() (out []mesh.Problem) {
	for _, file := range slices.Sorted(maps.Keys(d.trial.Problems)) {
		out = append(out, d.trial.Problems[file]...)
	}
	return out
}

// Answer makes the next trials of the changes go on as if an issuer of keys had answered so.
func (d *Decoded) Answer(from jwks.Source, a jwks.Answer) {
	if d.answers == nil {
		d.answers = map[jwks.Source]jwks.Answer{}
	}
	d.answers[from] = a
}

// Answered reports whether Answer was called for an issuer.
func (d *Decoded) Answered(from jwks.Source) bool {
	_, is := d.answers[from]
	return is
}

// Decode decodes and validates changes. It fails if they are more than a trial may change, if two of them are the same object, or when ctx
// ends. Any goroutine may call it.
func (t *Trials) Decode(ctx context.Context, c Changes) (*Decoded, error) {
	if n := len(c.Documents) + len(c.Objects) + len(c.Gone); n > t.o.Limits.Objects {
		return nil, fmt.Errorf("%w: a trial may change %d objects, and not %d: try them in parts", ErrTooLarge, t.o.Limits.Objects, n)
	}
	bytes := 0
	for _, doc := range c.Documents {
		bytes += len(doc.Text)
	}
	for _, o := range c.Objects {
		bytes += len(o.Text) + proto.Size(o.Spec)
	}
	if bytes > t.o.Limits.Bytes {
		return nil, fmt.Errorf("%w: a trial may change %s of objects, and not %d bytes: try them in parts",
			ErrTooLarge, size(t.o.Limits.Bytes), bytes)
	}
	out := &Decoded{trial: shards.Trial{Source: c.Source, Gone: c.Gone, Problems: map[string][]mesh.Problem{}, Created: c.Created}}
	seen := map[config.Key]*config.Object{}
	add := func(o *config.Object) error {
		if first := seen[o.Key]; first != nil {
			return fmt.Errorf("%s is in the trial twice: at %s and at %s; keep one of the two", o.Key, first.Written(), o.Written())
		}
		seen[o.Key] = o
		out.trial.Set = append(out.trial.Set, o)
		return nil
	}
	for _, o := range c.Objects {
		if err := add(o); err != nil {
			return nil, err
		}
	}
	for _, doc := range c.Documents {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("decode the objects of a trial: %w", err)
		}
		o, problems := t.o.Decoder.Decode(doc)
		if len(problems) > 0 {
			out.trial.Problems[doc.File] = append(out.trial.Problems[doc.File], problems...)
		}
		if o != nil {
			if err := add(o); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// size is a number of bytes as users know it.
func size(bytes int) string {
	if bytes < 1<<20 {
		return fmt.Sprintf("%d KiB", bytes>>10)
	}
	return fmt.Sprintf("%d MiB", bytes>>20)
}

// Try makes a turn with the changes on top of all that has come in, calls look, and takes the turn back. look sees the tables as they would
// be (tx) and all differences: of rows (table.Changes of each table), of resources by layer (Changes of compile.Outputs.Resources), of
// proxies (Differences) and of problems (compile.Graph.ProblemChanges). It must copy what it keeps.
//
// Only the owner of the turns may call Try, between turns, when nothing is staged. Turns and readers wait for twice the time of the turn,
// plus the time of look. Sources wait only while a station computes. Try fails without calling look if there is no source of the name, or
// if the changes would make more rows than Limits allow.
func (t *Trials) Try(d *Decoded, look func(table.Turn, *table.Tx)) error {
	b, err := t.o.Shards.Try(d.trial)
	if err != nil {
		return fmt.Errorf("try a change: %w", err)
	}
	b = t.o.Budgets.Try(b)
	if rows := t.rows(b); rows > t.o.Limits.Rows {
		return fmt.Errorf("%w: a trial may make %d rows, and these objects would make about %d: try them in parts",
			ErrTooLarge, t.o.Limits.Rows, rows)
	}
	t.o.Graph.TryAnswered(t.o.Door.Try(b), d.answers, look)
	return nil
}

// rows estimates how many rows a batch makes. The configuration of the mesh may make all rows of its services.
func (t *Trials) rows(b source.Batch) int {
	rows := b.Produces()
	meshWide := func(k config.Kind) bool { return k == config.MeshConfig || k == config.MeshNetworks }
	for _, o := range b.Set.Objects {
		if meshWide(o.Kind) {
			rows += t.o.Graph.Services()
		}
	}
	for _, k := range b.Gone.Objects {
		if meshWide(k.Kind) {
			rows += t.o.Graph.Services()
		}
	}
	return rows
}
