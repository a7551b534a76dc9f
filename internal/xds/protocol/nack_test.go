package protocol

import "testing"

func TestErrorTextNames(t *testing.T) {
	const text = "Error adding/updating cluster(s) outbound|80||a.b: bad, 80/x and route 90."
	for name, want := range map[string]bool{
		"outbound|80||a.b": true, "outbound|80||a": true, "80": false, "80/x": true, "x": false, "90": true, "": false, "0": false,
	} {
		if names(text, name) != want {
			t.Errorf("names(%q) is not %v", name, want)
		}
	}
	for _, c := range []struct {
		text, name string
		want       bool
	}{
		{"80: bad", "80", true}, {"bad: 80", "80", true}, {"80", "80", true}, {"8", "80", false}, {"", "80", false},
		{"a80 80 ", "80", true}, {"80a 80b", "80", false}, {"808080", "80", false}, {"x-a x_a x|a x/a x0a xZa xAa aA a9 az", "a", false},
		{"(a)", "a", true}, {"aba a", "a", true}, {"é", "é", true},
	} {
		if names(c.text, c.name) != c.want {
			t.Errorf("names(%q, %q) is not %v", c.text, c.name, c.want)
		}
	}
}
