package crd

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"

	celgo "github.com/google/cel-go/cel"
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/version"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/common"
	"k8s.io/apiserver/pkg/cel/environment"

	"fairway/internal/config/report"
)

// ruleSet is the CEL rules of one place in a schema. They are compiled when the first value is checked there: most objects use a few of the
// hundreds of rules, and compiling all of them would make a start too slow.
//
// The rules compile in the library's environment, but without its tracker of costs: the tracker searches a stack that grows with each round
// of a loop, so a map of 60,000 keys takes 20 seconds. Instead, steps are counted from the size of the value before a rule is evaluated. If
// a value fails and is not too large, the library's Validator decides and gives the message.
type ruleSet struct {
	schema *structural.Structural // of this place and below

	once     sync.Once
	programs []program
	view     common.Schema
	slow     bool // something only the library can judge
	loops    int  // deepest nesting of loops in a rule

	strictOnce sync.Once
	strict     *cel.Validator
}

// program is one rule.
type program struct {
	interpreter.InterpretableV2
	rule  apiextensionsv1.ValidationRule
	loops int // that are nested in it
}

// mostForLibrary is how many steps the rules of one value may take if the library checks it, because its time grows with their square.
const mostForLibrary = 20_000

func newRuleSet(s *structural.Structural) *ruleSet {
	if len(s.XValidations) == 0 {
		return nil
	}
	return &ruleSet{schema: s}
}

// ownRules is the schema of the place with its own rules, without those below it.
func (r *ruleSet) ownRules() *structural.Structural {
	out := r.schema.DeepCopy()
	visitor := structural.Visitor{Structural: func(s *structural.Structural) bool {
		had := len(s.XValidations) > 0
		s.XValidations = nil
		return had
	}}
	visitor.Visit(out)
	out.XValidations = r.schema.XValidations
	return out
}

func (r *ruleSet) compile() {
	s := r.ownRules()
	r.view = newCelView(s)
	self := model.SchemaDeclType(s, false).MaybeAssignTypeName("selfType")
	env, err := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()).Extend(environment.VersionedOptions{
		IntroducedVersion: version.MajorMinor(1, 0),
		EnvOptions:        []celgo.EnvOption{celgo.Variable(cel.ScopedVarName, self.CelType())},
		DeclTypes:         []*apiservercel.DeclType{self},
	})
	if err != nil {
		r.slow = true
		return
	}
	to, err := newCompiler(env.StoredExpressionsEnv())
	if err != nil {
		r.slow = true
		return
	}
	for _, rule := range s.XValidations {
		if strings.TrimSpace(rule.Rule) == "" {
			continue
		}
		made, ok := to.rule(rule)
		if !ok && strings.Contains(rule.Rule, "oldSelf") {
			continue // it says how an object may change, and every object is judged as a new one
		}
		r.slow = r.slow || !ok
		r.programs = append(r.programs, made)
		r.loops = max(r.loops, made.loops)
	}
}

// compiler compiles programs like the library's environment, but without its tracker of costs, which cannot be switched off there.
type compiler struct {
	env    *celgo.Env
	interp interpreter.Interpreter
}

func newCompiler(env *celgo.Env) (*compiler, error) {
	calls := interpreter.NewDispatcher()
	for _, f := range env.Functions() {
		bindings, err := f.Bindings()
		if err == nil {
			err = calls.Add(bindings...)
		}
		if err != nil {
			return nil, err
		}
	}
	provider, adapter := env.CELTypeProvider(), env.CELTypeAdapter()
	attributes := interpreter.NewAttributeFactory(env.Container, adapter, provider)
	return &compiler{env, interpreter.NewInterpreter(calls, env.Container, provider, adapter, attributes)}, nil
}

// rule returns false for a rule that only the library can check.
func (c *compiler) rule(rule apiextensionsv1.ValidationRule) (program, bool) {
	ast, issues := c.env.Compile(rule.Rule)
	if issues != nil || ast.OutputType() != celgo.BoolType {
		return program{}, false
	}
	p, err := c.interp.NewInterpretable(
		ast.NativeRep(), interpreter.Optimize(), interpreter.CompileRegexConstants(interpreter.MatchesRegexOptimization),
	)
	if err != nil {
		return program{}, false
	}
	return program{p, rule, loopsOf(ast)}, true
}

