package warming

import "testing"

func TestReports(t *testing.T) {
	for _, r := range []Report{{}, {Listeners: 1}, {Clusters: 12}, {Listeners: 3, Clusters: 4}, {Unknown: true}, {Untold: true}} {
		if got, err := Decode(r.Encode()); err != nil || got != r {
			t.Errorf("%+v is %q, which reads as %+v: %v", r, r.Encode(), got, err)
		}
	}
	for _, bad := range []string{
		"x", "listeners=1", "listeners=-1 clusters=0", "listeners=1 clusters=2 more", "listeners=01 clusters=2", "listeners=0 clusters=0",
		"listeners=1 clusters=99999999999999999999", "listeners=1 clusters=1000001", "listeners=1\nclusters=2", "\xff",
	} {
		if got, err := Decode(bad); err == nil || !got.None() {
			t.Errorf("%q reads as %+v", bad, got)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add("listeners=1 clusters=2")
	f.Add("unknown")
	f.Fuzz(func(t *testing.T, text string) {
		if r, err := Decode(text); err == nil && r.Encode() != text {
			t.Errorf("%q reads as %+v, which is %q", text, r, r.Encode())
		}
	})
}
