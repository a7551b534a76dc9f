package document

import (
	"math"
	"strings"
)

// parsePlain reads the subset of YAML that nearly all rules use: block maps and lists, scalars of one line, simple flow collections. It is
// some ten times as fast as the library, which matters for a start with thousands of files. If it is not sure of a text, also because of a
// mistake, ok is false and the text goes to the library. If ok is true, the library would return the same (a fuzz test compares them).
func parsePlain(text []byte) (any, bool) {
	for _, c := range text {
		if c < ' ' && c != '\n' || c >= 0x7f {
			return nil, false
		}
	}
	p := &plain{rest: string(text)}
	p.next()
	if p.indent != 0 || p.line == "" {
		return nil, false
	}
	tree, ok := p.mapping(0, 0)
	return tree, ok && p.line == "" && !p.bad
}

// plain is the parser's state: the current line and the rest.
type plain struct {
	rest   string
	line   string // without indentation and trailing blanks; empty at the end
	indent int
	bad    bool // a line that no simple document has
}

// The limits keep keys within the library's limit for simple ones, and the stack small.
const (
	maxPlainLine  = 1000
	maxPlainDepth = 50
)

// next goes to the next line that is not blank or a comment.
func (p *plain) next() {
	for p.rest != "" {
		line, rest, _ := strings.Cut(p.rest, "\n")
		p.rest = rest
		text := strings.TrimLeft(line, " ")
		if text == "" || text[0] == '#' {
			continue
		}
		p.indent, p.line = len(line)-len(text), strings.TrimRight(text, " ")
		if len(line) > maxPlainLine || p.indent == 0 && (strings.HasPrefix(text, "---") || strings.HasPrefix(text, "...")) {
			p.bad = true
		}
		return
	}
	p.line, p.indent = "", -1
}

// node reads the node at the current line, which is indented by indent.
func (p *plain) node(indent, depth int) (any, bool) {
	if depth > maxPlainDepth || p.bad {
		return nil, false
	}
	if isItem(p.line) {
		return p.list(indent, depth)
	}
	return p.mapping(indent, depth)
}

func isItem(line string) bool { return line == "-" || strings.HasPrefix(line, "- ") }

func (p *plain) mapping(indent, depth int) (any, bool) {
	out := map[string]any{}
	for p.line != "" && p.indent == indent && !isItem(p.line) {
		key, value, ok := cutKey(p.line)
		if !ok || p.bad {
			return nil, false
		}
		if _, twice := out[key]; twice {
			return nil, false
		}
		if value == "" {
			p.next()
			switch {
			case p.line != "" && (p.indent > indent || p.indent == indent && isItem(p.line)):
				if out[key], ok = p.node(p.indent, depth+1); !ok {
					return nil, false
				}
			default:
				out[key] = nil
			}
			continue
		}
		if out[key], ok = p.inline(value, indent); !ok {
			return nil, false
		}
	}
	return out, p.indent < indent || p.line == "" || p.indent == indent && isItem(p.line)
}

func (p *plain) list(indent, depth int) (any, bool) {
	var out []any
	for p.line != "" && p.indent == indent && isItem(p.line) {
		v, ok := p.item(indent, depth)
		if !ok {
			return nil, false
		}
		out = append(out, v)
	}
	return out, p.indent <= indent
}

// item reads one "- …". A map may start right behind the dash: its indentation is where it starts.
func (p *plain) item(indent, depth int) (any, bool) {
	text := strings.TrimLeft(p.line[1:], " ")
	if text == "" || text[0] == '#' {
		p.next()
		if p.line != "" && p.indent > indent {
			return p.node(p.indent, depth+1)
		}
		return nil, true
	}
	if isItem(text) {
		return nil, false
	}
	if _, _, ok := cutKey(text); ok {
		p.indent += len(p.line) - len(text)
		p.line = text
		return p.node(p.indent, depth+1)
	}
	return p.inline(text, indent)
}

// inline reads a value after its key or dash, and goes to the next line, which must not continue it.
func (p *plain) inline(value string, indent int) (any, bool) {
	v, rest, ok := scalar(value, 0, false)
	if !ok || !isEnd(rest) {
		return nil, false
	}
	p.next()
	return v, p.line == "" || p.indent <= indent
}

// isEnd reports whether only a comment follows a value.
func isEnd(rest string) bool {
	rest2 := strings.TrimLeft(rest, " ")
	return rest2 == "" || rest2[0] == '#' && len(rest2) < len(rest)
}