// holds evaluates the rule. It returns an error if that is not possible.
func (p program) holds(self *selfOnly) (ok bool, err error) {
	frame, err := interpreter.NewExecutionFrame(self)
	if err != nil {
		return false, err
	}
	defer frame.Close()
	defer func() {
		if why := recover(); why != nil { // of a value that a function of the library does not expect
			ok, err = false, fmt.Errorf("internal error: %v", why)
		}
	}()
	out := p.Exec(frame)
	if failed, is := out.(*types.Err); is {
		return false, failed
	}
	return out == types.True, nil
}

// loopsOf returns how many loops are nested in a rule at most.
func loopsOf(of *celgo.Ast) int {
	loop := celast.KindMatcher(celast.ComprehensionKind)
	deepest := 0
	for _, e := range celast.MatchDescendants(celast.NavigateAST(of.NativeRep()), loop) {
		depth := 1
		for up, has := e.Parent(); has; up, has = up.Parent() {
			if up.Kind() == celast.ComprehensionKind {
				depth++
			}
		}
		deepest = max(deepest, depth)
	}
	return deepest
}

// steps returns about how many steps the rules take for v: one each, and for a loop as many as v has values, as often as loops are nested.
// It depends on nothing but the schema and the value.
func (r *ruleSet) steps(v any) int64 {
	r.once.Do(r.compile)
	n := int64(len(r.programs))
	if r.loops == 0 {
		return n
	}
	size := sizeOf(v, celconfig.RuntimeCELCostBudget+1)
	for _, p := range r.programs {
		most := int64(1)
		for range p.loops {
			most = min(most*size, celconfig.RuntimeCELCostBudget+1)
		}
		n += most
	}
	return n
}

// sizeOf counts the values of a tree and the text of its keys, up to a bound.
func sizeOf(v any, most int64) int64 {
	n := int64(1)
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			if n += 1 + int64(len(k))/16; n >= most {
				break
			}
			n += sizeOf(e, most-n)
		}
	case []any:
		for _, e := range v {
			if n >= most {
				break
			}
			n += sizeOf(e, most-n)
		}
	case string:
		n += int64(len(v)) / 16
	}
	return min(n, most)
}

// passes reports whether every rule holds for v; false may also mean that only the library can decide.
func (r *ruleSet) passes(v any) bool {
	if r.slow {
		return false
	}
	bound := &selfOnly{common.UnstructuredToVal(v, r.view)}
	for _, p := range r.programs {
		if ok, err := p.holds(bound); !ok || err != nil {
			return false
		}
	}
	return true
}

// judge explains why one value fails. The rules take this many steps for it.
func (r *ruleSet) judge(v any, at *report.Path, steps int64) field.ErrorList {
	if r.loops > 0 && steps > mostForLibrary && !r.slow {
		return r.explain(v, at)
	}
	r.strictOnce.Do(func() { r.strict = cel.NewValidator(r.ownRules(), false, celconfig.PerCallLimit) })
	errs, _ := r.strict.Validate(context.Background(), nil, nil, v, nil, celconfig.RuntimeCELCostBudget)
	prefix := at.String()
	for _, e := range errs {
		e.Field = joinField(prefix, e.Field)
	}
	return errs
}

// explain returns the rules that do not hold for a value that is too large for the library, in the library's words.
func (r *ruleSet) explain(v any, at *report.Path) (errs field.ErrorList) {
	bound := &selfOnly{common.UnstructuredToVal(v, r.view)}
	for _, p := range r.programs {
		ok, err := p.holds(bound)
		if ok && err == nil {
			continue
		}
		errs = append(errs, &field.Error{
			Type: field.ErrorTypeInvalid, Field: at.String(), BadValue: field.OmitValueType{}, Detail: p.words(err),
		})
	}
	return errs
}

// words returns the library's message for a rule that does not hold or cannot be evaluated.
func (p program) words(err error) string {
	said := cmp.Or(strings.TrimSpace(p.rule.Message), strings.TrimSpace(p.rule.Rule))
	switch {
	case err != nil:
		return fmt.Sprintf("%v evaluating rule: %s", err, said)
	case p.rule.Message == "":
		return "failed rule: " + said
	}
	return said
}

