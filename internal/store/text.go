package store

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	yaml "go.yaml.in/yaml/v3"

	"fairway/internal/config"
)

// written are fields of metadata that a store or an API server writes, and that say nothing of the object: they are not stored.
// creationTimestamp is: the oldest of several objects counts.
var written = []string{"resourceVersion", "uid", "generation", "managedFields", "selfLink"}

// Stored returns a document of an object as it is stored: with its namespace, with its time of creation if created is not empty,
// and without the fields that others write into objects. Comments, and the order of fields, stay; JSON becomes YAML. The document
// must be one that decodes to key.
func Stored(doc config.Document, key config.Key, created string) ([]byte, error) {
	if Single(key.Kind) {
		return bytes.TrimRight(doc.Text, " \t\r\n\x00"), nil
	}
	set := map[string]string{}
	if !key.Kind.ClusterWide() {
		set["namespace"] = key.Namespace
	}
	if created != "" {
		set["creationTimestamp"] = created
	}
	return edited(doc.Text, set, written, []string{"status"})
}

// Shown returns a stored object with its version, for a user who wants to change it.
func Shown(key config.Key, text []byte, revision int64) ([]byte, error) {
	if Single(key.Kind) {
		return text, nil
	}
	return edited(text, map[string]string{"resourceVersion": fmt.Sprint(revision)}, nil, nil)
}

// edited returns a document with changed fields of its metadata, and without some of its top-level fields.
func edited(text []byte, set map[string]string, unset, without []string) ([]byte, error) {
	var root yaml.Node
	if err := yaml.Unmarshal(text, &root); err != nil {
		return nil, err
	}
	if len(root.Content) != 1 || root.Content[0].Kind != yaml.MappingNode {
		return nil, errors.New("the document is not a set of fields")
	}
	doc := root.Content[0]
	meta := field(doc, "metadata")
	if meta == nil || meta.Kind != yaml.MappingNode {
		return nil, errors.New("metadata: write it in plain words, not as an alias of something else")
	}
	if doc.Style&yaml.FlowStyle != 0 {
		plain(doc)
	}
	for _, name := range without {
		remove(doc, name)
	}
	for _, name := range unset {
		remove(meta, name)
	}
	for _, name := range slices.Sorted(maps.Keys(set)) {
		value := yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: set[name], Style: yaml.DoubleQuotedStyle}
		if name == "namespace" {
			value.Style = 0 // the encoder adds the quotes that are needed
		}
		if at := field(meta, name); at != nil {
			value.HeadComment, value.LineComment, value.FootComment = at.HeadComment, at.LineComment, at.FootComment
			*at = value
			continue
		}
		meta.Content = append(meta.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: name}, &value)
	}
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	if err := errors.Join(enc.Encode(doc), enc.Close()); err != nil {
		return nil, err
	}
	return out.Bytes(), same(text, out.Bytes(), set, unset, without)
}

// same returns an error unless a document is unchanged, except for the edited fields.
func same(before, after []byte, set map[string]string, unset, without []string) error {
	was, bad := config.Document{Text: before}.Tree()
	is, worse := config.Document{Text: after}.Tree()
	a, ok := was.(map[string]any)
	b, too := is.(map[string]any)
	if bad != nil || worse != nil || !ok || !too {
		return errors.New("the document cannot be written anew; write it as plain YAML or JSON")
	}
	for _, tree := range []map[string]any{a, b} {
		for _, name := range without {
			delete(tree, name)
		}
		meta, _ := tree["metadata"].(map[string]any)
		for _, name := range append(slices.Collect(maps.Keys(set)), unset...) {
			delete(meta, name)
		}
	}
	if !reflect.DeepEqual(a, b) {
		return errors.New("the document would say something else once it is written anew; write it as plain YAML or JSON")
	}
	return nil
}

// field is the value of a mapping's field; nil: it has none.
func field(m *yaml.Node, name string) *yaml.Node {
	for i := 0; i+1 < len(m.Content); i += 2 {
		if m.Content[i].Value == name {
			return m.Content[i+1]
		}
	}
	return nil
}

func remove(m *yaml.Node, name string) {
	for i := 0; i+1 < len(m.Content); i += 2 {
		if m.Content[i].Value == name {
			m.Content = slices.Delete(m.Content, i, i+2)
			return
		}
	}
}

// plain has a tree that is written in braces written in lines. Keys lose the quotes that they do not need.
func plain(n *yaml.Node) {
	if len(n.Content) > 0 {
		n.Style &^= yaml.FlowStyle
	}
	for i, child := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 {
			if isWord(child.Value) {
				child.Style &^= yaml.DoubleQuotedStyle
			}
		}
		plain(child)
	}
}

// isWord reports whether a key is a name of letters and digits that YAML takes for a text without quotes, in any version.
func isWord(s string) bool {
	switch strings.ToLower(s) {
	case "", "y", "n", "yes", "no", "on", "off", "true", "false", "null":
		return false
	}
	letter := func(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }
	for i := range len(s) {
		if !letter(s[i]) && (i == 0 || s[i] < '0' || s[i] > '9') {
			return false
		}
	}
	return true
}
