package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const (
	module = "fairway/"
	rooms  = module + "internal/"
)

// figures are the amounts of code that ran.
type figures struct {
	Rooms, Files, Functions int
	Lines                   int // that ran
	Whole                   int // lines of the files
}

// The parts of a way that are counted separately. The engine and the decoder are the same for every change.
const (
	own     = "own"
	engine  = "engine"
	decoder = "decoder"
)

var parts = []string{own, engine, decoder}

// partOf returns the part that a folder below internal belongs to.
func partOf(folder string) string {
	switch top, _, _ := strings.Cut(folder, "/"); top {
	case "table":
		return engine
	case "config":
		return decoder
	}
	return own
}

// block is a piece of code without branches, with its first and last line.
type block struct {
	file       string // below internal
	begin, end int
	column     int // of its beginning
}

// blocks are those that ran; nil means all blocks.
type blocks map[block]struct{}

// and returns the blocks that are in both.
func (b blocks) and(o blocks) blocks {
	if b == nil {
		return o
	}
	out := blocks{}
	for k := range b {
		if _, both := o[k]; both {
			out[k] = struct{}{}
		}
	}
	return out
}

// parse returns the blocks of the rooms that ran according to a profile: lines of FILE:LINE.COLUMN,LINE.COLUMN STATEMENTS COUNT.
func parse(profile string) (blocks, error) {
	out := blocks{}
	mode, rest, _ := strings.Cut(profile, "\n")
	if !strings.HasPrefix(mode, "mode: ") {
		return nil, fmt.Errorf("a profile begins with %q, want its mode", mode)
	}
	for line := range strings.Lines(rest) {
		var b block
		var column, statements, count int
		file, at, ok := strings.Cut(line, ":")
		if _, err := fmt.Sscanf(at, "%d.%d,%d.%d %d %d", &b.begin, &b.column, &b.end, &column, &statements, &count); err != nil || !ok {
			return nil, fmt.Errorf("line %q of a profile cannot be read: %w", line, err)
		}
		if b.file, ok = strings.CutPrefix(file, rooms); ok && count > 0 {
			out[b] = struct{}{}
		}
	}
	return out, nil
}

// count counts what ran of the files below root.
func count(root, name string, ran blocks) (way, error) {
	out := way{name: name, parts: map[string]figures{}}
	folders := map[string]map[string]struct{}{own: {}, engine: {}, decoder: {}}
	byFile := map[string][]block{}
	for b := range ran {
		byFile[b.file] = append(byFile[b.file], b)
	}
	for _, file := range slices.Sorted(maps.Keys(byFile)) {
		text, err := os.ReadFile(filepath.Join(root, "internal", filepath.FromSlash(file)))
		if err != nil {
			return out, err
		}
		functions, err := functionsOf(file, text, byFile[file])
		if err != nil {
			return out, err
		}
		part := partOf(path.Dir(file))
		folders[part][path.Dir(file)] = struct{}{}
		f := out.parts[part]
		f.Rooms = len(folders[part])
		f.Files++
		f.Functions += len(functions)
		f.Lines += lines(byFile[file])
		f.Whole += strings.Count(string(text), "\n")
		out.parts[part] = f
		for _, name := range functions {
			out.functions = append(out.functions, file+": "+name)
		}
	}
	return out, nil
}

// lines returns how many lines some blocks are on.
func lines(all []block) int {
	on := map[int]struct{}{}
	for _, b := range all {
		for line := b.begin; line <= b.end; line++ {
			on[line] = struct{}{}
		}
	}
	return len(on)
}

// functionsOf lists the functions of a file that some of the blocks are in. A function without a name counts as part of the function around
// it.
func functionsOf(file string, text []byte, ran []block) (names []string, err error) {
	fset := token.NewFileSet()
	tree, err := parser.ParseFile(fset, file, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	for _, d := range tree.Decls {
		begin, end := fset.Position(d.Pos()).Line, fset.Position(d.End()).Line
		within := func(b block) bool { return begin <= b.begin && b.end <= end }
		if slices.ContainsFunc(ran, within) {
			names = append(names, nameOf(d, begin))
		}
	}
	return names, nil
}

// nameOf returns a function's name; for functions without a name in a declaration of variables, its line.
func nameOf(d ast.Decl, line int) string {
	f, ok := d.(*ast.FuncDecl)
	if !ok {
		return "line " + strconv.Itoa(line)
	}
	if f.Recv == nil || len(f.Recv.List) == 0 {
		return f.Name.Name
	}
	receiver := f.Recv.List[0].Type
	for {
		switch t := receiver.(type) {
		case *ast.StarExpr:
			receiver = t.X
		case *ast.IndexExpr:
			receiver = t.X
		case *ast.IndexListExpr:
			receiver = t.X
		case *ast.Ident:
			return t.Name + "." + f.Name.Name
		default:
			return f.Name.Name
		}
	}
}
