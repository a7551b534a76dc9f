package crd

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	extensionsv1alpha1 "istio.io/api/extensions/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"
	networkingv1beta1 "istio.io/api/networking/v1beta1"
	securityv1beta1 "istio.io/api/security/v1beta1"
	telemetryv1alpha1 "istio.io/api/telemetry/v1alpha1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	celconfig "k8s.io/apiserver/pkg/apis/cel"

	"fairway/internal/config/document"
	"fairway/internal/config/message"
	"fairway/internal/config/report"
)

// mutant changes a valid tree in some places: values of other types and ranges, fields removed, misspelt, copied.
type mutant struct{ *rand.Rand }

func (m mutant) tree(v any) any {
	switch v := v.(type) {
	case map[string]any:
		keys := slices.Sorted(maps.Keys(v))
		if len(keys) == 0 {
			return m.value()
		}
		k := keys[m.IntN(len(keys))]
		switch m.IntN(12) {
		case 0:
			delete(v, k)
		case 1:
			v[k+"x"] = v[k]
		case 2:
			v[keys[m.IntN(len(keys))]] = v[k]
		case 3:
			v[k] = m.value()
		default:
			v[k] = m.tree(v[k])
		}
		return v
	case []any:
		if len(v) == 0 {
			return []any{m.value()}
		}
		i := m.IntN(len(v))
		switch m.IntN(8) {
		case 0:
			return append(v, deepCopy(v[i]))
		case 1:
			return slices.Delete(v, i, i+1)
		}
		v[i] = m.tree(v[i])
		return v
	}
	return m.value()
}

func (m mutant) value() any {
	pool := []any{
		"",
		"a",
		"*",
		"80",
		"-1",
		"5s",
		"1ms",
		"10us",
		"unix:///x",
		"unix://x",
		"10.0.0.0/8",
		"HTTP",
		"STATIC",
		"NONE",
		"ROUND_ROBIN",
		"MUTUAL",
		"a.*",
		"(",
		strings.Repeat("x", 300),
		int64(0),
		int64(1),
		int64(-1),
		int64(80),
		int64(65536),
		int64(1 << 40),
		0.5,
		-0.5,
		1e30,
		100.0,
		true,
		false,
		nil,
		map[string]any{},
		[]any{},
		map[string]any{"a": "b"},
		map[string]any{
			"number": int64(70000),
		},
		map[string]any{"simple": "RANDOM", "consistentHash": map[string]any{"useSourceIp": true}},
		[]any{"a", "a"},
		map[string]any{"exact": "a", "prefix": "b"},
	}
	return deepCopy(pool[m.IntN(len(pool))])
}

