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
}
