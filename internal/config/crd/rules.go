package crd

import (
	"context"
	"sync"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"
	"k8s.io/apiserver/pkg/cel/environment"

	"fairway/internal/config/report"
)

// ruleSet is the CEL rules that stand at one place of a schema. They compile when the first value is met there: most
// objects use a few of the hundreds of rules, and compiling all costs more than a start may.
//
// The programs are the library's own; only walking and binding values is done here, because the library builds a map of
// all of a schema's fields for each field that a rule looks at. A value that does not pass is given to the library's
// Validator, whose verdict and words count.
type ruleSet struct {
	schema *structural.Structural // of this place and below

	once     sync.Once
	programs []celgo.Program
	view     common.Schema
	slow     bool // something only the library can judge

	strictOnce sync.Once
	strict     *cel.Validator
}

func newRuleSet(s *structural.Structural) *ruleSet {
	if len(s.XValidations) == 0 {
		return nil
	}
	return &ruleSet{schema: s}
}

// bare is the schema of the place with its own rules, without those below it.
func (r *ruleSet) bare() *structural.Structural {
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
	s := r.bare()
	r.view = newCelView(s)
	env := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())
	results, err := cel.Compile(s, model.SchemaDeclType(s, false), celconfig.PerCallLimit, env, cel.StoredExpressionsEnvLoader())
	if err != nil {
		r.slow = true
		return
	}
	for _, result := range results {
		if result.Error != nil || result.Program == nil || result.UsesOldSelf {
			r.slow = true
		}
		r.programs = append(r.programs, result.Program)
	}
}

// passes says whether every rule holds for v; false may also mean that only the library can tell.
func (r *ruleSet) passes(v any, budget *int64) bool {
	r.once.Do(r.compile)
	if r.slow {
		return false
	}
	bound := &selfOnly{common.UnstructuredToVal(v, r.view)}
	for _, p := range r.programs {
		got, details, err := p.Eval(bound)
		if err != nil || got != types.True {
			return false
		}
		if cost := details.ActualCost(); cost != nil {
			*budget -= int64(*cost)
		}
	}
	return *budget >= 0
}

// judge has the library run the rules on one value that does not pass.
func (r *ruleSet) judge(v any, at *report.Path, budget *int64) field.ErrorList {
	r.strictOnce.Do(func() { r.strict = cel.NewValidator(r.bare(), false, celconfig.PerCallLimit) })
	errs, left := r.strict.Validate(context.Background(), nil, nil, v, nil, *budget)
	*budget = left
	prefix := at.String()
	for _, e := range errs {
		e.Field = joinField(prefix, e.Field)
	}
	return errs
}

// selfOnly binds the one variable that a rule of a new object sees.
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

// joinField puts the library's path, which starts at the place of the rule, behind that place.
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
	schema *Schema
	tree   map[string]any // the whole document
	report *report.Report
	budget int64 // left of what all rules together may cost
}

// walk runs all rules at and below a place. Their problems are put in order afterwards.
func (r *ruleWalk) walk(n *node, v any, at *report.Path) {
	if n == nil || !n.ruled || v == nil || r.budget < 0 {
		return
	}
	if n.rule != nil {
		if left := r.budget; n.rule.passes(v, &left) {
			r.budget = left
		} else {
			r.schema.addErrors(r.tree, n.rule.judge(v, at, &r.budget), r.report)
		}
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
