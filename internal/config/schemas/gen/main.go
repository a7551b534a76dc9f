// Command gen copies the CRD schemas from the istio.io/api module and from the Gateway API's, and writes one trimmed JSON file for each
// kind into ../data. It is run by `go generate` in the folder above. With -published FILE it writes Istio's CRDs as they are published into
// that file instead.
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"fairway/internal/config/schemas"
)

func main() {
	published := flag.String("published", "", "file for the CRDs as they are published, in place of the schemas")
	flag.Parse()
	if err := run("data", *published); err != nil {
		fmt.Fprintln(os.Stderr, "schemas:", err)
		os.Exit(1)
	}
}

func run(dir, published string) error {
	module, err := moduleDir("istio.io/api")
	if err != nil {
		return err
	}
	raw, err := os.ReadFile(filepath.Join(module, "kubernetes", "customresourcedefinitions.gen.yaml"))
	if err != nil {
		return err
	}
	if published != "" {
		return replace(published, raw)
	}
	for _, doc := range bytes.Split(raw, []byte("\n---\n")) {
		crd := new(apiextensionsv1.CustomResourceDefinition)
		if err := yaml.Unmarshal(doc, crd); err != nil {
			return fmt.Errorf("read CRD: %w", err)
		}
		if crd.Spec.Names.Kind == "" {
			continue
		}
		if err := write(dir, crd); err != nil {
			return fmt.Errorf("%s: %w", crd.Spec.Names.Kind, err)
		}
	}
	return eachGatewayCRD(func(crd *apiextensionsv1.CustomResourceDefinition) error { return write(dir, crd) })
}

// moduleDir asks the go tool where the version of the module that go.mod names is unpacked, and has it fetched if need be.
func moduleDir(path string) (string, error) {
	if out, err := exec.Command("go", "mod", "download", path).CombinedOutput(); err != nil {
		return "", fmt.Errorf("go mod download %s: %w: %s", path, err, out)
	}
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", path).Output()
	if err != nil {
		return "", fmt.Errorf("go list -m %s: %w", path, err)
	}
	return strings.TrimSpace(string(out)), nil
}

func write(dir string, crd *apiextensionsv1.CustomResourceDefinition) error {
	s := schemas.Schema{Group: crd.Spec.Group, Kind: crd.Spec.Names.Kind}
	for _, v := range crd.Spec.Versions {
		if !v.Served {
			continue
		}
		trim(v.Schema.OpenAPIV3Schema)
		if s.OpenAPI != nil && !reflect.DeepEqual(s.OpenAPI, v.Schema.OpenAPIV3Schema) {
			return fmt.Errorf("version %s has a schema of its own, which the decoder does not expect", v.Name)
		}
		s.Versions, s.OpenAPI = append(s.Versions, v.Name), v.Schema.OpenAPIV3Schema
	}
	out, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return replace(filepath.Join(dir, schemas.Unique(s.Group, s.Kind)+".json"), out)
}

// replace writes the file only if it differs, so that a second run leaves go's build cache warm.
func replace(path string, data []byte) error {
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, data) {
		return nil
	}
	return os.WriteFile(path, data, 0o644)
}

// trim drops what nothing validates by: the descriptions, half of the text.
func trim(s *apiextensionsv1.JSONSchemaProps) {
	if s == nil {
		return
	}
	s.Description = ""
	for name, p := range s.Properties {
		trim(&p)
		s.Properties[name] = p
	}
	if s.Items != nil {
		trim(s.Items.Schema)
	}
	if s.AdditionalProperties != nil {
		trim(s.AdditionalProperties.Schema)
	}
	trim(s.Not)
	for _, list := range [][]apiextensionsv1.JSONSchemaProps{s.AllOf, s.AnyOf, s.OneOf} {
		for i := range list {
			trim(&list[i])
		}
	}
}
