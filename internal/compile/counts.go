package compile

import (
	"iter"
	"maps"
	"sync"

	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
)

// Counts are how many problems there are by severity, and by severity and code.
type Counts struct {
	Severities map[mesh.Severity]int
	Kinds      map[ProblemKind]int
}

// ProblemKind is what problems have in common: a code that is this program's, and a severity.
type ProblemKind struct {
	Severity mesh.Severity
	Code     string
}

// Of returns how many problems have this code.
func (c *Counts) Of(code string) (n int) {
	for _, s := range []mesh.Severity{mesh.Info, mesh.Warning, mesh.Error} {
		n += c.Kinds[ProblemKind{s, code}]
	}
	return n
}

// Add counts n problems of a kind more.
func (c *Counts) Add(severity mesh.Severity, code string, n int) {
	if n != 0 {
		c.Severities[severity] += n
		c.Kinds[ProblemKind{severity, code}] += n
	}
}

// countCache keeps what rows noted, counted, until the notes change.
type countCache struct {
	mu    sync.Mutex
	read  notesRead
	noted Counts
}

// Counts counts what Problems lists, without making its texts: no line is looked for, nothing is formatted or sorted, and notes of rows are
// walked only if they have changed. A refusal counts once, however many objects caused it. The result belongs to the caller. Any goroutine
// may call it.
func (g *Graph) Counts() Counts {
	c := &g.counts
	c.mu.Lock() // before a Read: waiting inside one would hold off turns
	defer c.mu.Unlock()
	var fresh iter.Seq[table.Note]
	refused := 0
	g.Store.Read(func(tx *table.Tx) {
		fresh = c.read.fresh(g.Store, tx)
		for k, v := range table.Each(tx, g.In.Rejections.Table) {
			if version, ok := g.Out.version(tx, k.Type, k.Key); ok && version == v.Version {
				refused++
			}
		}
	})
	if fresh != nil {
		c.noted = countNotes(fresh)
	}
	out := Counts{maps.Clone(c.noted.Severities), maps.Clone(c.noted.Kinds)}
	out.Add(mesh.Error, code.Refused, refused)
	return out
}

func countNotes(notes iter.Seq[table.Note]) Counts {
	out := Counts{map[mesh.Severity]int{}, map[ProblemKind]int{}}
	seen := map[mesh.Problem]struct{}{} // several rows may note the same
	for n := range notes {
		p, ok := n.Value.(mesh.Problem)
		if !ok {
			severity, code := ownMistake(n)
			out.Add(severity, code, 1)
			continue
		}
		if _, again := seen[p]; !again {
			seen[p] = struct{}{}
			out.Add(p.Severity, p.Code, 1)
		}
	}
	return out
}

// ownMistake returns the severity and the code of a problem that the engine itself noted.
func ownMistake(n table.Note) (mesh.Severity, string) {
	switch n.Value.(type) {
	case *table.PanicError:
		return mesh.Error, code.Panic
	case *table.ConflictError:
		return mesh.Warning, code.Conflict
	}
	return mesh.Error, code.Note
}
