package schemas

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

//go:embed all:data
var data embed.FS

// ErrMissing says that the program was built without the schemas.
var ErrMissing = errors.New("this program was built without Istio's CRD schemas: run `make schemas` and build again")

// Schema is what Istio publishes of one kind. All its API versions have the same schema: the generator refuses anything else.
type Schema struct {
	Group    string
	Kind     string
	Versions []string // as served, in the order of the CRD
	OpenAPI  *apiextensionsv1.JSONSchemaProps
}

// Load reads one kind's schema. A build without schemas gives ErrMissing.
func Load(kind string) (*Schema, error) {
	raw, err := data.ReadFile("data/" + kind + ".json")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("schema of %s: %w", kind, ErrMissing)
	}
	if err != nil {
		return nil, fmt.Errorf("schema of %s: %w", kind, err)
	}
	s := new(Schema)
	if err := json.Unmarshal(raw, s); err != nil {
		return nil, fmt.Errorf("schema of %s: %w", kind, err)
	}
	return s, nil
}

// Has says whether a kind's schema is embedded, without reading it.
func Has(kind string) bool {
	f, err := data.Open("data/" + kind + ".json")
	if err != nil {
		return false
	}
	return f.Close() == nil
}
