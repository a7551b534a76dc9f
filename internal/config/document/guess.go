package document

import (
	"bytes"
	"strings"
)

// Guess reads apiVersion, kind, namespace and name of an object out of a text that does not parse, line by line. A part that is not
// certain is empty.
func Guess(text []byte) (version, kind, namespace, name string) {
	inMetadata := false
	for line := range bytes.Lines(text) {
		key, value, indented := plainField(string(line))
		switch {
		case key == "":
		case !indented:
			inMetadata = key == "metadata" && value == ""
			switch key {
			case "kind":
				kind = value
			case "apiVersion":
				version = value
			}
		case inMetadata && key == "name" && name == "":
			name = value
		case inMetadata && key == "namespace" && namespace == "":
			namespace = value
		}
	}
	return version, kind, namespace, name
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
