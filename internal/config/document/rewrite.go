package document

import (
	"bytes"
	"encoding/json"

	yaml "go.yaml.in/yaml/v3"
)

// rewriter writes parts of a YAML document as independent JSON: aliases are written out, and every field keeps its line. Its output has the
// same limits as the document's values, so aliases of aliases cannot expand further than in a decoder.
type rewriter struct {
	builder
	out     []byte
	line    int // of the document, where out ends
	aliased int // how many aliases the written value is in: it has their line, not its own
}

func newRewriter(text []byte) *rewriter {
	return &rewriter{builder: builder{nodes: nodesOf(text), bytes: spelledOf(text)}}
}

// text writes one node, from its own line on. bad is the reason if it cannot; lines in it count from the node's.
func (w *rewriter) text(n *yaml.Node) (out []byte, bad *Mistake) {
	w.out, w.line, w.aliased, w.bad = nil, n.Line, 0, nil
	w.node(n, 0)
	if w.bad != nil {
		return nil, &Mistake{Line: w.bad.Line - n.Line + 1, Message: w.bad.Message, Fix: w.bad.Fix}
	}
	return w.out, nil
}

// at goes forward to the line of a node, never back.
func (w *rewriter) at(n *yaml.Node) {
	if w.aliased == 0 && n.Line > w.line {
		w.out = append(w.out, bytes.Repeat([]byte{'\n'}, n.Line-w.line)...)
		w.line = n.Line
	}
}

// afford counts a node against what may be written.
func (w *rewriter) afford(n *yaml.Node, depth int) bool {
	w.nodes, w.bytes = w.nodes-1, w.bytes-len(n.Value)
	switch {
	case w.bad != nil:
	case w.nodes < 0 || w.bytes < 0:
		w.fail(n, "the document's aliases expand to too much", "write it out")
	case depth > maxDepth:
		w.fail(n, errDeep.Message, errDeep.Fix)
	}
	return w.bad == nil
}

func (w *rewriter) node(n *yaml.Node, depth int) {
	if !w.afford(n, depth) {
		return
	}
	w.at(n)
	switch n.Kind {
	case yaml.AliasNode:
		w.aliased++
		w.node(n.Alias, depth+1)
		w.aliased--
	case yaml.MappingNode:
		w.out = append(w.out, '{')
		w.fields(n, depth, map[string]bool{})
		w.out = append(w.out, '}')
	case yaml.SequenceNode:
		w.out = append(w.out, '[')
		for i, item := range n.Content {
			if i > 0 {
				w.out = append(w.out, ',')
			}
			w.node(item, depth+1)
		}
		w.out = append(w.out, ']')
	default:
		w.append(w.scalar(n))
	}
}

func (w *rewriter) append(v any) {
	text, _ := json.Marshal(v) // a string, a bool, a finite number or nil
	w.out = append(w.out, text...)
}

// fields writes the fields of a mapping that are not written yet, then those of its merge keys. A field that the mapping itself has twice
// is written twice, so that the decoder refuses it.
func (w *rewriter) fields(n *yaml.Node, depth int, written map[string]bool) {
	own := map[string]bool{}
	for i := 0; i+1 < len(n.Content) && w.bad == nil; i += 2 {
		k := n.Content[i]
		if isMerge(k) {
			continue
		}
		name, ok := keyName(k)
		if !ok {
			w.fail(k, "a field's name must be a plain word", "")
			return
		}
		if written[name] {
			continue
		}
		if len(written)+len(own) > 0 {
			w.out = append(w.out, ',')
		}
		own[name] = true
		w.at(k)
		w.append(name)
		w.out = append(w.out, ':')
		w.bytes -= len(name)
		w.node(n.Content[i+1], depth+1)
	}
	for name := range own {
		written[name] = true
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if isMerge(n.Content[i]) {
			w.merged(n.Content[i+1], depth+1, written, true)
		}
	}
}

// merged writes what `<<` names, the first of a list winning.
func (w *rewriter) merged(n *yaml.Node, depth int, written map[string]bool, list bool) {
	if !w.afford(n, depth) {
		return
	}
	switch {
	case n.Kind == yaml.AliasNode:
		w.aliased++
		w.merged(n.Alias, depth+1, written, list)
		w.aliased--
	case n.Kind == yaml.MappingNode:
		w.fields(n, depth, written)
	case n.Kind == yaml.SequenceNode && list:
		for _, item := range n.Content {
			w.merged(item, depth+1, written, false)
		}
	default:
		w.fail(n, "<< needs fields to merge", "")
	}
}
