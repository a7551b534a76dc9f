package document

import "bytes"

// Split splits a file into its YAML documents, each with the line where it starts; documents without content are left out. JSON objects one
// after the other are separate documents, and so are the items of a list (kind List, as kubectl writes several objects). Texts are parts of
// data, which must not change afterwards. If a file has more than MaxDocuments documents, Split returns a few more than these: the caller
// refuses it.
func Split(file string, data []byte) []Document {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	var out []Document
	add := func(line int, text []byte) {
		for len(text) > 0 { // blank lines and comments before the content belong to no document
			end := bytes.IndexByte(text, '\n') + 1
			if end == 0 {
				end = len(text)
			}
			if !isBlank(text[:end]) {
				break
			}
			text = text[end:]
			line++
		}
		if len(text) > 0 {
			for _, d := range objects(Document{File: file, Line: line, Text: text[:len(text):len(text)]}) {
				out = append(out, expand(d)...)
			}
		}
	}
	start, startLine, line := 0, 1, 1
	for at := 0; at < len(data) && len(out) <= MaxDocuments; line++ {
		end := len(data)
		if i := bytes.IndexByte(data[at:], '\n'); i >= 0 {
			end = at + i + 1
		}
		if next, ok := marker(data[at:end]); ok {
			add(startLine, data[start:at])
			start, startLine = at+next, line
			if next > 0 {
				startLine++
			}
		}
		at = end
	}
	add(startLine, data[start:])
	return out
}

// marker reports whether a line starts a document ("---") or ends one ("..."), and returns where the next one starts in the line.
func marker(line []byte) (next int, ok bool) {
	if !bytes.HasPrefix(line, []byte("---")) && !bytes.HasPrefix(line, []byte("...")) {
		return 0, false
	}
	if len(line) > 3 && !bytes.ContainsRune([]byte(" \t\r\n"), rune(line[3])) {
		return 0, false
	}
	if isBlank(line[3:]) {
		return len(line), true
	}
	return 0, true // content behind the marker: the document keeps its own marker
}

// isBlank reports whether a line has no content: white space, a comment, or a YAML directive.
func isBlank(line []byte) bool {
	if len(line) > 0 && line[0] == '%' {
		return true
	}
	line = bytes.TrimSpace(line)
	return len(line) == 0 || line[0] == '#'
}

// skipBlank returns the text from its first content on.
func skipBlank(text []byte) []byte {
	for len(text) > 0 {
		end := bytes.IndexByte(text, '\n') + 1
		if end == 0 {
			end = len(text)
		}
		if !isBlank(text[:end]) {
			return bytes.TrimLeft(text, " \t\r\n")
		}
		text = text[end:]
	}
	return nil
}
