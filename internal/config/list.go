package config

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"

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
	lines := bytes.SplitAfter(d.Text, []byte("\n"))
	var out []Document
	for i, item := range items.Content {
		if item.Kind != yaml.MappingNode {
			return []Document{d} // no list of objects
		}
		end := len(lines)
		if i+1 < len(items.Content) {
			end = max(item.Line, items.Content[i+1].Line-1)
		}
		out = append(out, Document{File: d.File, Line: d.Line + item.Line - 1, Text: itemText(lines, item, end)})
	}
	return out
}

// itemText is an item as a document of its own. One in block style keeps its lines, so that what is said of it names the right ones; they end where
// they are indented less.
func itemText(lines [][]byte, item *yaml.Node, end int) []byte {
	indent := item.Column - 1
	first := lines[item.Line-1]
	first = first[min(indent, len(first)):]
	if item.Style&yaml.FlowStyle != 0 {
		rest := append(bytes.Clone(first), bytes.Join(lines[item.Line:], nil)...)
		var raw json.RawMessage
		if json.NewDecoder(bytes.NewReader(rest)).Decode(&raw) == nil {
			return raw
		}
		out, _ := yaml.Marshal(item) // it was read from YAML
		return out
	}
	out := bytes.Clone(first)
	for _, line := range lines[item.Line:end] {
		content := bytes.TrimLeft(line, " ")
		if deep := len(line) - len(content); deep < indent && !isBlank(line) {
			break
		}
		out = append(out, bytes.TrimPrefix(line, bytes.Repeat([]byte(" "), min(indent, len(line)-len(content))))...)
	}
	return out
}
