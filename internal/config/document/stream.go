package document

import (
	"bytes"
	"encoding/json"
)

// objects splits a document that is several JSON objects, one after the other, as programs write them and kubectl reads them; any other
// document is returned unchanged. If a part is not a JSON object, the document stays whole and is refused by the decoder.
func objects(d Document) []Document {
	body := skipBlank(d.Text)
	if len(body) == 0 || body[0] != '{' {
		return []Document{d}
	}
	var out []Document
	line := d.Line
	for rest := d.Text; len(out) <= MaxDocuments; {
		body := skipBlank(rest)
		if len(body) == 0 {
			break
		}
		line += bytes.Count(rest[:len(rest)-len(body)], []byte("\n"))
		end := objectEnd(body)
		if len(out) == 0 && (end < 0 || len(skipBlank(body[end:])) == 0) {
			return []Document{d}
		}
		if end < 0 || body[0] != '{' || !json.Valid(body[:end]) {
			return []Document{d}
		}
		out = append(out, Document{File: d.File, Line: line, Text: body[:end:end]})
		line += bytes.Count(body[:end], []byte("\n"))
		rest = body[end:]
	}
	return out
}

// objectEnd returns where the object or list at the start of the text ends, if the text is JSON; below 0 if it does not end.
func objectEnd(text []byte) int {
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			if depth--; depth <= 0 {
				return i + 1
			}
		}
	}
	return -1
}
