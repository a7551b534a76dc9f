package config

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// listKind finds what may be a list's kind: "List", as `kubectl get -o yaml` writes it, or one of a single kind, as VirtualServiceList.
var listKind = regexp.MustCompile(`(?m)^\s*"?kind"?\s*:\s*"?\w*List"?\s*,?\s*$|"kind"\s*:\s*"\w*List"`)

// expand takes a document that is a list apart into its items, each with its own line; any other document comes back alone.
func expand(d Document) []Document {
	if !bytes.Contains(d.Text, []byte("List")) || !listKind.Match(d.Text) {
		return []Document{d}
	}
	root, bad := parseNodes(d.Text)
	if bad != nil || root == nil {
		return []Document{d} // what is wrong with it is said where it is decoded
	}
	kind, _, _ := child(root, "kind", "")
	items, _, _ := child(root, "items", "")
	if kind == nil || !strings.HasSuffix(kind.Value, "List") || items == nil || items.Kind != yaml.SequenceNode {
		return []Document{d}
	}
	from := &cursor{text: d.Text, lines: bytes.SplitAfter(d.Text, []byte("\n")), line: 1, column: 1}
	var out []Document
	for i, item := range items.Content {
		if item.Kind != yaml.MappingNode || item.Line > len(from.lines) {
			return []Document{d} // no list of objects, or one whose lines end in other ways than ours
		}
		end := len(from.lines)
		if i+1 < len(items.Content) {
			end = min(end, max(item.Line, items.Content[i+1].Line-1))
		}
		out = append(out, Document{File: d.File, Line: d.Line + item.Line - 1, Text: from.item(item, end)})
		if len(out) > MaxDocuments {
			break
		}
	}
	return out
}

// cursor goes through a text by lines and columns, both from 1, columns in characters. It only goes on, so that all of a list's items cost one walk.
type cursor struct {
	text             []byte
	lines            [][]byte // of text
	start            int      // of the line
	at, line, column int
}

// to is false where there is no such place, or it is behind.
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

// item is an item as a document of its own. One in block style keeps its lines, so that what is said of it names the right ones; they end where
// they are indented less.
func (c *cursor) item(item *yaml.Node, end int) []byte {
	if item.Style&yaml.FlowStyle != 0 {
		var raw json.RawMessage
		if c.to(item.Line, item.Column) && json.NewDecoder(bytes.NewReader(c.text[c.at:])).Decode(&raw) == nil {
			return raw
		}
		out, _ := yaml.Marshal(item) // it was read from YAML
		return out
	}
	indent := item.Column - 1
	first := c.lines[item.Line-1]
	out := bytes.Clone(first[min(indent, len(first)):])
	for _, line := range c.lines[item.Line:end] {
		content := bytes.TrimLeft(line, " ")
		if deep := len(line) - len(content); deep < indent && !isBlank(line) {
			break
		}
		out = append(out, line[min(indent, len(line)-len(content)):]...)
	}
	return out
}
