package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
)

const (
	// longest is how many lines a function may have, from its name to its last brace.
	longest = 80
	// mostParams is how many parameters a function may have. The receiver does not count.
	mostParams = 6
)

// mostOfRoom is how many lines a room may have of its own, without tests and rooms below it.
const mostOfRoom = 2500

// largeRooms are rooms that have more, and how many. The numbers may only fall.
var largeRooms = map[string]int{}

// A room is read in an afternoon.
func TestRoomsAreSmall(t *testing.T) {
	lines := map[string]int{}
	for _, f := range repository(t) {
		if !f.isTest() && strings.HasPrefix(f.path, "internal/") && !ast.IsGenerated(f.ast) {
			lines[path.Dir(f.path)] += f.fset.File(f.ast.Pos()).LineCount()
		}
	}
	for room, n := range lines {
		if most := max(mostOfRoom, largeRooms[room]); n > most {
			t.Errorf("%s has %d lines of at most %d: move a part with a purpose of its own into a room below it", room, n, most)
		}
	}
	for room, n := range largeRooms {
		const slack = 60
		if lines[room] < n-slack {
			t.Errorf("%s has only %d lines: lower its number in largeRooms, or take it out", room, lines[room])
		}
	}
}

// excused are functions with more parameters, and how many they have. The numbers may only fall.
var excused = map[string]int{
	"internal/store/reach.go prompt": 7, // an interceptor of gRPC, with a given signature
	// a method that Kubernetes' library calls, with a given signature
	"test/platform/kube/kubelet/streams/streams.go ExecInContainer": 11,
}

// A function does one thing, and its parts have names: options that belong together are a struct, a step is a function.
func TestFunctionsAreShort(t *testing.T) {
	unused := maps.Clone(excused)
	for _, f := range repository(t) {
		if f.isTest() || ast.IsGenerated(f.ast) {
			continue
		}
		for _, shape := range shapes(f) {
			where := f.path + " " + shape.name
			if shape.lines > longest {
				t.Errorf("%s has %d lines of at most %d: give its steps names of their own", where, shape.lines, longest)
			}
			switch most := max(mostParams, excused[where]); {
			case shape.params > most:
				t.Errorf("%s has %d parameters of at most %d: make those that belong together a struct", where, shape.params, most)
			case shape.params == excused[where]:
				delete(unused, where)
			}
		}
	}
	for where, n := range unused {
		t.Errorf("%s has no longer %d parameters: lower its number in excused, or take it out", where, n)
	}
}

// shape is the size of a function.
type shape struct {
	name          string
	lines, params int
}

// shapes returns the shapes of a file's functions. A function literal has the name of the function around it.
func shapes(f file) (out []shape) {
	for _, decl := range f.ast.Decls {
		name := "a variable"
		if d, ok := decl.(*ast.FuncDecl); ok {
			name = d.Name.Name
		}
		ast.Inspect(decl, func(n ast.Node) bool {
			var params *ast.FieldList
			switch n := n.(type) {
			case *ast.FuncDecl:
				params = n.Type.Params
			case *ast.FuncLit:
				params = n.Type.Params
			default:
				return true
			}
			lines := f.fset.Position(n.End()).Line - f.fset.Position(n.Pos()).Line + 1
			out = append(out, shape{name, lines, params.NumFields()})
			return true
		})
	}
	return out
}

// The measure counts lines from the first to the last, names rather than types, and literals too.
func TestShapesAreMeasured(t *testing.T) {
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, "x.go", `package x
func (r T) F(a, b int, _ ...string) {
	_ = func(int, string) {
	}
}
var v = func(a,
	b int) {}
`, 0)
	if err != nil {
		t.Fatal(err)
	}
	want := []shape{{"F", 4, 3}, {"F", 2, 2}, {"a variable", 2, 2}}
	if got := shapes(file{path: "x.go", ast: parsed, fset: fset}); !slices.Equal(got, want) {
		t.Errorf("measured %v, want %v", got, want)
	}
}

// longestSource is how many lines a file below internal/source may have.
const longestSource = 400

// A file of a source has one purpose, which its name says. A longer file has parts that a newcomer would look for under another name.
func TestSourceFilesAreShort(t *testing.T) {
	files := 0
	for _, f := range repository(t) {
		if f.room != "source" || f.isTest() || ast.IsGenerated(f.ast) {
			continue
		}
		files++
		if n := f.fset.File(f.ast.Pos()).LineCount() - 1; n > longestSource {
			t.Errorf("%s has %d lines of at most %d: split it by purpose", f.path, n, longestSource)
		}
	}
	if files < 50 {
		t.Errorf("only %d files of sources were found", files)
	}
}
