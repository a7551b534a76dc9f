package config

import (
	"bytes"
	"strings"

	"fairway/internal/config/document"
)

// guessIdentity reads kind, namespace and name out of a text that does not parse, line by line, so that its problem can name the object.
// What is not certain is left empty. It returns the mistake with a message that may be shown.
func (w *draft) guessIdentity(bad *document.Mistake) *document.Mistake {
	var kind, name, namespace string
	inMetadata := false
	for line := range bytes.Lines(w.Document.Text) {
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
		return bad
	}
	if namespace == "" {
		namespace = w.namespace
	}
	w.refer(kind, namespace, name)
	if kind == string(Secret) { // the parser's own words may quote it
		return &document.Mistake{Line: bad.Line, Message: "the text is neither valid YAML nor JSON", Fix: bad.Fix}
	}
	return bad
}

// plainField splits "key: value" if both are simple.
func plainField(line string) (key, value string, indented bool) {
	indented = strings.HasPrefix(line, " ")
	key, value, ok := strings.Cut(strings.TrimSpace(line), ":")
	if !ok || strings.ContainsAny(key, " \"'{}[]#-") {
		return "", "", indented
	}
	value, _, _ = strings.Cut(value, " #")
	return key, strings.Trim(strings.TrimSpace(value), `"'`), indented
}
