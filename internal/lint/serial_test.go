package lint

import (
	"go/ast"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
)

// TestSerialRoomsStartNoGoroutines: `make test` runs some rooms without the race detector, because their tests have one goroutine.
func TestSerialRoomsStartNoGoroutines(t *testing.T) {
	text, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^SERIAL +:= (.*)$`).FindStringSubmatch(string(text))
	if line == nil {
		t.Fatal("the Makefile has no SERIAL")
	}
	files := repository(t)
	for _, pattern := range strings.Fields(strings.ReplaceAll(line[1], "$(MODULE)/", "")) {
		folder, below := strings.CutSuffix(pattern, "%")
		found := false
		for _, f := range files {
			if dir := path.Dir(f.path); dir != folder && (!below || !strings.HasPrefix(dir, folder)) {
				continue
			}
			found = true
			ast.Inspect(f.ast, func(n ast.Node) bool {
				if starts(n) {
					t.Errorf("%s starts a goroutine: remove its room from SERIAL in the Makefile", f.fset.Position(n.Pos()))
				}
				return true
			})
		}
		if !found {
			t.Errorf("SERIAL in the Makefile names %s, where no file is", pattern)
		}
	}
}

// starts reports whether a node starts a goroutine: a go statement, the Go of a group, or a parallel test.
func starts(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.GoStmt:
		return true
	case *ast.CallExpr:
		called, ok := n.Fun.(*ast.SelectorExpr)
		return ok && (called.Sel.Name == "Go" || called.Sel.Name == "Parallel")
	}
	return false
}
