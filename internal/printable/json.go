package printable

import (
	"bytes"
	"fmt"
	"unicode/utf8"
)

// JSON returns JSON text in which every character that Lines would replace is written as its escape (\u202e), so that the value stays the
// same and is safe to show. Encoders of JSON escape only those below U+0020; the others can occur only in strings.
func JSON(text []byte) []byte {
	fits := func(r rune) bool { return r != '\u007f' && (r < utf8.RuneSelf || shown(r, true)) }
	i := bytes.IndexFunc(text, func(r rune) bool { return !fits(r) })
	if i < 0 {
		return text
	}
	out := bytes.NewBuffer(append(make([]byte, 0, len(text)+64), text[:i]...))
	for rest := text[i:]; len(rest) > 0; {
		r, size := utf8.DecodeRune(rest)
		switch {
		case r == utf8.RuneError || fits(r): // encoders have replaced invalid UTF-8 by U+FFFD, which is harmless
			out.Write(rest[:size])
		case r > 0xffff:
			r -= 0x10000
			fmt.Fprintf(out, `\u%04x\u%04x`, 0xd800+(r>>10), 0xdc00+(r&0x3ff))
		default:
			fmt.Fprintf(out, `\u%04x`, r)
		}
		rest = rest[size:]
	}
	return out.Bytes()
}
