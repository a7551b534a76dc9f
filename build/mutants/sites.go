package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
)

// A site is one mistake that can be made in a file: the bytes from start to end are replaced.
type site struct {
	file       string
	src        []byte // the file as it was read
	start, end int
	before     string
	after      string
	line       int
	text       string // the line of the file that has it
}

func (s site) String() string {
	return fmt.Sprintf("%s:%d: %s  →  %s\n\t%s", s.file, s.line, brief(s.before), brief(s.after), s.text)
}

// brief returns the first line of a statement, so that a report has a line for each mutant.
func brief(code string) string {
	if code == "" {
		return "(nothing)"
	}
	if first, _, more := strings.Cut(code, "\n"); more {
		return first + " …"
	}
	return code
}

// mutant returns the file with the mistake.
func (s site) mutant() []byte { return slices.Concat(s.src[:s.start], []byte(s.after), s.src[s.end:]) }

// operators are what each operator is mistaken for.
var operators = map[token.Token]token.Token{
	token.LAND: token.LOR, token.LOR: token.LAND,
	token.EQL: token.NEQ, token.NEQ: token.EQL,
	token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR,
	token.ADD: token.SUB, token.SUB: token.ADD, token.MUL: token.QUO, token.QUO: token.MUL, token.REM: token.MUL,
	token.AND: token.OR, token.OR: token.AND, token.AND_NOT: token.AND, token.XOR: token.OR,
	token.SHL: token.SHR, token.SHR: token.SHL,
	token.ADD_ASSIGN: token.SUB_ASSIGN, token.SUB_ASSIGN: token.ADD_ASSIGN, token.OR_ASSIGN: token.AND_ASSIGN,
	token.AND_ASSIGN: token.OR_ASSIGN, token.AND_NOT_ASSIGN: token.OR_ASSIGN, token.XOR_ASSIGN: token.OR_ASSIGN,
	token.INC: token.DEC, token.DEC: token.INC, token.BREAK: token.CONTINUE, token.CONTINUE: token.BREAK,
}

// sites returns the mistakes that can be made in a file, in the order of the file.
func sites(name string, src []byte) ([]site, error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	if ast.IsGenerated(file) {
		return nil, nil
	}
	f := finder{name: name, src: src, at: func(p token.Pos) int { return set.PositionFor(p, false).Offset }}
	for _, d := range file.Decls {
		if imports, ok := d.(*ast.GenDecl); !ok || imports.Tok != token.IMPORT {
			ast.Inspect(d, f.visit)
		}
	}
	slices.SortStableFunc(f.found, func(a, b site) int { return a.start - b.start })
	return f.found, nil
}

type finder struct {
	name  string
	src   []byte
	at    func(token.Pos) int
	found []site
}

func (f *finder) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		f.operator(n.OpPos, n.Op)
	case *ast.UnaryExpr:
		if n.Op == token.NOT {
			f.replace(n.OpPos, n.X.Pos(), "")
		}
	case *ast.IfStmt:
		f.negate(n.Cond)
	case *ast.BasicLit:
		if n.Kind == token.INT {
			f.number(n)
		}
	case *ast.Ident:
		if other, ok := map[string]string{"true": "false", "false": "true"}[n.Name]; ok {
			f.replace(n.Pos(), n.End(), other)
		}
	case *ast.IncDecStmt:
		f.operator(n.TokPos, n.Tok)
		f.remove(n)
	case *ast.AssignStmt:
		f.operator(n.TokPos, n.Tok)
		if n.Tok != token.DEFINE {
			f.remove(n)
		}
	case *ast.BranchStmt:
		f.operator(n.TokPos, n.Tok)
	case *ast.ExprStmt, *ast.SendStmt, *ast.DeferStmt, *ast.GoStmt:
		f.remove(n)
	case *ast.ReturnStmt:
		if len(n.Results) == 0 {
			f.remove(n)
		}
	case *ast.ArrayType, *ast.FuncType, *ast.StructType:
		return false // types: compilers find mistakes in them
	}
	return true
}

func (f *finder) operator(at token.Pos, op token.Token) {
	if other, ok := operators[op]; ok {
		f.replace(at, at+token.Pos(len(op.String())), other.String())
	}
}

// number has a small number be one more, and a large one nothing: the exact value of a bound is seldom what matters.
func (f *finder) number(n *ast.BasicLit) {
	value, err := strconv.ParseInt(n.Value, 0, 64)
	switch {
	case err != nil:
	case value < largeNumber:
		f.replace(n.Pos(), n.End(), strconv.FormatInt(value+1, 10))
	default:
		f.replace(n.Pos(), n.End(), "0")
	}
}

const largeNumber = 16

// negate has a condition mean its opposite. A comparison or a negation alone is left to the mistakes of its operator.
func (f *finder) negate(cond ast.Expr) {
	switch c := cond.(type) {
	case *ast.UnaryExpr:
		return
	case *ast.BinaryExpr:
		if c.Op == token.EQL || c.Op == token.NEQ {
			return
		}
	}
	f.replace(cond.Pos(), cond.End(), "!("+f.code(cond)+")")
}

// remove takes a statement out.
func (f *finder) remove(n ast.Node) { f.replace(n.Pos(), n.End(), "") }

func (f *finder) code(n ast.Node) string { return string(f.src[f.at(n.Pos()):f.at(n.End())]) }

func (f *finder) replace(from, to token.Pos, after string) {
	start, end := f.at(from), f.at(to)
	lineStart := bytes.LastIndexByte(f.src[:start], '\n') + 1
	text, _, _ := bytes.Cut(f.src[lineStart:], []byte("\n"))
	f.found = append(f.found, site{
		file: f.name, src: f.src, start: start, end: end, before: string(f.src[start:end]), after: after,
		line: 1 + bytes.Count(f.src[:start], []byte("\n")), text: string(bytes.TrimSpace(text)),
	})
}
