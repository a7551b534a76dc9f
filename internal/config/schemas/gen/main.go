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
	"path/filepath"
	"reflect"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"fairway/internal/config/schemas"
	"fairway/internal/config/schemas/published"
)

func main() {
	to := flag.String("published", "", "file for the CRDs as they are published, in place of the schemas")
	flag.Parse()
	if err := run("data", *to); err != nil {
		fmt.Fprintln(os.Stderr, "schemas:", err)
		os.Exit(1)
	}
}

func run(dir, to string) error {
	raw, err := published.Istio()
	if err != nil {
		return err
	}
	if to != "" {
		return replace(to, raw)
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
