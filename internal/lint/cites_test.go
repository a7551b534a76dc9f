package lint

import (
	"go/ast"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// beyond begins a cite of behaviour that the API's reference does not describe.
const beyond = "beyond the API reference: "

var cited = regexp.MustCompile(`^([a-z_]+\.proto)(?: ([A-Za-z0-9_.]+))?: (.+)$`)

// TestCites: a table of rules' precedence cites Istio's API reference, and the cited words are in the place that the row names.
func TestCites(t *testing.T) {
	api, n := reference(t), 0
	for _, f := range repository(t) {
		if !f.isTest() {
			continue
		}
		ast.Inspect(f.ast, func(node ast.Node) bool {
			pair, ok := node.(*ast.KeyValueExpr)
			if !ok {
				return true
			}
			if key, ok := pair.Key.(*ast.Ident); !ok || key.Name != "Cite" {
				return true
			}
			n++
			at := f.fset.Position(pair.Pos())
			cite, ok := literal(pair.Value)
			switch {
			case !ok:
				t.Errorf("%s: a cite is a string that can be read here", at)
			case strings.HasPrefix(cite, beyond) && len(cite) > len(beyond):
			default:
				m := cited.FindStringSubmatch(cite)
				if m == nil {
					t.Errorf("%s: %q is neither FILE.proto MESSAGE.FIELD: WORDS nor %q and more", at, cite, beyond)
				} else if said, ok := api[m[1]+" "+m[2]]; !ok {
					t.Errorf("%s: %s has no %s", at, m[1], m[2])
				} else if !strings.Contains(said, plain(m[3])) {
					t.Errorf("%s: %s %s does not say %q", at, m[1], m[2], m[3])
				}
			}
			return true
		})
	}
	if n == 0 {
		t.Error("no test cites anything")
	}
}

// literal is a string literal, or several joined by +.
func literal(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		s, err := strconv.Unquote(e.Value)
		return s, err == nil
	case *ast.BinaryExpr:
		a, ok := literal(e.X)
		b, also := literal(e.Y)
		return a + b, ok && also && e.Op == token.ADD
	}
	return "", false
}

// plain returns a sentence without marks, and with single blanks.
func plain(s string) string {
	return strings.Join(strings.Fields(strings.NewReplacer("`", "", "*", "", "_", "").Replace(s)), " ")
}

var (
	opens = regexp.MustCompile(`^(?:message|enum) (\w+) \{`)
	field = regexp.MustCompile(`^(?:.* )?(\w+) = \d+( \[.*)?;`)
)

// reference returns the comments of the protos of Istio's API, by "FILE MESSAGE.FIELD", "FILE MESSAGE" and, for a file's head, "FILE ".
func reference(t *testing.T) map[string]string {
	t.Helper()
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "istio.io/api").Output()
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(dir)), "*", "*", "*.proto"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no protos of istio.io/api: %v", err)
	}
	said := map[string]string{}
	for _, file := range files {
		body, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(file)
		var comment strings.Builder
		var in []string
		for line := range strings.Lines(string(body)) {
			line = strings.TrimSpace(line)
			of := ""
			switch opened, f := opens.FindStringSubmatch(line), field.FindStringSubmatch(line); {
			case strings.HasPrefix(line, "//"):
				comment.WriteString(strings.TrimPrefix(line, "//") + "\n")
				continue
			case opened != nil:
				in, of = append(in, opened[1]), opened[1]
			case strings.HasPrefix(line, "oneof "):
				in = append(in, in[len(in)-1])
				continue
			case line == "}":
				in = in[:max(len(in)-1, 0)]
				continue
			case strings.HasPrefix(line, "package "):
			case f != nil && len(in) > 0:
				of = in[len(in)-1] + "." + f[1]
			default:
				continue
			}
			said[name+" "+of] += " " + plain(comment.String())
			comment.Reset()
		}
	}
	return said
}
