package config

import (
	"context"
	"maps"
	"slices"
	"sync"

	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
)

// ruleSet is the CEL rules that stand at one place of a schema. They compile when the first value is met there: most objects use a few of the
// hundreds of rules, and compiling all costs more than a start may.
type ruleSet struct {
	once   sync.Once
	schema *structural.Structural // of this place; dropped once the rules are compiled
	run    *cel.Validator
}

func newRuleSet(s *structural.Structural) *ruleSet {
	if len(s.XValidations) == 0 {
		return nil
	}
	return &ruleSet{schema: s}
}

// withoutRules strips the rules at and below s, so that what stands at one place is compiled and run once, there.
func withoutRules(s *structural.Structural) *structural.Structural {
	visitor := structural.Visitor{Structural: func(s *structural.Structural) bool {
		had := len(s.XValidations) > 0
		s.XValidations = nil
		return had
	}}
	visitor.Visit(s)
	return s
}

func (r *ruleSet) validator() *cel.Validator {
	r.once.Do(func() {
		bare := withoutRules(r.schema.DeepCopy())
		bare.XValidations = r.schema.XValidations
		r.run = cel.NewValidator(bare, false, celconfig.PerCallLimit)
		r.schema = nil
	})
	return r.run
}

// check runs the rules on one value.
func (r *ruleSet) check(ctx context.Context, w *draft, v any, at *path, budget *int64) {
	errs, left := r.validator().Validate(ctx, nil, nil, v, nil, *budget)
	*budget = left
	if len(errs) == 0 {
		return
	}
	prefix := at.String()
	for _, e := range errs {
		e.Field = joinField(prefix, e.Field)
	}
	w.addErrors(errs)
}

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

// rules runs all CEL rules at and below a place, in order.
func (n *node) rules(ctx context.Context, w *draft, v any, at *path, budget *int64) {
	if n == nil || !n.ruled || v == nil || *budget < 0 {
		return
	}
	if n.rule != nil {
		n.rule.check(ctx, w, v, at, budget)
	}
	switch v := v.(type) {
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			next := n.props[k]
			if next == nil {
				next = n.extra
			}
			here := at.key(k)
			next.rules(ctx, w, v[k], &here, budget)
		}
	case []any:
		for i, e := range v {
			here := at.at(i)
			n.items.rules(ctx, w, e, &here, budget)
		}
	}
}
