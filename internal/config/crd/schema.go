package crd

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	celconfig "k8s.io/apiserver/pkg/apis/cel"

	"fairway/internal/config/report"
	"fairway/internal/config/schemas"
	"fairway/internal/mesh/code"
	"fairway/internal/spelling"
)

// Schema validates trees of one kind as an API server does. Most objects are right, and for those our own walk (quick.go) is enough; the
// library checks and explains the rest.
type Schema struct {
	Versions []string // of the API that are served, the preferred first

	root     *structural.Structural
	quick    *node
	defaults bool // some field has a default
	internal *apiextensions.JSONSchemaProps

	strictOnce sync.Once
	strict     validation.SchemaValidator // of the library; only built when something is wrong
	strictErr  error
}

// Load prepares the schema of one kind. It fails if the program was built without the schemas (schemas.ErrMissing).
func Load(kind string) (*Schema, error) {
	published, err := schemas.Load(kind)
	if err != nil {
		return nil, err
	}
	s := &Schema{Versions: published.Versions, internal: new(apiextensions.JSONSchemaProps)}
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(published.OpenAPI, s.internal, nil); err != nil {
		return nil, fmt.Errorf("schema of %s: %w", kind, err)
	}
	if s.root, err = structural.NewStructural(s.internal); err != nil {
		return nil, fmt.Errorf("schema of %s: %w", kind, err)
	}
	s.quick, s.defaults = newNode(s.root), hasDefaults(s.root)
	return s, nil
}

func hasDefaults(s *structural.Structural) bool {
	found := false
	visitor := structural.Visitor{Structural: func(s *structural.Structural) bool {
		found = found || s.Default.Object != nil
		return false
	}}
	visitor.Visit(s)
	return found
}

// Validate checks a tree and fills it with defaults. known is the tree without its unknown fields; it is the tree itself if there are none.
// ok is false if r was given a reason why the tree is invalid; unknown fields are reported to r too, but leave ok true. A value that the
// schema refuses does not hide what the rules say of others.
func (s *Schema) Validate(tree map[string]any, r *report.Report) (known map[string]any, ok bool) {
	if s.defaults {
		defaulting.Default(tree, s.root)
	}
	if s.quick.check(tree, true) == yes {
		return tree, s.checkRules(tree, nil, r)
	}
	defaulting.PruneNonNullableNullsWithoutDefaults(tree, s.root) // where there is nothing to drop, the quick walk found nothing
	defaulting.Default(tree, s.root)
	known = s.unknownFields(tree, r)
	refused, whole := s.openAPI(tree, r)
	// the checks that follow ignore the unknown fields
	return known, whole && s.checkRules(known, refused, r) && len(refused) == 0
}

// unknownFields reports the fields that an API server would prune, and returns the tree without them.
func (s *Schema) unknownFields(tree map[string]any, r *report.Report) map[string]any {
	known := deepCopy(tree).(map[string]any)
	for _, f := range pruning.PruneWithOptions(known, s.root, true, structural.UnknownFieldPathOptions{TrackUnknownFieldPaths: true}) {
		name, fix := f[strings.LastIndexByte(f, '.')+1:], ""
		if !r.Full() {
			fix = s.suggest(f, name)
		}
		r.Fail(f, code.UnknownField, "unknown field "+strconv.Quote(name), fix)
	}
	return known
}

// suggest names the field of the schema that an unknown one is nearest to.
func (s *Schema) suggest(f, name string) string {
	if w := s.root.Properties["spec"]; strings.Count(f, ".") == 0 {
		for n := range w.Properties {
			if n == name {
				return "it belongs under spec"
			}
		}
	}
	at := s.quick.find(strings.TrimSuffix(strings.TrimSuffix(f, name), "."))
	if at == nil {
		return ""
	}
	return spelling.DidYouMean(name, maps.Keys(at.props), 2)
}

// openAPI has the library judge types, enums, patterns, ranges and required fields. It returns the refused fields, with those that they are
// in; whole is false if some values were not judged.
func (s *Schema) openAPI(tree map[string]any, r *report.Report) (refused map[string]bool, whole bool) {
	s.strictOnce.Do(func() { s.strict, _, s.strictErr = validation.NewSchemaValidator(s.internal) })
	if s.strictErr != nil {
		r.Fail("", code.NoSchema, s.strictErr.Error(), "")
		return nil, false
	}
	t := &trimmer{left: maxDoubtful}
	trimmed := t.value(s.quick, tree).(map[string]any)
	errs := append(validation.ValidateCustomResource(nil, trimmed, s.strict), listtype.ValidateListSetsAndMaps(nil, s.root, tree)...)
	s.addErrors(tree, errs, r)
	if t.cut {
		r.Fail("", code.TooMuch, "the object has too many values that may be wrong: not all were looked at",
			"mend those that are named, or write several objects")
	}
	refused = map[string]bool{}
	for _, e := range errs {
		at := placeOf(e)
		for refused[at] = true; at != ""; refused[at] = true {
			at = report.Parent(at)
		}
	}
	return refused, !t.cut
}

// checkRules runs the CEL rules, except those of refused fields.
func (s *Schema) checkRules(tree map[string]any, refused map[string]bool, r *report.Report) bool {
	w := &ruleWalk{budget: celconfig.RuntimeCELCostBudget, refused: refused}
	w.walk(s.quick, tree, &report.Path{})
	if w.budget < 0 {
		at, message := w.overBudget()
		r.Fail(at, code.TooMuch, message, "write several objects")
		return false
	}
	s.addErrors(tree, w.errs, r)
	for range w.failed - mostExplained {
		r.Fail("", code.Invalid, "", "") // is counted only
	}
	return w.failed == 0
}

func deepCopy(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			out[k] = deepCopy(e)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = deepCopy(e)
		}
		return out
	}
	return v
}
