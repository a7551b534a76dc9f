package library

import (
	"testing"

	"fairway/internal/xdstype"
)

// TestNamesOfARequest: only the wildcard's own name asks for all resources; a request without names does not.
func TestNamesOfARequest(t *testing.T) {
	lib, w := watched(t)
	lib.Publish(2, []Change{put("low", xdstype.ClusterURL, "a", 1)})
	for _, c := range []struct {
		names []string
		want  []string
		star  bool
	}{
		{names: nil},
		{names: []string{"a"}, want: []string{"a"}},
		{names: []string{"unknown"}, want: []string{"unknown"}},
		{names: []string{Wildcard}, star: true},
		{names: []string{"a", Wildcard, "unknown"}, want: []string{"a", "unknown"}, star: true},
	} {
		w.Read(func(v *View) {
			entries, star := v.EnterAll(c.names)
			if star != c.star || len(entries) != len(c.want) {
				t.Fatalf("%q: %d names, wildcard %v", c.names, len(entries), star)
			}
			for i, e := range entries {
				if e == nil || e.Text() != c.want[i] || v.Find(c.want[i]) != e {
					t.Errorf("%q: name %d is %v", c.names, i, e)
				}
			}
		})
	}
}

// TestReadTellsWhetherAttached: a stream has nothing to read if its proxy is not attached.
func TestReadTellsWhetherAttached(t *testing.T) {
	lib := New()
	w := lib.Open("p")
	defer w.Close()
	ran := false
	read := func() bool { return w.Read(func(v *View) { ran = v.Turn == lib.Turn() }) }
	if read() || ran {
		t.Error("something was read before the proxy was attached")
	}
	lib.Publish(1, nil, Attach{"p", &Attachment{}})
	if !read() || !ran {
		t.Error("nothing is read, though the proxy is attached")
	}
	ran = false
	lib.Publish(2, nil, Attach{Proxy: "p"})
	if read() || ran {
		t.Error("something was read after the proxy was detached")
	}
}
