package form_test

import (
	"strings"
	"testing"

	"fairway/internal/inject/form"
)

// TestForms: each check accepts its words, and the error for another word names it or says what would be right.
func TestForms(t *testing.T) {
	for _, c := range []struct {
		name      string
		check     func(string) error
		good, bad []string
		want      string
	}{
		{"ports", form.Ports(false), []string{"", "80", "80, 443,", "65535"}, []string{"0", "65536", "x", "80,x", "*"}, "1 to 65535"},
		{"ports or *", form.Ports(true), []string{"*", " * ", "80"}, []string{"*,80", "-1"}, "or * alone"},
		{"networks", form.Networks(false), []string{"10.0.0.0/8, fd00::/8", "10.0.0.1"}, []string{"10/8", "*", "x"}, "as 10.0.0.0/8"},
		{"networks or *", form.Networks(true), []string{"*", "::1"}, []string{"*,::1"}, "or * alone"},
		{"interfaces", form.Interfaces, []string{"eth0,veth+"}, []string{"+", "..", "a b", strings.Repeat("x", 16)}, "network interfaces"},
		{"number", form.Number(2, 10), []string{"2", "10"}, []string{"1", "11", "", "x", "2.5"}, "from 2 to 10"},
		{"truth", form.Truth, []string{"true", "0"}, []string{"yes", ""}, "neither true nor false"},
		{"one of", form.OneOf("NONE", "TPROXY"), []string{"NONE"}, []string{"none", ""}, "NONE, TPROXY"},
		{"plain", form.Plain, []string{"a", "./a:b"}, []string{"", "-a", "a b", "$a", "a\x00", strings.Repeat("x", 1025)}, "word"},
		{"list", form.Ports(false), nil, []string{strings.Repeat("80,", 1001)}, "of at most 1000"},
	} {
		for _, word := range c.good {
			if err := c.check(word); err != nil {
				t.Errorf("%s: %q is refused: %v", c.name, word, err)
			}
		}
		for _, word := range c.bad {
			if err := c.check(word); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %q: %v, want an error with %q", c.name, word, err, c.want)
			}
		}
	}
	if got := form.Quoted("a\x1b\"" + strings.Repeat("x", 10_000)); strings.Contains(got, "\x1b") || len(got) > 1000 {
		t.Errorf("quoted is %q", got)
	}
}
