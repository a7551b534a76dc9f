package document

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// listKind finds what may be a list's kind: "List", as `kubectl get -o yaml` writes it, or one of a single kind, as VirtualServiceList.
var listKind = regexp.MustCompile(`\bkind["']?\s*:\s*["']?\w*List\b`)

// expand splits a list into its items, each with its own line; any other document is returned unchanged.
func expand(d Document) []Document {
	if !bytes.Contains(d.Text, []byte("List")) || !listKind.Match(d.Text) {
		return []Document{d}
	}
	root, bad := parseNodes(d.Text)
	if bad != nil || root == nil {
		return []Document{d} // its mistake is reported when it is decoded
	}
	kind, items := member(root, "kind"), member(root, "items")
	if kind == nil || !strings.HasSuffix(kind.Value, "List") || items == nil || items.Kind != yaml.SequenceNode {
		return []Document{d}
	}
	l := &list{
		cursor: cursor{text: d.Text, lines: bytes.SplitAfter(d.Text, []byte("\n")), line: 1, column: 1},
		shares: bytes.IndexByte(d.Text, '&') >= 0, odd: oddBreaks(d.Text), alone: newRewriter(d.Text),
	}
	var out []Document
	for i, item := range items.Content {
		end := len(l.lines)
		if i+1 < len(items.Content) {
			end = min(end, max(item.Line, items.Content[i+1].Line-1))
		}
		text, bad := l.item(item, end)
		out = append(out, Document{File: d.File, Line: d.Line + item.Line - 1, Text: text, bad: bad})
		if len(out) > MaxDocuments {
			break
		}
	}
	return out
}

// member returns the value of a field of a mapping; nil if there is none.
func member(n *yaml.Node, name string) *yaml.Node {
	n, _, _ = child(n, name, "")
	if n != nil && n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// list splits the text of a list.
type list struct {
	cursor
	shares bool      // there are anchors
	odd    bool      // YAML sees other lines in the text
	alone  *rewriter // of what cannot be cut out of the text
}

// oddBreaks reports whether YAML sees more lines in a text than there are line feeds.
func oddBreaks(text []byte) bool {
	return bytes.Count(text, []byte("\r")) != bytes.Count(text, []byte("\r\n")) ||
		bytes.Contains(text, []byte("\u0085")) || bytes.Contains(text, []byte("\u2028")) || bytes.Contains(text, []byte("\u2029"))
}

// item returns an item as a document of its own: cut out of the text if it needs nothing else of the text, else encoded anew with the same
// lines.
func (l *list) item(item *yaml.Node, end int) ([]byte, *Mistake) {
	switch {
	case item.Kind != yaml.MappingNode || l.odd || l.shares && borrows(item):
	case item.Style&yaml.FlowStyle != 0:
		if raw := l.object(item); raw != nil {
			return raw, nil
		}
	default:
		if text, whole := l.block(item, end); whole {
			return text, nil
		}
	}
	text, bad := l.alone.text(item)
	if bad != nil && !l.odd {
		text, _ = l.block(item, end) // the object's name may still be readable
	}
	return text, bad
}

// object returns an item that is JSON; nil if it is not.
func (l *list) object(item *yaml.Node) []byte {
	if !l.to(item.Line, item.Column) || l.at >= len(l.text) || l.text[l.at] != '{' {
		return nil
	}
	rest := l.text[l.at:]
	var raw json.RawMessage
	dec := json.NewDecoder(bytes.NewReader(rest))
	if dec.Decode(&raw) != nil {
		return nil
	}
	// In YAML it may be the first field of something larger.
	if behind := bytes.TrimLeft(rest[dec.InputOffset():], " \t\r\n"); len(behind) == 0 || behind[0] != ',' && behind[0] != ']' {
		return nil
	}
	return raw
}

// sameNode reports whether two nodes are equal.
func sameNode(a, b *yaml.Node) bool {
	return a != nil && a.Kind == b.Kind && a.Value == b.Value && a.Style == b.Style && slices.EqualFunc(a.Content, b.Content, sameNode)
}

// borrows reports whether an item has an alias of an anchor outside of it.
func borrows(item *yaml.Node) bool {
	anchored, aliases := map[*yaml.Node]bool{}, []*yaml.Node(nil)
	var walk func(n *yaml.Node)
	walk = func(n *yaml.Node) {
		if n.Anchor != "" {
			anchored[n] = true
		}
		if n.Kind == yaml.AliasNode {
			aliases = append(aliases, n.Alias)
		}
		for _, c := range n.Content {
			walk(c)
		}
	}
	walk(item)
	for _, target := range aliases {
		if !anchored[target] {
			return true
		}
	}
	return false
}

// cursor goes through a text by lines and columns, both from 1, columns in characters. It only moves forward, so that all of a list's items
// cost one walk.
type cursor struct {
	text             []byte
	lines            [][]byte // of text
	start            int      // of the line
	at, line, column int
}

// to returns false if there is no such place, or if it is before the cursor.
func (c *cursor) to(line, column int) bool {
	for ; c.line < line && c.line <= len(c.lines); c.line++ {
		c.start += len(c.lines[c.line-1])
		c.at, c.column = c.start, 1
	}
	for c.column < column && c.at < len(c.text) {
		_, n := utf8.DecodeRune(c.text[c.at:])
		c.at, c.column = c.at+n, c.column+1
	}
	return c.line == line && c.column == column
}

// block cuts out an item in block style, with its lines, so that problems name the right ones. The item ends at the first line that is
// indented less. It is not whole if that line is within a quoted text or brackets, where YAML ignores indentation, or if the item's anchor
// is indented more than its content.
func (c *cursor) block(item *yaml.Node, end int) (text []byte, whole bool) {
	indent := item.Column - 1
	first := c.lines[item.Line-1]
	out := bytes.Clone(first[min(indent, len(first)):])
	for _, line := range c.lines[item.Line:end] {
		content := bytes.TrimLeft(line, " ")
		if deep := len(line) - len(content); deep < indent && !isBlank(line) {
			root, bad := parseNodes(out)
			return out, bad == nil && sameNode(root, item)
		}
		out = append(out, line[min(indent, len(line)-len(content)):]...)
	}
	return out, true
}
