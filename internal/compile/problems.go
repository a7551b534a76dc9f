package compile

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"

	"fairway/internal/compile/input"
	"fairway/internal/config"
	"fairway/internal/config/document"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
)

// problemCache keeps the problems that rows noted until the notes change, and the lines of their fields as long as the
// objects are written as they were: a line may be another one though the problem is not.
type problemCache struct {
	mu    sync.Mutex
	read  notesRead
	noted []mesh.Problem
	lines map[place]found // finding one parses the object's text
}

// notesRead is which notes somebody has read.
type notesRead struct {
	version uint64
	any     bool
}

// fresh returns the notes if they have changed since the last call, or nil.
func (n *notesRead) fresh(s *table.Store, tx *table.Tx) iter.Seq[table.Note] {
	version := s.NotesVersion(tx)
	if n.any && version == n.version {
		return nil
	}
	n.version, n.any = version, true
	return s.Notes(tx)
}

// place is a field of an object.
type place struct {
	object config.Key
	field  string
}

// found is the line of a field in a text.
type found struct {
	in   config.Written
	line int
}

// Problems lists everything that users wrote and that does not do what it says, ordered by object and place: what
// derivations noted, what sources said of files, what proxies refused, and rows that broke a law of the engine. Any
// goroutine may call it. Texts are made, and lines looked for, while turns go on.
func (g *Graph) Problems() []mesh.Problem {
	c := &g.problems
	c.mu.Lock() // before a Read: waiting inside one would hold off turns
	defer c.mu.Unlock()
	var fresh iter.Seq[table.Note]
	var refused []mesh.Problem
	g.Store.Read(func(tx *table.Tx) {
		fresh = c.read.fresh(g.Store, tx)
		refused = g.refused(tx)
	})
	if fresh != nil {
		c.noted = nil
		for n := range fresh {
			c.noted = append(c.noted, problemOf(n))
		}
	}
	out := append(g.placedProblems(c), refused...)
	slices.SortFunc(out, mesh.CompareProblem)
	return slices.Compact(out)
}

// whereabouts holds the places where the objects of a problem are written.
type whereabouts struct {
	object, other       config.Written
	isWritten, hasOther bool // false: it is gone, or a source has already set the place
}

// placedProblems returns the problems that are notes on rows, each with the place where it is written.
func (g *Graph) placedProblems(c *problemCache) []mesh.Problem {
	out, at := slices.Clone(c.noted), make([]whereabouts, len(c.noted))
	g.Store.Read(func(tx *table.Tx) {
		for i, p := range out {
			at[i].object, at[i].isWritten = g.written(tx, p.Object)
			at[i].other, at[i].hasOther = g.written(tx, p.Other)
		}
	})
	lines := map[place]found{}
	var last struct { // the object that was parsed last: rows of one object mostly follow each other
		object config.Key
		in     config.Written
		lines  *document.Lines
	}
	for i := range out {
		out[i] = at[i].placed(out[i], func(at place, w config.Written) int {
			line, known := c.lines[at]
			if !known || !line.in.Equal(w) {
				if last.lines == nil || last.object != at.object || !last.in.Equal(w) {
					last.object, last.in, last.lines = at.object, w, w.Lines()
				}
				line = found{w, last.lines.Of(at.field)}
			}
			lines[at] = line
			return line.line
		})
	}
	c.lines = lines
	return out
}

// placed returns a problem with the places of its objects. lineOf returns the line of a field.
func (at whereabouts) placed(p mesh.Problem, lineOf func(place, config.Written) int) mesh.Problem {
	if !at.isWritten {
		return p
	}
	p.Object = at.object.Ref
	if at.hasOther {
		p.Message = strings.Replace(p.Message, p.Other.String(), at.other.Ref.String(), 1)
		p.Other = at.other.Ref
	}
	if p.Line == 0 && p.Field != "" {
		p.Line = lineOf(place{config.KeyOf(p.Object), p.Field}, at.object)
	}
	return p
}

// ProblemChanges lists the problems that the last turn added, and those that it removed, each with the place where its object is written
// after the turn, or was written before it. A problem does not change if its object is only written elsewhere. Refusals by proxies are not
// listed. Only the owner of the turns may call it, before the changes of the turn are forgotten, or in a trial. Its cost grows with the
// changes.
func (g *Graph) ProblemChanges(tx *table.Tx) (added, removed []mesh.Problem) {
	before := map[config.Key]table.Change[config.Key, config.Written]{}
	for c := range table.Changes(g.In.Written.Table) {
		before[c.Key] = c
	}
	was := func(o mesh.ObjectRef) (config.Written, bool) {
		if c, changed := before[config.KeyOf(o)]; changed && o.File == "" {
			return c.Old, c.Had
		}
		return g.written(tx, o)
	}
	for c := range table.Changes(g.Status.Problems) {
		p, to, written := c.Key.Problem, &removed, was
		if c.Has {
			to, written = &added, func(o mesh.ObjectRef) (config.Written, bool) { return g.written(tx, o) }
		}
		var at whereabouts
		at.object, at.isWritten = written(p.Object)
		at.other, at.hasOther = written(p.Other)
		*to = append(*to, at.placed(p, func(at place, w config.Written) int { return w.Line(at.field) }))
	}
	slices.SortFunc(added, mesh.CompareProblem)
	slices.SortFunc(removed, mesh.CompareProblem)
	return added, removed
}

// written returns the place where an object is written that a row named; false: the object is gone, or a source has already set the place.
func (g *Graph) written(tx *table.Tx, o mesh.ObjectRef) (config.Written, bool) {
	if o.File != "" {
		return config.Written{}, false
	}
	return table.Lookup(tx, g.In.Written.Table, config.KeyOf(o))
}

// WithPlace completes the name of an object with the place where it is written.
func (g *Graph) WithPlace(tx *table.Tx, o mesh.ObjectRef) mesh.ObjectRef {
	if w, ok := g.written(tx, o); ok {
		return w.Ref
	}
	return o
}

// problemOf turns a note into a problem; what the engine noted is a mistake of ours, and says so.
func problemOf(n table.Note) mesh.Problem {
	switch v := n.Value.(type) {
	case mesh.Problem:
		return v
	case *table.PanicError:
		return internal(n, code.Panic, fmt.Sprintf("computing this row failed, its last good value stays in force: %v", v.Value))
	case *table.ConflictError:
		p := internal(n, code.Conflict, fmt.Sprintf("%s is made from %s as well, which has precedence", v.Key, v.Winner))
		p.Severity = mesh.Warning
		return p
	default:
		return internal(n, code.Note, fmt.Sprint(v))
	}
}

func internal(n table.Note, code, message string) mesh.Problem {
	return mesh.Problem{
		Object:   mesh.ObjectRef{Kind: "table", Namespace: n.Table, Name: n.Key},
		Code:     code,
		Severity: mesh.Error,
		Message:  message,
	}
}

// culprits returns the objects to blame for a resource. Of the objects that it was made from, these are the ones of the kind that shapes
// its type most.
func (g *Graph) culprits(tx *table.Tx, t *Published, k input.Rejected) []mesh.ObjectRef {
	byKind := map[string][]mesh.ObjectRef{}
	refs, _ := g.writtenFor(tx, t, k.Key, 0)
	for _, ref := range refs {
		byKind[ref.Kind] = append(byKind[ref.Kind], ref)
	}
	for _, kind := range k.Type.Blamed() {
		if blamed := byKind[kind]; len(blamed) > 0 {
			return blamed
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(byKind)) {
		return byKind[kind]
	}
	return []mesh.ObjectRef{{Kind: k.Type.String(), Name: k.Key.Name}}
}
