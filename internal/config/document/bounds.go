package document

import (
	"bytes"
	"fmt"
)

// MaxDocuments is how many documents one file may hold. Split stops right behind them.
const MaxDocuments = 100_000

// Bounds on one document. A document over a limit is a mistake, and its previous version stays in force.
const (
	maxNodes = 2_000_000 // values, with aliases written out; a short text may hold fewer (nodesOf)
	maxDepth = 100       // values within values

	// Limits of a tree without a text. It is cheap to make a large one: an API server accepts 3 MiB of JSON for it.
	maxTreeNodes = 250_000
	maxTreeBytes = 8 << 20 // of names and strings, or of the JSON
)

// nodesOf is how many values a text may hold with its aliases written out: no more than it could write out by itself,
// and some for short ones.
func nodesOf(text []byte) int { return min(10_000+len(text), maxNodes) }

// spelledOf is how many bytes of names and strings a text may hold with its aliases written out.
func spelledOf(text []byte) int { return 64<<10 + 2*len(text) }

// tooMany returns a mistake if a text may have more than maxNodes values, before a parser spends memory on them. It counts what can begin a
// value, in YAML and in JSON.
func tooMany(text []byte) *Mistake {
	if len(text) < maxNodes/2 { // two bytes make three values at most
		return nil
	}
	nodes := 1
	for _, c := range [...]struct {
		sign  string
		makes int
	}{{":", 2}, {",", 2}, {"{", 2}, {"[", 1}, {"?", 2}, {"- ", 1}, {"-\n", 1}, {"-\r", 1}, {"-\t", 1}} {
		nodes += c.makes * bytes.Count(text, []byte(c.sign))
	}
	if nodes <= maxNodes {
		return nil
	}
	return &Mistake{
		Line:    1,
		Message: fmt.Sprintf("the document holds too much: up to %d values of at most %d", nodes, maxNodes),
		Fix:     "write its objects as documents of their own, with --- between them",
	}
}

var errDeep = Mistake{
	Line:    1,
	Message: fmt.Sprintf("the document is nested deeper than %d levels", maxDepth),
	Fix:     "no object of ours is that deep",
}

// deeper reports whether a tree is more than levels deep.
func deeper(v any, levels int) bool {
	if levels < 0 {
		return true
	}
	switch v := v.(type) {
	case map[string]any:
		for _, e := range v {
			if deeper(e, levels-1) {
				return true
			}
		}
	case []any:
		for _, e := range v {
			if deeper(e, levels-1) {
				return true
			}
		}
	}
	return false
}
