package main

import (
	"archive/zip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"reflect"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// gatewayAPI is the release of the Gateway API whose CRDs are read, and the hash of its module, as go.sum would have it. Its Go code wants
// a newer Go than ours, so that the module cannot be one of go.mod's: its archive alone is read.
const (
	gatewayAPI = "sigs.k8s.io/gateway-api@v1.7.0"
	gatewaySum = "h1:duVnm7nO6oXfMMUWfcDoBph47CYR/ME3NGxccOVglaY="
)

// eachGatewayCRD hands over each CRD of the experimental channel, which has all that the standard one has, in the API group of the standard
// one. Versions with another schema than the newest are left out: newer ones take their place.
func eachGatewayCRD(do func(*apiextensionsv1.CustomResourceDefinition) error) error {
	archive, err := gatewayArchive()
	if err != nil {
		return err
	}
	files, err := zip.OpenReader(archive)
	if err != nil {
		return fmt.Errorf("open %s: %w", gatewayAPI, err)
	}
	defer func() { _ = files.Close() }()
	found := false
	for _, f := range files.File {
		dir, name := path.Split(f.Name)
		if !strings.HasSuffix(dir, "/config/crd/experimental/") || !strings.HasPrefix(name, "gateway.networking.k8s.io_") {
			continue
		}
		crd, err := readCRD(f)
		if err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
		if crd == nil {
			continue
		}
		found = true
		if err := do(crd); err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	if !found {
		return fmt.Errorf("%s has no CRDs where they were", gatewayAPI)
	}
	return nil
}

// gatewayArchive returns the module's archive, which the go tool fetches if need be.
func gatewayArchive() (string, error) {
	download := exec.Command("go", "mod", "download", "-json", gatewayAPI)
	download.Env = append(os.Environ(), "GONOSUMDB=sigs.k8s.io/gateway-api") // its hash is compared here
	out, err := download.Output()
	var got struct{ Zip, Sum, Error string }
	if wrong := json.Unmarshal(out, &got); wrong != nil {
		return "", fmt.Errorf("go mod download %s: %w", gatewayAPI, errors.Join(err, wrong))
	}
	switch { // it fails for the newer Go alone, with the archive at hand
	case got.Zip == "":
		return "", fmt.Errorf("go mod download %s: %s", gatewayAPI, got.Error)
	case got.Sum != gatewaySum:
		return "", fmt.Errorf("%s has the hash %s, want %s", gatewayAPI, got.Sum, gatewaySum)
	}
	return got.Zip, nil
}

// readCRD reads the CRD of a file; nil if it holds something else.
func readCRD(f *zip.File) (*apiextensionsv1.CustomResourceDefinition, error) {
	in, err := f.Open()
	if err != nil {
		return nil, err
	}
	defer func() { _ = in.Close() }()
	raw, err := io.ReadAll(in)
	if err != nil {
		return nil, err
	}
	crd := new(apiextensionsv1.CustomResourceDefinition)
	if err := yaml.Unmarshal(raw, crd); err != nil || crd.Kind != "CustomResourceDefinition" {
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
