package analyze

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"istio.io/api/annotation"
	"istio.io/api/label"

	"fairway/internal/golden"
)

// namePattern matches names of annotations and labels with a domain, and those of ours.
var namePattern = regexp.MustCompile(`^(([a-z0-9-]+\.)*(istio|kubernetes|k8s|prometheus)\.io|fairway)/[a-zA-Z][a-zA-Z0-9._-]*[a-zA-Z0-9]$`)

// otherNames look so, and are API groups, types and values, or labels that the control plane ignores.
var otherNames = regexp.MustCompile(`^([a-z0-9.-]+/v[0-9][a-z0-9]*|istio\.io/(api|debug|dns-key-and-cert` +
	`|ingress-controller|gateway-controller|unmanaged-gateway)` +
	`|gateway\.networking\.k8s\.io/Gateway(Class)?|discovery\.k8s\.io/EndpointSlice|networking\.istio\.io/ServiceEntry` +
	`|kubernetes\.io/(h2c|ws|wss|tls|dockerconfigjson)|kubectl\.kubernetes\.io/last-applied-configuration|sigs\.k8s\.io/.*` +
	`|(apps|batch|statefulset)\.kubernetes\.io/.*|app\.kubernetes\.io/(instance|managed-by)|pod-security\.kubernetes\.io/enforce` +
	`|fairway/(deploy|gateway-controller|unmanaged-gateway))$`)

// documented is a row of testdata/names.txt.
type documented struct{ kind, name, on, does string }

// istios is what Istio's API says of a name.
type istios struct {
	on         string
	deprecated bool
}

// TestNamesReference: docs/reference/annotations.md has each annotation and label of Istio's API, and each that the code names; those that
// do nothing are the ones that analyze reports. -update writes it.
func TestNamesReference(t *testing.T) {
	api, rows := istiosNames(), readNames(t)
	known := map[string]bool{}
	for _, r := range rows {
		known[r.name] = true
		if _, ofIstio := api[r.kind+" "+r.name]; ofIstio != (r.on == "=") {
			t.Errorf("testdata/names.txt: %s: write = as its objects if it is of Istio's API, else the objects", r.name)
		}
	}
	for key := range api {
		if !slices.ContainsFunc(rows, func(r documented) bool { return r.kind+" "+r.name == key }) {
			t.Errorf("testdata/names.txt lacks %s of Istio's API", key)
		}
	}
	for _, a := range annotation.AllResourceAnnotations() {
		at := slices.IndexFunc(rows, func(r documented) bool { return r.kind == "A" && r.name == a.Name })
		if at >= 0 && strings.HasPrefix(rows[at].does, "none: ") == carriedOut(a) {
			t.Errorf("testdata/names.txt says of %s: %s, and carriedOut says %v", a.Name, rows[at].does, carriedOut(a))
		}
	}
	for name, file := range namesInCode(t) {
		if !known[name] {
			t.Errorf("%s has %s: say in testdata/names.txt what it does, or add it to otherNames", file, name)
		}
	}
	golden.File(t, "../../docs/reference/annotations.md", namesPage(rows, api))
}

func istiosNames() map[string]istios {
	out := map[string]istios{}
	add := func(kind, name string, deprecated bool, on []string) {
		out[kind+" "+name] = istios{strings.Join(on, ", "), deprecated}
	}
	for _, a := range annotation.AllResourceAnnotations() {
		var on []string
		for _, r := range a.Resources {
			on = append(on, r.String())
		}
		add("A", a.Name, a.Deprecated, on)
	}
	for _, l := range label.AllResourceLabels() {
		var on []string
		for _, r := range l.Resources {
			on = append(on, r.String())
		}
		add("L", l.Name, l.Deprecated, on)
	}
	return out
}

func readNames(t *testing.T) (out []documented) {
	t.Helper()
	text, err := os.ReadFile("testdata/names.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.SplitN(strings.TrimSpace(line), " | ", 3)
		kind, name, _ := strings.Cut(f[0], " ")
		if len(f) != 3 || kind != "A" && kind != "L" {
			t.Fatalf("testdata/names.txt: %q: want A or L, a name | objects | what it does", line)
		}
		out = append(out, documented{kind, name, f[1], f[2]})
	}
	return out
}

// namesInCode returns the names that literals of the programs have, each with a file.
func namesInCode(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, root := range []string{"../../internal", "../../cmd"} {
		if err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			for _, decl := range file.Decls {
				if g, ok := decl.(*ast.GenDecl); ok && g.Tok == token.IMPORT {
					continue
				}
				ast.Inspect(decl, func(n ast.Node) bool {
					if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
						text, _ := strconv.Unquote(literal.Value)
						text, _, _ = strings.Cut(text, "=") // of a selector
						if namePattern.MatchString(text) && !otherNames.MatchString(text) {
							out[text] = path
						}
					}
					return true
				})
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	if len(out) < 40 {
		t.Errorf("only %d names were found", len(out))
	}
	return out
}

func namesPage(rows []documented, api map[string]istios) string {
	tables := map[string]*strings.Builder{"A": {}, "L": {}, "none": {}}
	slices.SortStableFunc(rows, func(a, b documented) int { return strings.Compare(a.name, b.name) })
	for _, r := range rows {
		its, into, does := api[r.kind+" "+r.name], tables[r.kind], r.does
		on := r.on
		if on == "=" {
			on = its.on
		}
		if reason, nothing := strings.CutPrefix(does, "none: "); nothing {
			into, does = tables["none"], reason
		} else if its.deprecated {
			does += " (deprecated)"
		}
		fmt.Fprintf(into, "| `%s` | %s | %s |\n", r.name, on, does)
	}
	form := "# Annotations and labels\n\n" +
		"The annotations and labels that the control plane, injection and the agent read or write. " +
		"A test makes this page from Istio's API, the\n" +
		"code and `internal/analyze/testdata/names.txt` (`go test ./internal/analyze -update`). `pilotctl analyze` reports\n" +
		"annotations of Istio's that are misspelt, on an object of another kind, deprecated, or without an effect.\n" +
		"[../injection.md](../injection.md) explains those of pods.\n\n" +
		"## Annotations\n\n| annotation | on | it is |\n|---|---|---|\nA\n" +
		"## Labels\n\n| label | on | it is |\n|---|---|---|\nL\n" +
		"## Without an effect\n\nThese are of Istio's API and do nothing here.\n\n| name | on | reason |\n|---|---|---|\nnone\n"
	for _, key := range slices.Sorted(maps.Keys(tables)) {
		form = strings.Replace(form, "|\n"+key+"\n", "|\n"+tables[key].String()+"\n", 1)
	}
	return strings.TrimRight(form, "\n") + "\n"
}
