package spelling

import "testing"

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		most int
		want int
	}{
		{"", "", 3, 0}, {"timeout", "TimeOut", 3, 0}, {"timeot", "timeout", 3, 1}, {"tiemout", "timeout", 3, 2},
		{"hosts", "ports", 3, 2}, {"", "abc", 3, 3},
		{"", "abcd", 3, 4}, {"abcdefgh", "a", 3, 4}, {"kitten", "sitting", 9, 3},
	} {
		if got := Distance(c.a, c.b, c.most); got != c.want || Distance(c.b, c.a, c.most) != c.want {
			t.Errorf("%q and %q are %d apart, want %d", c.a, c.b, got, c.want)
		}
	}
}