// cutKey splits "key: value" or "key:". It knows keys of letters, digits and -_./ and quoted ones without escapes.
func cutKey(line string) (key, value string, ok bool) {
	end := 0
	if quote := line[0]; quote == '"' || quote == '\'' {
		close := strings.IndexByte(line[1:], quote)
		if close < 0 || strings.IndexByte(line[1:close+1], '\\') >= 0 {
			return "", "", false
		}
		key, end = line[1:close+1], close+2
	} else {
		for end < len(line) && isKeyByte(line[end]) {
			end++
		}
		if end == 0 || line[0] == '-' || line[0] == '.' || line[0] == '/' {
			return "", "", false
		}
		if key, ok = plainKey(line[:end]); !ok {
			return "", "", false
		}
	}
	if end >= len(line) || line[end] != ':' || end+1 < len(line) && line[end+1] != ' ' {
		return "", "", false
	}
	value = strings.TrimLeft(line[end+1:], " ")
	if value != "" && value[0] == '#' {
		value = ""
	}
	return key, value, true
}

func isKeyByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c == '.' || c == '/'
}

// scalar reads a value and returns what follows it.
func scalar(s string, depth int, flow bool) (v any, rest string, ok bool) {
	switch s[0] {
	case '"', '\'':
		return quoted(s)
	case '[':
		return flowList(s[1:], depth+1)
	case '{':
		return flowMap(s[1:], depth+1)
	case '?', ':', ',', ']', '}', '#', '&', '*', '!', '|', '>', '%', '@', '`':
		return nil, "", false
	case '-':
		if len(s) == 1 || s[1] == ' ' || flow {
			return nil, "", false
		}
	}
	if flow {
		return flowWord(s)
	}
	word := s
	if i := strings.Index(s, " #"); i >= 0 {
		word = strings.TrimRight(s[:i], " ")
	}
	if strings.Contains(word, ": ") || word[len(word)-1] == ':' {
		return nil, "", false
	}
	return finite(resolve(word), "")
}

func finite(v any, rest string) (any, string, bool) {
	if f, isFloat := v.(float64); isFloat && (math.IsNaN(f) || math.IsInf(f, 0)) {
		return nil, "", false
	}
	return v, rest, true
}

// quoted reads a string that needs no unescaping.
func quoted(s string) (any, string, bool) {
	end := strings.IndexByte(s[1:], s[0])
	if end < 0 {
		return nil, "", false
	}
	text, rest := s[1:end+1], s[end+2:]
	if strings.IndexByte(text, '\\') >= 0 && s[0] == '"' || strings.HasPrefix(rest, "'") {
		return nil, "", false
	}
	return text, rest, true
}

// flowWord reads a plain scalar inside brackets: only what cannot be anything else.
func flowWord(s string) (any, string, bool) {
	end := 0
	for end < len(s) && (isKeyByte(s[end]) || s[end] == '*' && end > 0) {
		end++
	}
	if end == 0 || end == len(s) {
		return nil, "", false
	}
	return finite(resolve(s[:end]), s[end:])
}

func flowList(s string, depth int) (any, string, bool) {
	out := []any{}
	for s = strings.TrimLeft(s, " "); ; s = strings.TrimLeft(s, " ") {
		if s == "" || depth > maxPlainDepth {
			return nil, "", false
		}
		if s[0] == ']' && len(out) == 0 {
			return out, s[1:], true
		}
		v, rest, ok := scalar(s, depth, true)
		if !ok {
			return nil, "", false
		}
		out = append(out, v)
		end, more, ok := flowNext(rest, ']')
		if !ok || end {
			return out, more, ok
		}
		s = more
	}
}

// flowNext goes past a comma, or past the closing bracket.
func flowNext(s string, closing byte) (end bool, rest string, ok bool) {
	s = strings.TrimLeft(s, " ")
	switch {
	case s == "":
		return false, "", false
	case s[0] == closing:
		return true, s[1:], true
	case s[0] == ',':
		return false, s[1:], true
	}
	return false, "", false
}

func flowMap(s string, depth int) (any, string, bool) {
	out := map[string]any{}
	for s = strings.TrimLeft(s, " "); ; s = strings.TrimLeft(s, " ") {
		if s == "" || depth > maxPlainDepth {
			return nil, "", false
		}
		if s[0] == '}' && len(out) == 0 {
			return out, s[1:], true
		}
		key, value, ok := cutKey(s)
		if _, twice := out[key]; !ok || twice || value == "" {
			return nil, "", false
		}
		v, rest, ok := scalar(value, depth, true)
		if !ok {
			return nil, "", false
		}
		out[key] = v
		end, more, ok := flowNext(rest, '}')
		if !ok || end {
			return out, more, ok
		}
		s = more
	}
}
