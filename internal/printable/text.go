package printable

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits on the kept part of a stranger's text, in bytes.
const (
	Short = 256  // in a line of a log or a table
	Long  = 4096 // where the words themselves matter, as those of a refusal
)

// cutMark marks where text was cut.
const cutMark = "…"

// Text returns at most limit bytes of s. It replaces every byte that is not valid UTF-8 and every character that could change how the rest
// is shown by U+FFFD. It looks at no more than limit bytes of s. If anything was changed or cut, the result shares no memory with s.
func Text(s string, limit int) string { return clean(s, limit, false) }

// Lines is Text, but keeps line feeds and tabs. It is for text that is shown on lines of its own.
func Lines(s string, limit int) string { return clean(s, limit, true) }

func clean(s string, limit int, lines bool) string {
	head := s
	if len(s) > limit {
		head = s[:max(0, limit-len(cutMark))]
		for len(head) > 0 && !utf8.RuneStart(s[len(head)]) && !utf8.ValidString(head) { // the cut is inside a character
			head = head[:len(head)-1]
		}
	}
	if len(head) == len(s) && !strings.ContainsFunc(s, func(r rune) bool { return !shown(r, lines) }) {
		return s
	}
	var b strings.Builder
	for _, r := range head {
		if !shown(r, lines) {
			r = utf8.RuneError
		}
		if b.Len()+utf8.RuneLen(r) > limit {
			break
		}
		b.WriteRune(r)
	}
	if len(head) < len(s) && b.Len()+len(cutMark) <= limit {
		b.WriteString(cutMark)
	}
	return b.String()
}

// Is reports whether s is valid UTF-8 of at most limit bytes with nothing in it that Text would replace.
func Is(s string, limit int) bool {
	return len(s) <= limit && !strings.ContainsFunc(s, func(r rune) bool { return !shown(r, false) })
}

// shown reports whether a character shows as itself and does not affect its neighbours. U+FFFD does not count: bytes that are not UTF-8
// decode to it.
func shown(r rune, lines bool) bool {
	if lines && (r == '\n' || r == '\t') {
		return true
	}
	return r != utf8.RuneError && !unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Co, unicode.Cs)
}

// IsName reports whether a text has at most so many bytes, and only those of names and labels: ASCII letters and digits, '-', '_', '.' and
// '/'. The empty text is a name.
func IsName(s string, most int) bool {
	if len(s) > most {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_', c == '.', c == '/':
		default:
			return false
		}
	}
	return true
}