// validTrees are valid documents of every kind; config's TestEveryKindDecodes holds that none is missing.
func validTrees(t *testing.T) []map[string]any {
	t.Helper()
	text, err := os.ReadFile("../testdata/valid.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var out []map[string]any
	for _, doc := range document.Split("valid.yaml", text) {
		tree, bad := doc.Tree()
		if bad != nil {
			t.Fatal(bad)
		}
		out = append(out, tree.(map[string]any))
	}
	return out
}

// schemasOf loads the schema of each kind that has a valid document.
func schemasOf(t *testing.T, trees []map[string]any) map[string]*Schema {
	t.Helper()
	out := map[string]*Schema{}
	for _, tree := range trees {
		kind := tree["kind"].(string)
		if out[kind] != nil {
			continue
		}
		var err error
		if out[kind], err = Load(kind); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// mutants calls fn with changed copies of all valid documents.
func mutants(t *testing.T, n int, fn func(kind string, s *Schema, tree map[string]any)) {
	m, trees := mutant{rand.New(rand.NewPCG(1, 2))}, validTrees(t)
	loaded := schemasOf(t, trees)
	for _, v := range trees {
		kind := v["kind"].(string)
		for range n {
			tree := deepCopy(v).(map[string]any)
			for range 1 + m.IntN(3) {
				tree["spec"] = m.tree(tree["spec"])
			}
			fn(kind, loaded[kind], tree)
		}
	}
}

// libraryErrors returns the errors that an API server has for a tree: unknown fields, schema, CEL rules.
func libraryErrors(t *testing.T, s *Schema, rules *cel.Validator, tree map[string]any) (unknown []string, schemaErrs, ruleErrs int) {
	t.Helper()
	if s.strict == nil {
		var err error
		if s.strict, _, err = validation.NewSchemaValidator(s.internal); err != nil {
			t.Fatal(err)
		}
	}
	pruned := deepCopy(tree).(map[string]any)
	unknown = pruning.PruneWithOptions(pruned, s.root, true, structural.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
	schemaErrs = len(validation.ValidateCustomResource(nil, tree, s.strict)) + len(listtype.ValidateListSetsAndMaps(nil, s.root, tree))
	if schemaErrs == 0 {
		errs, _ := rules.Validate(context.Background(), nil, s.root, pruned, nil, celconfig.RuntimeCELCostBudget)
		ruleErrs = len(errs)
	}
	return unknown, schemaErrs, ruleErrs
}

// TestWalkIsTheLibrary: our walk of schema and rules accepts exactly what the library accepts, and finds as many mistakes. If the schema
// refuses something, the library runs no rules; we do, where it is not refused.
func TestWalkIsTheLibrary(t *testing.T) {
	rules := map[string]*cel.Validator{}
	quick, total := 0, 0
	mutants(t, 150, func(kind string, s *Schema, tree map[string]any) {
		if rules[kind] == nil {
			rules[kind] = cel.NewValidator(s.root, true, celconfig.PerCallLimit)
		}
		text, _ := json.Marshal(tree)
		r := report.New(document.Document{Text: text})
		judged := deepCopy(tree).(map[string]any)
		defaulted := deepCopy(tree).(map[string]any)
		defaulting.PruneNonNullableNullsWithoutDefaults(defaulted, s.root) // an API server does this first
		unknown, schemaErrs, ruleErrs := libraryErrors(t, s, rules[kind], defaulted)
		known, ok := s.Validate(judged, &r)
		ok = ok && !r.Failed()
		if want := len(unknown)+schemaErrs+ruleErrs == 0; ok != want {
			t.Errorf("%s: %v, the library says %v %d %d\n%s\n%v", kind, ok, unknown, schemaErrs, ruleErrs, text, r.Listed())
		}
		want := len(unknown) + schemaErrs + ruleErrs
		if n := len(r.Listed()); !ok && n != want && (schemaErrs == 0 || n < want) {
			t.Errorf("%s: %d problems, the library has %v %d %d\n%s\n%v", kind, n, unknown, schemaErrs, ruleErrs, text, r.Listed())
		}
		total++
		if s.quick.check(known, true) == yes {
			quick++
		} else if ok {
			t.Logf("the quick walk could not vouch for %s", text)
		}
	})
	if quick < total/20 {
		t.Errorf("only %d of %d documents were right: the test says little", quick, total)
	}
}

// TestEveryRuleIsRun: the walk holds as many CEL rules as the schemas do.
func TestEveryRuleIsRun(t *testing.T) {
	for kind, s := range schemasOf(t, validTrees(t)) {
		raw, _ := json.Marshal(s.internal)
		want := bytes.Count(raw, []byte(`"Rule":`))
		if got := countRules(s.quick); got != want || want == 0 {
			t.Errorf("%s: %d rules of %d", kind, got, want)
		}
	}
}

func countRules(n *node) int {
	if n == nil {
		return 0
	}
	sum := countRules(n.items) + countRules(n.extra)
	if n.rule != nil {
		sum += len(n.rule.schema.XValidations)
	}
	for _, p := range n.props {
		sum += countRules(p)
	}
	return sum
}

// specs are possible specifications of each kind.
var specs = map[string]func() proto.Message{
	"VirtualService":        func() proto.Message { return new(networking.VirtualService) },
	"DestinationRule":       func() proto.Message { return new(networking.DestinationRule) },
	"Gateway":               func() proto.Message { return new(networking.Gateway) },
	"ServiceEntry":          func() proto.Message { return new(networking.ServiceEntry) },
	"Sidecar":               func() proto.Message { return new(networking.Sidecar) },
	"WorkloadEntry":         func() proto.Message { return new(networking.WorkloadEntry) },
	"WorkloadGroup":         func() proto.Message { return new(networking.WorkloadGroup) },
	"EnvoyFilter":           func() proto.Message { return new(networking.EnvoyFilter) },
	"ProxyConfig":           func() proto.Message { return new(networkingv1beta1.ProxyConfig) },
	"PeerAuthentication":    func() proto.Message { return new(securityv1beta1.PeerAuthentication) },
	"RequestAuthentication": func() proto.Message { return new(securityv1beta1.RequestAuthentication) },
	"AuthorizationPolicy":   func() proto.Message { return new(securityv1beta1.AuthorizationPolicy) },
	"Telemetry":             func() proto.Message { return new(telemetryv1alpha1.Telemetry) },
	"WasmPlugin":            func() proto.Message { return new(extensionsv1alpha1.WasmPlugin) },
	"TrafficExtension":      func() proto.Message { return new(extensionsv1alpha1.TrafficExtension) },
}

// TestMessagesAreIstios: our filler makes the same message of a tree as istio.io/api's own decoder makes of its JSON.
func TestMessagesAreIstios(t *testing.T) {
	same := 0
	mutants(t, 300, func(kind string, s *Schema, tree map[string]any) {
		spec, ok := tree["spec"].(map[string]any)
		if !ok {
			return
		}
		if s.quick.check(tree, true) != yes {
			return
		}
		ours, theirs := specs[kind](), specs[kind]()
		r := report.New(document.Document{})
		message.Fill(ours.ProtoReflect(), spec, report.Path{}, &r)
		said := r.Listed()
		raw, err := json.Marshal(spec)
		if err != nil {
			t.Fatal(err)
		}
		err = theirs.(json.Unmarshaler).UnmarshalJSON(raw)
		switch {
		case (err == nil) != (len(said) == 0):
			if strings.Contains(fmt.Sprint(err), "oneof") == strings.Contains(fmt.Sprint(said), "exclude") {
				t.Errorf("%s %s\nours: %v\ntheirs: %v", kind, raw, said, err)
			}
		case err == nil && !proto.Equal(ours, theirs):
			t.Errorf("%s %s\n ours: %v\ntheirs: %v", kind, raw, ours, theirs)
		default:
			same++
		}
	})
	if same < 100 {
		t.Errorf("only %d documents compared", same)
	}
}
