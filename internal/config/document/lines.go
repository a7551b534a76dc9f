package document

import (
	"bytes"
	"strconv"
	"strings"

	yaml "go.yaml.in/yaml/v3"
)

// Lines finds the line of a field in a document's text.
type Lines struct {
	base int // line of the text's first line in its file
	root *yaml.Node
}

// IndexLines parses the text for lines. It costs what reading the document costs, so it is for when there is something to say.
func IndexLines(doc Document) *Lines {
	text := doc.Text
	if body := skipBlank(text); len(body) > 0 && body[0] == '{' {
		text = bytes.ReplaceAll(text, []byte{'\t'}, []byte{' '}) // JSON may be indented with tabs, YAML not
	}
	root, _ := parseNodes(text)
	return &Lines{base: doc.Line, root: root}
}

// Of returns the line of a field, or of the nearest written field around it; 0 if the document cannot be read at all.
func (l *Lines) Of(field string) int {
	if l.root == nil {
		return 0
	}
	n, line := l.root, l.root.Line
	for field != "" {
		var at int
		if n, at, field = step(n, field); n == nil {
			break
		}
		line = at
	}
	return l.base + line - 1
}

// step goes one part of the path down. The node is nil if the path leads nowhere.
func step(n *yaml.Node, field string) (next *yaml.Node, line int, rest string) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if strings.HasPrefix(field, "[") {
		end := strings.IndexByte(field, ']')
		if end < 0 {
			return nil, 0, ""
		}
		part, rest := field[1:end], field[end+1:]
		if n.Kind != yaml.SequenceNode {
			return child(n, part, rest)
		}
		i, err := strconv.Atoi(part)
		if err != nil || i < 0 || i >= len(n.Content) {
			return nil, 0, ""
		}
		return n.Content[i], n.Content[i].Line, rest
	}
	field = strings.TrimPrefix(field, ".")
	if n.Kind != yaml.MappingNode {
		return nil, 0, ""
	}
	best := ""
	for i := 0; i+1 < len(n.Content); i += 2 {
		if k := n.Content[i].Value; len(k) > len(best) && startsWith(field, k) {
			best = k
		}
	}
	if best == "" {
		return looseChild(n, field)
	}
	return child(n, best, field[len(best):])
}

// startsWith reports whether the path's first part is k; keys may hold dots themselves.
func startsWith(field, k string) bool {
	return strings.HasPrefix(field, k) && (len(field) == len(k) || field[len(k)] == '.' || field[len(k)] == '[')
}

func child(n *yaml.Node, key, rest string) (*yaml.Node, int, string) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1], n.Content[i].Line, rest
		}
	}
	return nil, 0, ""
}

// looseChild finds a field that was written in snake_case where the path has camelCase, as proto's JSON form allows.
func looseChild(n *yaml.Node, field string) (*yaml.Node, int, string) {
	part := field
	if i := strings.IndexAny(field, ".["); i >= 0 {
		part = field[:i]
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if strings.EqualFold(strings.ReplaceAll(n.Content[i].Value, "_", ""), part) {
			return n.Content[i+1], n.Content[i].Line, field[len(part):]
		}
	}
	return nil, 0, ""
}
