package kubeinject

import (
	"bytes"
	"encoding/json"
	"fmt"

	"fairway/internal/config/document"
)

// piece is the text of one object in a file. All pieces' marker and body, one after the other, are the file.
type piece struct {
	line   int    // of body, from 1
	marker []byte // the line that separates it from the piece before; empty at the beginning, and between objects of JSON
	body   []byte
}

// split cuts a file at lines of "---", and between JSON objects that follow each other.
func split(text []byte) ([]piece, error) {
	var out []piece
	add := func(p piece) {
		if len(p.marker)+len(p.body) > 0 {
			out = append(out, objects(p)...)
		}
	}
	p, start, line := piece{line: 1}, 0, 1
	for at := 0; at < len(text); line++ {
		end := len(text)
		if i := bytes.IndexByte(text[at:], '\n'); i >= 0 {
			end = at + i + 1
		}
		if separates(text[at:end]) {
			p.body = text[start:at]
			add(p)
			p, start = piece{line: line}, at
			if alone(text[at:end]) {
				p, start = piece{line: line + 1, marker: text[at:end]}, end
			}
		}
		if len(out) > document.MaxDocuments {
			return nil, fmt.Errorf("more than %d objects", document.MaxDocuments)
		}
		at = end
	}
	p.body = text[start:]
	add(p)
	return out, nil
}

func separates(line []byte) bool {
	return bytes.HasPrefix(line, []byte("---")) && (len(line) == 3 || bytes.IndexByte([]byte(" \t\r\n"), line[3]) >= 0)
}

// alone reports whether only a comment follows a separator.
func alone(line []byte) bool {
	rest := bytes.TrimSpace(line[3:])
	return len(rest) == 0 || rest[0] == '#'
}

// objects splits a piece with several JSON objects. A piece that is not all JSON stays whole.
func objects(p piece) []piece {
	if body := bytes.TrimSpace(p.body); len(body) == 0 || body[0] != '{' {
		return []piece{p}
	}
	in := json.NewDecoder(bytes.NewReader(p.body))
	var out []piece
	from, line := 0, p.line
	for in.More() && len(out) <= document.MaxDocuments {
		var raw json.RawMessage
		if in.Decode(&raw) != nil {
			return []piece{p}
		}
		to := int(in.InputOffset())
		next := piece{line: line, body: p.body[from:to]}
		if len(out) == 0 {
			next.marker = p.marker
		}
		out = append(out, next)
		line += bytes.Count(p.body[from:to], []byte("\n"))
		from = to
	}
	last := &out[len(out)-1]
	last.body = append(last.body[:len(last.body):len(last.body)], p.body[from:]...)
	return out
}
