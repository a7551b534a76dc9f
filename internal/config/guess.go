package config

import (
	"bytes"
	"strings"

	"fairway/internal/mesh"
)

// guessIdentity reads kind, namespace and name out of a text that does not parse, line by line, so that its problem can
// name the object that it was meant to be. What cannot be told for certain is left empty.
func (w *draft) guessIdentity() {
	if w.key.Kind != "" { // mesh configuration: known from where the text stands
		return
	}
	var kind, name, namespace string
	inMetadata := false
	for line := range bytes.Lines(w.doc.Text) {
		key, value, indented := plainField(string(line))
		switch {
		case key == "":
		case !indented:
			inMetadata = key == "metadata" && value == ""
			if key == "kind" {
				kind = value
			}
		case inMetadata && key == "name" && name == "":
			name = value
		case inMetadata && key == "namespace" && namespace == "":
			namespace = value
		}
	}
	if kind == "" || name == "" {
		return
	}
	if namespace == "" {
		namespace = w.namespace
	}
	last := &w.problems[len(w.problems)-1]
	if kind == string(Secret) {
		last.Message = "the text is neither valid YAML nor JSON" // the parser's own words may quote it
	}
	last.Object = mesh.ObjectRef{
		Kind:      shownName(kind),
		Namespace: shownName(namespace),
		Name:      shownName(name),
		File:      w.doc.File,
		Line:      w.doc.Line,
	}
}

// plainField takes "key: value" apart where both are simple.
func plainField(line string) (key, value string, indented bool) {
	indented = strings.HasPrefix(line, " ")
	key, value, ok := strings.Cut(strings.TrimSpace(line), ":")
	if !ok || strings.ContainsAny(key, " \"'{}[]#-") {
		return "", "", indented
	}
	value, _, _ = strings.Cut(value, " #")
	return key, strings.Trim(strings.TrimSpace(value), `"'`), indented
}
