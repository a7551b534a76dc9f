package admin_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"fairway/internal/admin"
	"fairway/internal/admin/change"
	"fairway/internal/admin/page"
	"fairway/internal/golden"
	"fairway/internal/levels"
	"fairway/internal/snapshot"
)

// patternPattern finds the patterns that http.ServeMux gets in this tree.
var patternPattern = regexp.MustCompile(`\.Handle(?:Func)?\(("[^"]*"(?:\s*\+\s*[\w.]+)?)|\{"((?:GET|PUT|POST|DELETE) )("?\s*\+\s*(\w+)|[^"]*)`)

// TestPagesReference: docs/reference/pages.md has every page of the programs; the debug pages are of the code, and a pattern that a program
// serves and the table lacks is an error. -update writes the page.
func TestPagesReference(t *testing.T) {
	found, others := map[string]bool{}, otherPages(t)
	for _, o := range others {
		found[o.file+" "+o.pattern] = true
	}
	for _, file := range served(t) {
		text, err := os.ReadFile(filepath.Join("..", file))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range patternPattern.FindAllStringSubmatch(string(text), -1) {
			pattern := strings.Trim(m[1], `"`)
			if strings.Contains(m[1], "+") {
				pattern = m[1]
			}
			if m[2] != "" {
				if pattern = m[2] + m[3]; m[4] != "" {
					pattern = m[4]
				}
			}
			// Pages below a page that is there, the debug pages, which are above, and a server within another.
			debug := strings.HasPrefix(strings.TrimPrefix(pattern, `"`), "/debug") && file == "admin/pages.go"
			if !debug && pattern != "/" && !found[file+" "+strings.TrimSuffix(pattern, "/")] && !found[file+" "+pattern] {
				t.Errorf("internal/%s serves %s, which the table of this test lacks", file, pattern)
			}
		}
	}
	golden.File(t, "../../docs/reference/pages.md", pagesText(t, others))
}

// served lists the files that serve pages.
func served(t *testing.T) (out []string) {
	t.Helper()
	if err := filepath.WalkDir("..", func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if strings.Contains(string(text), "mux.Handle") || strings.Contains(string(text), "http.NewServeMux") {
			out = append(out, filepath.ToSlash(strings.TrimPrefix(path, "../")))
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return out
}

func pagesText(t *testing.T, others []servedPage) string {
	t.Helper()
	none := func() any { return nil }
	p := &admin.Pages{
		Clusters: none, Sources: none, Writes: none, Authority: none, Keys: none, Lines: func() string { return "" },
		Applies: func(context.Context, string, string, string, string) (page.Reaches, error) {
			return page.Reaches{}, nil
		},
		Plan:   func(context.Context, change.Question) (any, error) { return nil, nil },
		Levels: new(levels.Levels), Snapshot: func() *snapshot.Snapshot { return nil }, Access: admin.Access{Profiles: true},
	}
	var debug, instead, rest strings.Builder
	for _, d := range p.Index() {
		who := "own"
		if d.System {
			who = "system"
		}
		fmt.Fprintf(&debug, "| `%s` | %s | %s |\n", d.Path, who, strings.ReplaceAll(d.About, "|", `\|`))
	}
	absent := admin.Absent()
	for _, path := range slices.Sorted(maps.Keys(absent)) {
		fmt.Fprintf(&instead, "| `%s` | %s |\n", path, absent[path])
	}
	for _, o := range others {
		fmt.Fprintf(&rest, "| `%s` | %s | %s | %s |\n", o.path, o.address, o.readers, o.about)
	}
	form, err := os.ReadFile("testdata/pages.md")
	if err != nil {
		t.Fatal(err)
	}
	return strings.NewReplacer("DEBUG\n", debug.String(), "ABSENT\n", instead.String(), "OTHERS\n", rest.String()).Replace(string(form))
}

// servedPage is a page outside of /debug of pilot-discovery: the pattern in a file that serves it, its address, its callers, its content.
type servedPage struct{ file, pattern, path, address, readers, about string }

// otherPages reads testdata/pages.txt, a page a line.
func otherPages(t *testing.T) (out []servedPage) {
	t.Helper()
	text, err := os.ReadFile("testdata/pages.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		f := strings.Split(strings.TrimSpace(line), " | ")
		if len(f) != 6 {
			t.Fatalf("%q has %d fields, want 6", line, len(f))
		}
		out = append(out, servedPage{f[0], f[1], f[2], f[3], f[4], f[5]})
	}
	return out
}
