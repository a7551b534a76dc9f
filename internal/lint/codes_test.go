package lint

import (
	"go/ast"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const codesFolder = "internal/mesh/code/"

// codes returns the names of the constants of package code, by their values.
func codes(t *testing.T, files []file) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, f := range files {
		if !strings.HasPrefix(f.path, codesFolder) || f.isTest() {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			v, ok := n.(*ast.ValueSpec)
			if !ok {
				return true
			}
			name := v.Names[0].Name
			value := text(v.Values[0])
			if value != name || !strings.HasPrefix(v.Doc.Text(), name+": ") {
				t.Errorf("%s: %s holds %q; a code is its constant's name, and its comment begins with it", f.path, name, value)
			}
			out[value] = name
			return true
		})
	}
	if len(out) == 0 {
		t.Fatal("there are no codes in " + codesFolder)
	}
	return out
}

// text returns the value of a string literal; empty for any other expression.
func text(e ast.Expr) string {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return ""
	}
	s, _ := strconv.Unquote(lit.Value)
	return s
}

// TestCodesAreDocumented: docs/problems.md explains each code, its meaning and what to do, and no other code.
func TestCodesAreDocumented(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "problems.md"))
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile("(?m)^\\| `(\\w+)` \\| ((?:error|warning|info)(?:, (?:error|warning|info))*) \\| [^|]+ \\| [^|]+ \\|$")
	var got []string
	for _, m := range row.FindAllStringSubmatch(string(page), -1) {
		got = append(got, m[1])
	}
	slices.Sort(got)
	want := slices.Sorted(maps.Keys(codes(t, repository(t))))
	for _, c := range want {
		if n := len(got) - len(slices.DeleteFunc(slices.Clone(got), func(g string) bool { return g == c })); n != 1 {
			t.Errorf("docs/problems.md has %d rows of code, severity, meaning and remedy for %s, want 1", n, c)
		}
	}
	for _, c := range got {
		if _, known := slices.BinarySearch(want, c); !known {
			t.Errorf("docs/problems.md tells of %s, which is no code", c)
		}
	}
}

// codeParams returns the positions of parameters called code, by the name of their function: a declared function, a literal that is given a
// name, or a field or parameter.
func codeParams(files []file) map[string][]int {
	out := map[string][]int{}
	add := func(name string, t *ast.FuncType) {
		i := 0
		for _, p := range t.Params.List {
			for _, n := range p.Names {
				if is, ok := p.Type.(*ast.Ident); ok && is.Name == "string" && n.Name == "code" && !slices.Contains(out[name], i) {
					out[name] = append(out[name], i)
				}
				i++
			}
		}
	}
	for _, f := range files {
		ast.Inspect(f.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				add(n.Name.Name, n.Type)
			case *ast.AssignStmt:
				for i, r := range n.Rhs {
					if lit, ok := r.(*ast.FuncLit); ok && i < len(n.Lhs) {
						add(called(n.Lhs[i]), lit.Type)
					}
				}
			case *ast.Field:
				if typ, ok := n.Type.(*ast.FuncType); ok {
					for _, name := range n.Names {
						add(name.Name, typ)
					}
				}
			}
			return true
		})
	}
	return out
}

// called returns the last part of the called function's name.
func called(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

// TestCodesAreConstants: outside of tests no code is written as a literal, neither a known one nor a new one where a code belongs.
func TestCodesAreConstants(t *testing.T) {
	files := slices.DeleteFunc(repository(t), func(f file) bool { return f.isTest() || !strings.HasPrefix(f.path, "internal/") })
	known, params := codes(t, files), codeParams(files)
	word := regexp.MustCompile(`^[A-Z][A-Za-z0-9]+$`)
	for _, f := range files {
		if strings.HasPrefix(f.path, codesFolder) {
			continue
		}
		inPlace := func(e ast.Expr) {
			if s := text(e); known[s] == "" && word.MatchString(s) {
				t.Errorf("%s: %q is a code of its own: give it a constant in %s and a row in docs/problems.md",
					f.fset.Position(e.Pos()), s, codesFolder)
			}
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BasicLit:
				if name := known[text(n)]; name != "" {
					t.Errorf("%s: write code.%s", f.fset.Position(n.Pos()), name)
				}
			case *ast.KeyValueExpr:
				if called(n.Key) == "Code" {
					inPlace(n.Value)
				}
			case *ast.CallExpr:
				for _, i := range params[called(n.Fun)] {
					if i < len(n.Args) {
						inPlace(n.Args[i])
					}
				}
			}
			return true
		})
	}
}

// liveOfIstio are the numbers of the messages of Istio's analyzers, without those that it has retired.
func liveOfIstio() (out []int) {
	for _, r := range [][2]int{{1, 2}, {101, 103}, {106, 113}, {116, 116}, {118, 119}, {122, 123}, {125, 171}, {173, 174}} {
		for n := r[0]; n <= r[1]; n++ {
			out = append(out, n)
		}
	}
	return out
}

// TestIstiosMessagesAreListed: docs/problems.md has a row for each message of Istio's analyzers, in order. It names a code of ours, of
// Istio's severity or with the reason for another one, or says why there is none.
func TestIstiosMessagesAreListed(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "problems.md"))
	if err != nil {
		t.Fatal(err)
	}
	ours := map[string]string{} // code: severities
	for _, m := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\| ([a-z, ]+) \\|").FindAllStringSubmatch(string(page), -1) {
		ours[m[1]] = m[2]
	}
	want := liveOfIstio()
	row := regexp.MustCompile(`(?m)^\| IST(\d{4}) \| (\w+) \| (error|warning|info) \| (.+) \|$`)
	for i, m := range row.FindAllStringSubmatch(string(page), -1) {
		n, _ := strconv.Atoi(m[1])
		if i >= len(want) || n != want[i] {
			t.Fatalf("the row IST%s of docs/problems.md is not in its place, or there is none for the one before", m[1])
		}
		if strings.HasPrefix(m[4], "none") || strings.HasPrefix(m[4], "not reported yet: ") {
			continue
		}
		named := regexp.MustCompile("`([A-Z]\\w+)`( \\([a-z]+)?").FindAllStringSubmatch(m[4], -1)
		if len(named) == 0 {
			t.Errorf("IST%s: no code of ours is named", m[1])
		}
		for _, c := range named {
			severities, known := ours[c[1]]
			other := c[2] != "" && strings.Contains(severities, strings.TrimPrefix(c[2], " ("))
			if !known || !other && !strings.Contains(severities, m[3]) {
				t.Errorf("IST%s is %s, and %s is %q: name a code of ours that there is, and say in brackets why it is of another severity",
					m[1], m[3], c[1], severities)
			}
		}
	}
	if got := len(row.FindAllString(string(page), -1)); got != len(want) {
		t.Errorf("docs/problems.md has %d of Istio's %d messages", got, len(want))
	}
}
