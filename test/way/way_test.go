package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"fairway/build/envoybin"
	"fairway/internal/golden"
)

// TestWays: the way of a change must not get longer unnoticed. It is an error if it is more than 5 % longer than docs/architecture.md says.
func TestWays(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the control plane with counters, which takes minutes")
	}
	root, err := envoybin.Root()
	if err != nil {
		t.Fatal(err)
	}
	started := time.Now()
	ways, err := measure(t.Context(), root, defaultRounds)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("measured within %s", time.Since(started).Round(time.Second))
	file := filepath.Join(root, "docs", "architecture.md")
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if golden.Update() {
		text, err := replace(string(page), table(ways))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	found, err := grown(string(page), ways)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		t.Errorf("%s. Shorten it, or write the figures with -update", f)
	}
	for _, w := range ways {
		if f := w.parts[own]; f.Functions < 100 || w.parts[engine].Functions < 50 {
			t.Errorf("%s: %+v ran; the change did not go all the way", w.name, w.parts)
		}
	}
}

const example = `package a

type T[K any] struct{}

func (t *T[K]) Ran(on bool) {
	if on {
		println(1)
	}
	println(2)
}

func sometimes() { println(3) }

var later = func() {
	println(4)
}
`

// TestCount: code that ran in every round counts, by its lines and functions, and by part.
func TestCount(t *testing.T) {
	root := t.TempDir()
	for _, file := range []string{"table/a/a.go", "config/a.go", "xds/a.go"} {
		path := filepath.Join(root, "internal", file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(example), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var always blocks
	for _, profile := range []string{
		"mode: atomic\n" + "fairway/internal/xds/a.go:5.29,6.8 1 1\nfairway/internal/xds/a.go:6.8,8.3 1 0\n" +
			"fairway/internal/xds/a.go:9.2,9.12 1 7\n" +
			"fairway/internal/xds/a.go:12.20,12.31 1 1\nfairway/internal/table/a/a.go:14.19,16.2 1 2\n" +
			"fairway/internal/config/a.go:5.29,6.8 1 1\nfairway/test/way/walker/main.go:1.1,2.2 1 1\n",
		"mode: atomic\n" + "fairway/internal/xds/a.go:5.29,6.8 1 1\nfairway/internal/xds/a.go:9.2,9.12 1 1\n" +
			"fairway/internal/table/a/a.go:14.19,16.2 1 2\nfairway/internal/config/a.go:5.29,6.8 1 1\n",
	} {
		ran, err := parse(profile)
		if err != nil {
			t.Fatal(err)
		}
		always = always.and(ran)
	}
	got, err := count(root, "example", always)
	if err != nil {
		t.Fatal(err)
	}
	for part, want := range map[string]figures{own: {1, 1, 1, 3, 16}, engine: {1, 1, 1, 3, 16}, decoder: {1, 1, 1, 2, 16}} {
		if got.parts[part] != want {
			t.Errorf("%s: %+v, want %+v", part, got.parts[part], want)
		}
	}
	want := []string{"config/a.go: T.Ran", "table/a/a.go: line 14", "xds/a.go: T.Ran"}
	if !slices.Equal(got.functions, want) {
		t.Errorf("functions %q, want %q", got.functions, want)
	}
	for _, bad := range []string{"", "mode: atomic\nfairway/internal/a.go", "mode: atomic\nfairway/internal/a.go:1.1,2.2 1\n"} {
		if _, err := parse(bad); err == nil {
			t.Errorf("%q is read as a profile", bad)
		}
	}
}

// TestGrown: a growth by up to 5 %, or by a few, is accepted, and more is not. A written table is read back unchanged.
func TestGrown(t *testing.T) {
	was := []way{{name: "a", parts: map[string]figures{own: {20, 40, 100, 1000, 5000}}}, {name: "b", parts: map[string]figures{}}}
	page, err := replace("before\n"+title+"\n|-|\n| old |\n\nafter\n", table(was))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(page, "before\n|") || !strings.HasSuffix(page, " |\n\nafter\n") || strings.Contains(page, "old") {
		t.Fatalf("the page is\n%s", page)
	}
	for now, want := range map[figures]int{
		{20, 40, 100, 1000, 5000}: 0,
		{1, 1, 1, 1, 1}:           0,
		{21, 42, 105, 1050, 5250}: 0,
		{22, 42, 105, 1051, 5250}: 1,
		{23, 43, 106, 1051, 5251}: 5,
	} {
		found, err := grown(page, []way{{name: "a", parts: map[string]figures{own: now}}, was[1]})
		if err != nil || len(found) != want {
			t.Errorf("%+v: found %q, %v; want %d", now, found, err, want)
		}
	}
	if _, err := grown(page, []way{{name: "other"}}); err == nil {
		t.Error("a way that the page does not have is let pass")
	}
	if _, err := grown("", was); err == nil {
		t.Error("a page without a table is let pass")
	}
}
