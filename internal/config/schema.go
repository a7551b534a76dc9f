package config

import (
	"fmt"
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

	"fairway/internal/config/schemas"
	"fairway/internal/spelling"
)

// schema validates trees of one kind as an API server does. Most objects are right, and for those a walk of our own
// (quick.go) is enough; what it cannot vouch for is judged, and explained, by the library.
type schema struct {
	versions []string
	root     *structural.Structural
	quick    *node
	defaults bool // some field has a default
	internal *apiextensions.JSONSchemaProps

	strictOnce sync.Once
	strict     validation.SchemaValidator // of the library; only built when something is wrong
	strictErr  error
}

func loadSchema(name Kind) (*schema, error) {
	published, err := schemas.Load(string(name))
	if err != nil {
		return nil, err
	}
	s := &schema{versions: published.Versions, internal: new(apiextensions.JSONSchemaProps)}
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(published.OpenAPI, s.internal, nil); err != nil {
		return nil, fmt.Errorf("schema of %s: %w", name, err)
	}
	if s.root, err = structural.NewStructural(s.internal); err != nil {
		return nil, fmt.Errorf("schema of %s: %w", name, err)
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

// validate says whether the tree is valid, and fills in defaults. If not, the problems are added to the draft.
func (s *schema) validate(w *draft) bool {
	if s.defaults {
		defaulting.Default(w.tree, s.root)
	}
	if s.quick.check(w.tree, true) == yes {
		return s.checkRules(w)
	}
	defaulting.PruneNonNullableNullsWithoutDefaults(w.tree, s.root) // where there is nothing to drop, the quick walk found nothing
	defaulting.Default(w.tree, s.root)
	known := s.unknownFields(w)
	s.openAPI(w)
	w.tree = known // what comes after judges the rest as if the unknown fields were not there
	return !w.broken && s.checkRules(w)
}

// unknownFields reports what an API server would prune, and returns the tree without it.
func (s *schema) unknownFields(w *draft) map[string]any {
	tree := deepCopy(w.tree).(map[string]any)
	for _, f := range pruning.PruneWithOptions(tree, s.root, true, structural.UnknownFieldPathOptions{TrackUnknownFieldPaths: true}) {
		name, fix := f[strings.LastIndexByte(f, '.')+1:], ""
		if !w.full() {
			fix = s.suggest(f, name)
		}
		w.fail(f, "UnknownField", "unknown field "+quote(name), fix)
	}
	return tree
}

// suggest names the field of the schema that an unknown one is nearest to.
func (s *schema) suggest(f, name string) string {
	if len(name) > longestName {
		return ""
	}
	if w := s.root.Properties["spec"]; strings.Count(f, ".") == 0 {
		for n := range w.Properties {
			if n == name {
				return "it belongs under spec"
			}
		}
	}
	best, dist := "", 3
	at := s.quick.find(strings.TrimSuffix(strings.TrimSuffix(f, name), "."))
	if at == nil {
		return ""
	}
	for n := range at.props {
		if d := spelling.Distance(name, n, 3); d < dist || d == dist && n < best {
			best, dist = n, d
		}
	}
	if best == "" {
		return ""
	}
	return "did you mean " + best + "?"
}

// openAPI has the library judge types, enums, patterns, ranges and required fields.
func (s *schema) openAPI(w *draft) {
	s.strictOnce.Do(func() { s.strict, _, s.strictErr = validation.NewSchemaValidator(s.internal) })
	if s.strictErr != nil {
		w.fail("", "NoSchema", s.strictErr.Error(), "")
		return
	}
	t := &trimmer{left: maxDoubtful}
	tree := t.value(s.quick, w.tree).(map[string]any)
	s.addErrors(w, validation.ValidateCustomResource(nil, tree, s.strict))
	s.addErrors(w, listtype.ValidateListSetsAndMaps(nil, s.root, w.tree))
	if t.cut {
		w.fail(
			"",
			"TooMuch",
			"the object has too many values that may be wrong: not all were looked at",
			"mend those that are named, or write several objects",
		)
	}
}

// checkRules runs the CEL rules.
func (s *schema) checkRules(w *draft) bool {
	budget := int64(celconfig.RuntimeCELCostBudget)
	(&ruleWalk{schema: s, draft: w, budget: &budget}).walk(s.quick, w.tree, &path{})
	return !w.broken
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
