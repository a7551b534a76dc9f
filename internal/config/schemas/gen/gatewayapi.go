package main

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"fairway/internal/config/schemas/published"
)

// eachGatewayCRD hands over each CRD of the Gateway API. Versions with another schema than the newest are left out: newer ones take their
// place.
func eachGatewayCRD(do func(*apiextensionsv1.CustomResourceDefinition) error) error {
	files, err := published.GatewayAPI()
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		crd, err := readCRD(files[name])
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if crd == nil {
			continue
		}
		if err := do(crd); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// readCRD reads the CRD of a file; nil if it holds something else.
func readCRD(text []byte) (*apiextensionsv1.CustomResourceDefinition, error) {
	crd := new(apiextensionsv1.CustomResourceDefinition)
	if err := yaml.Unmarshal(text, crd); err != nil || crd.Kind != "CustomResourceDefinition" {
		return nil, err
	}
	var same []apiextensionsv1.CustomResourceDefinitionVersion
	for _, v := range crd.Spec.Versions {
		root, anything := v.Schema.OpenAPIV3Schema, true
		root.Properties["status"] = apiextensionsv1.JSONSchemaProps{ // controllers write it, and API servers judge what they write
			Type: "object", XPreserveUnknownFields: &anything,
		}
		trim(root)
		if len(same) == 0 || reflect.DeepEqual(v.Schema, same[0].Schema) {
			same = append(same, v)
		}
	}
	crd.Spec.Versions = same
	return crd, nil
}
