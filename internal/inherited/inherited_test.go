package inherited

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"fairway/internal/golden"
)

// TestTablesAreWhole: no name is twice in a table, and each that has no effect has a reason.
func TestTablesAreWhole(t *testing.T) {
	for _, p := range []Program{Control(), Agent(), Interception()} {
		for what, groups := range map[string][]Group{"variable": p.Variables, "flag": p.Flags} {
			found := map[string]bool{}
			for _, g := range groups {
				if (g.Why == "") != (g.State == InForce) || len(g.Names) == 0 {
					t.Errorf("%s: group %v is %q with the reason %q", p.Name, g.Names, g.State, g.Why)
				}
				for _, name := range g.Names {
					if found[name] {
						t.Errorf("%s: %s %s is there twice", p.Name, what, name)
					}
					found[name] = true
				}
			}
		}
	}
}

// literals returns all strings that the sources of rooms contain.
func literals(t *testing.T, rooms ...string) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	for _, room := range rooms {
		err := filepath.WalkDir(filepath.Join("..", room), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				return fmt.Errorf("parse %s: %w", path, err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
					if text, err := strconv.Unquote(l.Value); err == nil {
						out[text] = true
					}
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// TestTablesAgreeWithTheCode: the program reads the options that the tables list as in force, and no others.
func TestTablesAgreeWithTheCode(t *testing.T) {
	// Read by a library, computed of a prefix, or the name of something else as well.
	otherwise := []string{"KUBERNETES_SERVICE_HOST", "ISTIO_META_CLUSTER_ID", "CLUSTER_ID", "DNS_CAPTURE", "ISTIO_PROMETHEUS_ANNOTATIONS"}
	for _, c := range []struct {
		program Program
		rooms   []string
	}{
		{Control(), []string{"app", "inject", "webhook", "writes"}},
		{Agent(), []string{"agent"}},
	} {
		read := literals(t, c.rooms...)
		for _, g := range c.program.Variables {
			for _, name := range g.Names {
				if slices.Contains(otherwise, name) {
					continue
				}
				if read[name] != (g.State == InForce) {
					t.Errorf("%s: %s is %q; its name is in the sources of %v: %v", c.program.Name, name, g.State, c.rooms, read[name])
				}
			}
		}
	}
}

// TestReport: each name that is set and not in force is logged once, with its reason and without its value.
func TestReport(t *testing.T) {
	flags := pflag.NewFlagSet("discovery", pflag.ContinueOnError)
	Control().Accept(flags)
	if err := flags.Parse([]string{"--resync", "hidden", "--clusterAliases=hidden=x"}); err != nil {
		t.Fatal(err)
	}
	set := map[string]string{
		"PILOT_ENABLE_AMBIENT": "hidden", "PILOT_HTTP10": "hidden", "REVISION": "hidden", "PILOT_PUSH_THROTTLE": "", "HOME": "hidden",
	}
	var log bytes.Buffer
	Control().Report(slog.New(slog.NewTextHandler(&log, nil)), func(name string) (string, bool) { v, ok := set[name]; return v, ok }, flags)
	got := log.String()
	for _, want := range []string{
		"level=INFO msg=\"an environment variable of Istio's has no effect\" variable=PILOT_ENABLE_AMBIENT state=\"not needed\" why=",
		"level=WARN msg=\"an environment variable of Istio's has no effect\" variable=PILOT_HTTP10 state=\"not yet\" why=",
		"level=INFO msg=\"a flag of Istio's has no effect\" flag=--resync state=\"not needed\" why=",
		"level=WARN msg=\"a flag of Istio's has no effect\" flag=--clusterAliases state=\"not yet\" why=",
	} {
		if strings.Count(got, want) != 1 {
			t.Errorf("log lacks %s:\n%s", want, got)
		}
	}
	if strings.Contains(got, "hidden") || strings.Count(got, "\n") != 4 {
		t.Errorf("log has other lines, or a value:\n%s", got)
	}
}

// TestPage: docs/variables.md has the same variables as the tables.
func TestPage(t *testing.T) {
	var page strings.Builder
	page.WriteString(`# Environment variables and flags of Istio's programs

Each variable and flag of Istio's that is set and has no effect here is logged at the start, with the reason: at level INFO if it is not needed,
at WARN if it is not there yet. Values are never logged. This page is made from the same table (` + "`internal/inherited`; `go test ./internal/inherited -update`" + `).
Variables and flags that Fairway adds are on the pages of what they are for, and in ` + "`--help`" + `.
`)
	for _, p := range []Program{Control(), Agent(), Interception()} {
		for _, part := range []struct {
			title, dashes string
			groups        []Group
		}{{"environment variables", "", p.Variables}, {"flags", "--", p.Flags}} {
			if len(part.groups) == 0 {
				continue // each flag is read from a variable of its name
			}
			fmt.Fprintf(&page, "\n## %s: %s\n\n| names | state | why |\n|---|---|---|\n", p.Name, part.title)
			for _, g := range part.groups {
				names := make([]string, len(g.Names))
				for i, name := range g.Names {
					names[i] = "`" + part.dashes + name + "`"
				}
				slices.Sort(names)
				fmt.Fprintf(&page, "| %s | %s | %s |\n", strings.Join(names, ", "), g.State, g.Why)
			}
		}
	}
	golden.File(t, "../../docs/variables.md", page.String())
}
