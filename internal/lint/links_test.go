package lint

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// linkPattern matches a link of Markdown; fencePattern a block; headingPattern a heading.
var (
	linkPattern    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	fencePattern   = regexp.MustCompile("(?ms)^ *```.*?^ *```")
	headingPattern = regexp.MustCompile(`(?m)^#+ (.*)$`)
	innerPattern   = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	droppedPattern = regexp.MustCompile(`[^\p{L}\p{N}_\- ]`)
)

// TestLinksLead: each link of a page leads to a file of the tree, and to a heading of it.
func TestLinksLead(t *testing.T) {
	const top = "../.."
	links := 0
	for _, dir := range []string{".", "docs", "examples", "deploy"} {
		if err := filepath.WalkDir(filepath.Join(top, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || dir == "." && d.IsDir() && path != top {
				if dir == "." && err == nil {
					return filepath.SkipDir
				}
				return err
			}
			if d.IsDir() || filepath.Ext(path) != ".md" {
				return nil
			}
			text, err := os.ReadFile(path)
			for _, m := range linkPattern.FindAllStringSubmatch(fencePattern.ReplaceAllString(string(text), ""), -1) {
				if strings.Contains(m[1], "://") {
					continue
				}
				links++
				if why := dead(path, m[1]); why != "" {
					t.Errorf("%s: the link %s leads nowhere: %s", path, m[1], why)
				}
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	if links < 200 {
		t.Errorf("only %d links were found", links)
	}
}

// dead returns why a link of a page leads nowhere; empty: it does not.
func dead(page, link string) string {
	file, heading, _ := strings.Cut(link, "#")
	to := page
	if file != "" {
		to = filepath.Join(filepath.Dir(page), filepath.FromSlash(file))
	}
	if _, err := os.Stat(to); err != nil {
		return "there is no such file"
	}
	if heading == "" || filepath.Ext(to) != ".md" {
		return ""
	}
	text, err := os.ReadFile(to)
	if err != nil {
		return err.Error()
	}
	for _, m := range headingPattern.FindAllStringSubmatch(fencePattern.ReplaceAllString(string(text), ""), -1) {
		name := strings.ToLower(strings.TrimSpace(innerPattern.ReplaceAllString(m[1], "$1")))
		if strings.ReplaceAll(droppedPattern.ReplaceAllString(name, ""), " ", "-") == heading {
			return ""
		}
	}
	return "the page has no such heading"
}
