package printable

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestText(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"plain", "reviews.shop", "reviews.shop"},
		{"letters of any language stay", "café 日本", "café 日本"},
		{"an escape sequence", "a\x1b[2Jb", "a\uFFFD[2Jb"},
		{"a line feed", "a\nb", "a\uFFFDb"},
		{"a carriage return", "a\rb", "a\uFFFDb"},
		{"the separators of lines and paragraphs", "a\u2028b\u2029c", "a\uFFFDb\uFFFDc"},
		{"the direction of writing", "a\u202Eb\u2066c", "a\uFFFDb\uFFFDc"},
		{"nothing wide", "a\u200Bb", "a\uFFFDb"},
		{"not UTF-8", "a\xffb", "a\uFFFDb"},
		{"cut", "0123456789abcdefg", "0123456789abc…"},
		{"cut within a character", "0123456789ab日本", "0123456789ab…"},
	} {
		if got := Text(c.in, 16); got != c.want {
			t.Errorf("%s: %q becomes %q, want %q", c.name, c.in, got, c.want)
		}
	}
	if got := Lines("a\n\tb\x1b", 16); got != "a\n\tb\uFFFD" {
		t.Errorf("lines: %q", got)
	}
}

func FuzzText(f *testing.F) {
	f.Add("a\x1b[2J\xff日本", 5)
	f.Add(strings.Repeat("\xff", 300), 256)
	f.Fuzz(func(t *testing.T, s string, limit int) {
		limit = min(max(limit, 0), 1<<16)
		got := Text(s, limit)
		if len(got) > limit || !utf8.ValidString(got) {
			t.Fatalf("%d bytes of at most %d, valid: %t", len(got), limit, utf8.ValidString(got))
		}
		if again := Text(got, limit); strings.ReplaceAll(again, "\uFFFD", "") != strings.ReplaceAll(got, "\uFFFD", "") {
			t.Fatalf("%q becomes %q", got, again)
		}
		if Is(s, limit) && got != s {
			t.Fatalf("%q is fit to be shown and becomes %q", s, got)
		}
	})
}

func TestIsName(t *testing.T) {
	for s, want := range map[string]bool{
		"": true, "reviews-v1.shop": true, "app.kubernetes.io/name": true, "A_9": true, "0123456789abcdefghijkl": true,
		"0123456789abcdefghijklm": false, "a b": false, "a,b": false, "a=b": false, "é": false, "a\n": false, "a\xff": false,
	} {
		if got := IsName(s, 22); got != want {
			t.Errorf("%q is a name: %v, want %v", s, got, want)
		}
	}
}