// selfOnly binds the only variable of a rule of a new object.
type selfOnly struct{ self ref.Val }

// ResolveName implements cel.Activation.
func (s *selfOnly) ResolveName(name string) (any, bool) {
	if name == cel.ScopedVarName {
		return s.self, true
	}
	return nil, false
}

// Parent implements cel.Activation.
func (s *selfOnly) Parent() celgo.Activation { return nil }

// celView shows a schema to CEL, with its parts built once.
type celView struct {
	model.Structural
	items common.Schema
	props map[string]common.Schema
	extra common.SchemaOrBool
}

func newCelView(s *structural.Structural) common.Schema {
	v := &celView{Structural: model.Structural{Structural: s}}
	if s.Items != nil {
		v.items = newCelView(s.Items)
	}
	if s.Properties != nil {
		v.props = make(map[string]common.Schema, len(s.Properties))
		for name, p := range s.Properties {
			v.props[name] = newCelView(&p)
		}
	}
	if a := s.AdditionalProperties; a != nil {
		extra := &celExtra{allows: a.Bool}
		if a.Structural != nil {
			extra.schema = newCelView(a.Structural)
		}
		v.extra = extra
	}
	return v
}

func (v *celView) Items() common.Schema                      { return v.items }
func (v *celView) Properties() map[string]common.Schema      { return v.props }
func (v *celView) AdditionalProperties() common.SchemaOrBool { return v.extra }

type celExtra struct {
	schema common.Schema
	allows bool
}

func (e *celExtra) Schema() common.Schema { return e.schema }
func (e *celExtra) Allows() bool          { return e.allows }

// joinField appends the library's path, which starts at the place of the rule, to that place.
func joinField(prefix, name string) string {
	switch {
	case name == "" || name == "<nil>":
		return prefix
	case name[0] == '[' || prefix == "":
		return prefix + name
	}
	return prefix + "." + name
}

// ruleWalk runs the CEL rules of a schema on one document.
type ruleWalk struct {
	budget  int64           // left of the steps that all rules together may take
	refused map[string]bool // fields with values that cannot be judged
	errs    field.ErrorList
	failed  int // values that do not pass

	// The rule set that takes most steps, with its place: the first of these in order.
	most      int64
	mostRules *ruleSet
	mostAt    string
}

// mostExplained is how many failing values are explained; others are counted.
const mostExplained = 200

// walk runs all rules at and below a place. Their problems are put in order afterwards. Once the budget is spent, steps are only counted.
func (r *ruleWalk) walk(n *node, v any, at *report.Path) {
	if n == nil || !n.ruled || v == nil {
		return
	}
	if n.rule != nil && (len(r.refused) == 0 || !r.refused[at.String()]) {
		r.run(n.rule, v, at)
	}
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			next := n.props[k]
			if next == nil {
				next = n.extra
			}
			here := at.Key(k)
			r.walk(next, e, &here)
		}
	case []any:
		for i, e := range v {
			here := at.At(i)
			r.walk(n.items, e, &here)
		}
	}
}

func (r *ruleWalk) run(rules *ruleSet, v any, at *report.Path) {
	steps := rules.steps(v)
	if steps > mostForLibrary && steps >= r.most {
		if place := at.String(); steps > r.most || place < r.mostAt {
			r.most, r.mostRules, r.mostAt = steps, rules, place
		}
	}
	if r.budget -= steps; r.budget < 0 || rules.passes(v) {
		return
	}
	if r.failed++; r.failed <= mostExplained {
		r.errs = append(r.errs, rules.judge(v, at, steps)...)
	}
}

// overBudget returns the rules that take more steps than one object may.
func (r *ruleWalk) overBudget() (place, message string) {
	if r.mostRules == nil {
		return "", "the schema's rules take too many steps for this object"
	}
	rule := r.mostRules.programs[0]
	for _, p := range r.mostRules.programs {
		if p.loops > rule.loops {
			rule = p
		}
	}
	return r.mostAt, fmt.Sprintf("the rule (%s) takes %d steps here, and all rules may take %d in one object",
		rule.words(nil), r.most, celconfig.RuntimeCELCostBudget)
}
