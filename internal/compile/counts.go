package compile

import (
	"maps"

	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
)

// Counts are how many problems there are by severity and by code.
type Counts struct {
	Severities map[mesh.Severity]int
	Codes      map[string]int
}

// Add counts n problems of a kind more.
func (c *Counts) Add(severity mesh.Severity, code string, n int) {
	if n != 0 {
		c.Severities[severity] += n
		c.Codes[code] += n
	}
}

// countCache keeps what rows noted, counted, until the notes change.
type countCache struct {
	version uint64
	valid   bool
	noted   Counts
}

// Counts counts what Problems lists, without making its texts: no line is looked for, nothing is formatted or sorted,
// and what rows noted is walked only where it has changed. A refusal counts once, however many objects are to blame for
// it. What it returns is the caller's. Any goroutine may call it.
func (g *Graph) Counts() Counts {
	var out Counts
	g.Store.Read(func(tx *table.Tx) {
		out = g.countNoted(tx)
		refused := 0
		for k, v := range table.All(tx, g.In.Rejections.Table) {
			if version, ok := g.Out.version(tx, k.Type, k.Key); ok && version == v.Version {
				refused++
			}
		}
		out.Add(mesh.Error, code.Refused, refused)
	})
	return out
}

func (g *Graph) countNoted(tx *table.Tx) Counts {
	c := &g.counts
	g.problems.mu.Lock()
	defer g.problems.mu.Unlock()
	if version := g.Store.NotesVersion(tx); !c.valid || version != c.version {
		c.noted, c.version, c.valid = Counts{map[mesh.Severity]int{}, map[string]int{}}, version, true
		seen := map[mesh.Problem]struct{}{} // several rows may note the same
		for n := range g.Store.Notes(tx) {
			p, ok := n.Value.(mesh.Problem)
			if !ok {
				severity, code := ownMistake(n)
				c.noted.Add(severity, code, 1)
				continue
			}
			if _, again := seen[p]; !again {
				seen[p] = struct{}{}
				c.noted.Add(p.Severity, p.Code, 1)
			}
		}
	}
	return Counts{maps.Clone(c.noted.Severities), maps.Clone(c.noted.Codes)}
}

// ownMistake is the kind of what the engine itself noted.
func ownMistake(n table.Note) (mesh.Severity, string) {
	switch n.Value.(type) {
	case *table.PanicError:
		return mesh.Error, code.Panic
	case *table.ConflictError:
		return mesh.Warning, code.Conflict
	}
	return mesh.Error, code.Note
}
