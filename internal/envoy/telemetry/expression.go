package telemetry

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
)

// longest is the maximum length of an expression in bytes: Envoy evaluates it for each request.
const longest = 4096

// functions are the functions of CEL that stock Envoy has; each was tried. Envoy refuses a listener that uses another one.
var functions = map[string]bool{
	operators.Conditional: true, operators.LogicalAnd: true, operators.LogicalOr: true, operators.LogicalNot: true,
	operators.Equals: true, operators.NotEquals: true, operators.Less: true, operators.LessEquals: true,
	operators.Greater: true, operators.GreaterEquals: true, operators.Add: true, operators.Subtract: true,
	operators.Multiply: true, operators.Divide: true, operators.Modulo: true, operators.Negate: true,
	operators.Index: true, operators.In: true,
	"size": true, "matches": true, "contains": true, "startsWith": true, "endsWith": true,
	"int": true, "uint": true, "double": true, "bytes": true, "dyn": true, "type": true, "duration": true, "timestamp": true,
	"getFullYear": true, "getMonth": true, "getDayOfMonth": true, "getDayOfWeek": true, "getDayOfYear": true,
	"getHours": true, "getMinutes": true, "getSeconds": true, "getMilliseconds": true,
}

var syntax = sync.OnceValues(func() (*cel.Env, error) { return cel.NewEnv() })

// Expression checks a user's CEL expression, and returns it for stock Envoy. It fails if Envoy would refuse the expression, and the
// listener with it.
func Expression(s string) (string, error) {
	if len(s) > longest {
		return "", fmt.Errorf("it has %d bytes, of %d that are taken", len(s), longest)
	}
	env, err := syntax()
	if err != nil {
		return "", err
	}
	parsed, issues := env.Parse(s)
	if issues.Err() != nil {
		return "", fmt.Errorf("it is not CEL: see its column %d", issues.Errors()[0].Location.Column()+1)
	}
	return s, check(parsed.NativeRep().Expr())
}

// Value returns a user's expression as a format string. It removes a conversion to a string around the whole expression, which stock Envoy
// does not have: a formatted value becomes text anyway.
func Value(s string) (string, error) {
	s = strings.TrimSpace(s)
	if inner, ok := strings.CutPrefix(s, "string("); ok && strings.HasSuffix(inner, ")") {
		if inner = strings.TrimSuffix(inner, ")"); balanced(inner) {
			s = inner
		}
	}
	if strings.Contains(s, ")%") {
		return "", errors.New(`it has ")%", which ends it in a format string`)
	}
	s, err := Expression(s)
	return "%CEL(" + s + ")%", err
}

// balanced reports whether each parenthesis in a text has its counterpart there.
func balanced(s string) bool {
	depth := 0
	for _, c := range s {
		switch c {
		case '(':
			depth++
		case ')':
			if depth--; depth < 0 {
				return false
			}
		}
	}
	return depth == 0
}

// isText reports whether an expression is a literal string.
func isText(e ast.Expr) bool {
	if e.Kind() != ast.LiteralKind {
		return false
	}
	_, text := e.AsLiteral().(types.String)
	return text
}

// check returns an error if an expression uses something that stock Envoy does not have.
func check(e ast.Expr) error {
	var wrong error
	ast.PreOrderVisit(e, ast.NewExprVisitor(func(e ast.Expr) {
		switch e.Kind() {
		case ast.ComprehensionKind:
			wrong = errors.New("stock Envoy has no all, exists, exists_one, filter, map")
		case ast.CallKind:
			switch name := e.AsCall().FunctionName(); {
			case wrong != nil:
			case !functions[name]:
				wrong = fmt.Errorf("stock Envoy has no function %s", name)
			case name == operators.Add && slices.ContainsFunc(e.AsCall().Args(), isText):
				wrong = errors.New("stock Envoy does not join texts")
			}
		}
	}))
	return wrong
}
