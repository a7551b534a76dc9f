package config

import (
	"bytes"
	"fmt"

	"fairway/internal/printable"
)

// MaxDocuments is how many documents one file may hold. Split stops right behind them.
const MaxDocuments = 100_000

// Bounds on one document. A document past one of them is a problem, and what it was before stays in force.
const (
	maxNodes       = 2_000_000 // values, with aliases written out; a short text may hold fewer (nodesOf)
	maxDepth       = 100       // values within values
	maxProblems    = 100       // told of one document; the others are counted
	maxAnnotations = 256 << 10 // bytes of names and values, as an API server has it
	maxSecret      = 1 << 20   // bytes of a Secret's values, as an API server has it
	longestName    = 64        // of a field that another may be meant by
	maxKey         = 32 << 10  // bytes of a private key in PEM; the largest RSA key that Envoy takes has a third of that
)

// nodesOf is how many values a text may hold with its aliases written out: no more than it could write out by itself,
// and some for short ones.
func nodesOf(text []byte) int { return min(10_000+len(text), maxNodes) }

// spelledOf is how many bytes of names and strings a text may hold with its aliases written out.
func spelledOf(text []byte) int { return 64<<10 + 2*len(text) }

// tooMany tells whether a text may hold more than maxNodes values, before a parser spends memory on them. It counts
// what can begin a value, in YAML and in JSON.
func tooMany(text []byte) *syntaxError {
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
	return &syntaxError{
		line:    1,
		message: fmt.Sprintf("the document holds too much: up to %d values of at most %d", nodes, maxNodes),
		fix:     "write its objects as documents of their own, with --- between them",
	}
}

var errDeep = syntaxError{
	line:    1,
	message: fmt.Sprintf("the document is nested deeper than %d levels", maxDepth),
	fix:     "no object of ours is that deep",
}

// deeper tells whether a tree is more than levels deep.
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

// shownName is a name as problems have it. Nearly all are names as they should be, which costs one look at each byte.
func shownName(s string) string {
	for i := range len(s) {
		if c := s[i]; c != '-' && c != '.' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			return printable.Text(s, printable.Short)
		}
	}
	if len(s) > printable.Short {
		return printable.Text(s, printable.Short)
	}
	return s
}
