package compile

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"fairway/internal/compile/input"
	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
)

// problemCache keeps the problems that rows noted until the notes change, and the lines of their fields as long as the
// objects are written as they were: a line may be another one though the problem is not.
type problemCache struct {
	mu      sync.Mutex
	version uint64 // of the notes
	valid   bool
	noted   []mesh.Problem
	lines   map[place]found // finding one parses the object's text
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
// goroutine may call it.
func (g *Graph) Problems() []mesh.Problem {
	var out []mesh.Problem
	g.Store.Read(func(tx *table.Tx) {
		out = append(g.noted(tx), g.refused(tx)...)
	})
	slices.SortFunc(out, mesh.CompareProblem)
	return slices.Compact(out)
}

// noted are the problems that are notes on rows.
func (g *Graph) noted(tx *table.Tx) []mesh.Problem {
	c := &g.problems
	c.mu.Lock()
	defer c.mu.Unlock()
	if version := g.Store.NotesVersion(tx); !c.valid || version != c.version {
		c.noted, c.version, c.valid = nil, version, true
		for n := range g.Store.Notes(tx) {
			c.noted = append(c.noted, problemOf(n))
		}
	}
	out, lines := slices.Clone(c.noted), map[place]found{}
	for i := range out {
		p := &out[i]
		w, ok := g.written(tx, p.Object)
		if !ok {
			continue // a source said where it is
		}
		p.Object = w.Ref
		if other, ok := g.written(tx, p.Other); ok {
			p.Message = strings.Replace(p.Message, p.Other.String(), other.Ref.String(), 1)
			p.Other = other.Ref
		}
		if p.Line != 0 || p.Field == "" {
			continue
		}
		at := place{keyOf(p.Object), p.Field}
		line, known := c.lines[at]
		if !known || !line.in.Equal(w) {
			line = found{w, w.Line(p.Field)}
		}
		lines[at], p.Line = line, line.line
	}
	c.lines = lines
	return out
}

// written is where an object is written that a row named; false: it is gone, or a source told the place.
func (g *Graph) written(tx *table.Tx, o mesh.ObjectRef) (config.Written, bool) {
	if o.File != "" {
		return config.Written{}, false
	}
	return table.Lookup(tx, g.In.Written.Table, keyOf(o))
}

// Where completes the name of an object with where it is written.
func (g *Graph) Where(tx *table.Tx, o mesh.ObjectRef) mesh.ObjectRef {
	if w, ok := g.written(tx, o); ok {
		return w.Ref
	}
	return o
}

func keyOf(o mesh.ObjectRef) config.Key {
	return config.Key{Kind: config.Kind(o.Kind), Namespace: o.Namespace, Name: o.Name}
}

// problemOf turns a note into a problem; what the engine noted is a mistake of ours, and says so.
func problemOf(n table.Note) mesh.Problem {
	switch v := n.Value.(type) {
	case mesh.Problem:
		return v
	case *table.PanicError:
		return internal(n, code.Panic, fmt.Sprintf("computing this row failed, its last good value stays in force: %v", v.Value))
	case *table.ConflictError:
		p := internal(n, code.Conflict, fmt.Sprintf("%s is made from %s as well, which goes first", v.Key, v.Winner))
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

// culprits are the objects to blame for a resource: those of the kind that shapes its type most, of all it was made from.
func (g *Graph) culprits(tx *table.Tx, t *Published, k input.Rejected) []mesh.ObjectRef {
	byKind := map[config.Kind][]mesh.ObjectRef{}
	for _, o := range table.Origins(tx, t, k.Key, nil) {
		key, ok := o.Key.(config.Key)
		if !ok {
			continue
		}
		if object := g.Object(tx, key); object != nil && !slices.Contains(byKind[key.Kind], object.Ref) {
			byKind[key.Kind] = append(byKind[key.Kind], object.Ref)
		}
	}
	for _, kind := range blame(k.Type) {
		if len(byKind[kind]) > 0 {
			return byKind[kind]
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(byKind)) {
		return byKind[kind]
	}
	return []mesh.ObjectRef{{Kind: k.Type, Name: k.Key.Name}}
}

// blame orders the kinds that shape a type of resource, the likeliest culprit first.
func blame(kind string) []config.Kind {
	switch kind {
	case "Cluster", "ClusterLoadAssignment":
		return []config.Kind{config.DestinationRule, config.ServiceEntry, config.WorkloadEntry, config.Sidecar}
	case "Secret":
		return []config.Kind{config.Secret}
	case "Listener":
		return []config.Kind{config.Gateway, config.Sidecar, config.VirtualService, config.ServiceEntry}
	}
	return []config.Kind{config.VirtualService, config.Gateway, config.ServiceEntry}
}

// shortType is the message's name in a type URL.
func shortType(url string) string { return url[strings.LastIndexByte(url, '.')+1:] }
