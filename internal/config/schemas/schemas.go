package schemas

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

//go:embed all:data
var data embed.FS

//go:embed native
var native embed.FS

// ErrMissing means that the program was built without the schemas.
var ErrMissing = errors.New(
	"this program was built without Istio's CRD schemas, which `go build` alone does not get: build it with `make build`, " +
		"or run `go generate ./internal/config/schemas` before `go build`",
)

// Check returns nil if the program has the schemas of these kinds, else an ErrMissing that names the missing ones in the given order.
func Check(kinds []string) error { return check(data, kinds) }

func check(files fs.FS, kinds []string) error {
	var missing []string
	for _, kind := range kinds {
		if _, err := fs.Stat(native, nativeFile(kind)); err == nil {
			continue
		}
		if _, err := fs.Stat(files, "data/"+kind+".json"); err != nil {
			missing = append(missing, kind)
		}
	}
	switch len(missing) {
	case 0:
		return nil
	case len(kinds):
		return ErrMissing
	}
	return fmt.Errorf("no schema of %s: %w", strings.Join(missing, ", "), ErrMissing)
}

func nativeFile(kind string) string { return "native/" + kind + ".json" }

// gateways is the group of a kind whose word Istio's API has, too.
const gateways = "gateway.networking.k8s.io"

// Unique returns a name for a kind of a group that no kind of another group has: the word, or with the group behind it.
func Unique(group, word string) string {
	if group == gateways && word == "Gateway" {
		return word + "." + group
	}
	return word
}

// Schema is the published schema of one kind. All its API versions have the same schema: the generator refuses anything else.
type Schema struct {
	Group    string
	Kind     string
	Versions []string // as served, in the order of the CRD
	OpenAPI  *apiextensionsv1.JSONSchemaProps
}

// Load reads one kind's schema. A build without schemas gives ErrMissing.
func Load(kind string) (*Schema, error) {
	raw, err := native.ReadFile(nativeFile(kind))
	if err != nil {
		raw, err = data.ReadFile("data/" + kind + ".json")
	}
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
