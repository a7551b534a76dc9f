package authentication_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	securityv1beta1 "istio.io/api/security/v1beta1"
	"sigs.k8s.io/yaml"

	"fairway/internal/envoy"
	"fairway/internal/envoy/authentication"
	"fairway/internal/golden"
)

// TestGoldens: testdata/NAME.in.yaml holds rules, each with the keys found for it; NAME.golden.yaml is their filter.
func TestGoldens(t *testing.T) {
	files, err := filepath.Glob("testdata/*.in.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("no cases", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".in.yaml"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var rules []authentication.Rule
			for doc := range strings.SplitSeq(string(text), "\n---\n") {
				rules = append(rules, parse(t, doc))
			}
			filter := authentication.Filter(rules)
			if err := envoy.Encode(filter).Err; err != nil {
				t.Errorf("Envoy would refuse it: %v", err)
			}
			raw, err := protojson.Marshal(filter)
			if err != nil {
				t.Fatal(err)
			}
			got, err := yaml.JSONToYAML(raw)
			if err != nil {
				t.Fatal(err)
			}
			golden.File(t, strings.Replace(file, ".in.", ".golden.", 1), string(got))
		})
	}
	if f := authentication.Filter(nil); f != nil {
		t.Error("a workload without rules has", f)
	}
}

func parse(t *testing.T, doc string) authentication.Rule {
	t.Helper()
	var in struct {
		Keys struct {
			Local, URI, Cluster string
		}
		Rule map[string]any
	}
	if err := yaml.Unmarshal([]byte(doc), &in); err != nil {
		t.Fatal(err)
	}
	raw, err := yaml.Marshal(in.Rule)
	if err == nil {
		raw, err = yaml.YAMLToJSON(raw)
	}
	spec := &securityv1beta1.JWTRule{}
	if err == nil {
		err = protojson.Unmarshal(raw, spec)
	}
	if err != nil {
		t.Fatal(err)
	}
	keys := authentication.Keys{Local: in.Keys.Local, URI: in.Keys.URI, Cluster: in.Keys.Cluster}
	if keys.Cluster != "" {
		keys.Timeout, keys.Refresh = 5*time.Second, 20*time.Minute
	}
	return authentication.Rule{Spec: spec, Keys: keys}
}
