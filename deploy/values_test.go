package deploy_test

import (
	"encoding/json"
	"io/fs"
	"maps"
	"slices"
	"testing"

	"sigs.k8s.io/yaml"

	"fairway"
	"fairway/deploy"
)

func read(t *testing.T, file string, into any) {
	t.Helper()
	text, err := fs.ReadFile(deploy.Chart(), file)
	if err == nil {
		err = yaml.Unmarshal(text, into)
	}
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

// schema is what this test reads of a JSON schema.
type schema struct {
	Type        json.RawMessage
	Properties  map[string]*schema
	Additional  json.RawMessage `json:"additionalProperties"`
	Description string
}

// Values that have no default, so that only the schema names them.
var unset = []string{"global.proxy.lifecycle", "global.proxy.seccompProfile", "global"}

// TestValuesAreInTheSchema: values.yaml and its schema name the same values; a value that nobody knows is refused on every level.
func TestValuesAreInTheSchema(t *testing.T) {
	for _, dir := range []string{"", "charts/gateway/"} {
		var s schema
		values := map[string]any{}
		read(t, dir+"values.schema.json", &s)
		read(t, dir+"values.yaml", &values)
		same(t, dir, "", &s, values)
	}
}

func same(t *testing.T, dir, path string, s *schema, values map[string]any) {
	t.Helper()
	if len(s.Properties) == 0 || dir == "" && path == "gateway" { // of which another schema judges
		return
	}
	if string(s.Additional) != "false" {
		t.Errorf("%s%s: the schema takes values that nobody reads", dir, path)
	}
	for name, p := range s.Properties {
		at := name
		if path != "" {
			at = path + "." + name
		}
		value, has := values[name]
		if !has && !slices.Contains(unset, at) && !slices.Contains([]string{"requests", "limits", "claims"}, name) &&
			path != "podDisruptionBudget" && path != "pilot.podDisruptionBudget" {
			t.Errorf("%svalues.yaml does not name %s", dir, at)
		}
		if inner, ok := value.(map[string]any); ok {
			same(t, dir, at, p, inner)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if s.Properties[name] == nil {
			t.Errorf("%svalues.schema.json does not name %s below %q", dir, name, path)
		}
	}
}

// TestVersions: the charts are of the project's version, which is the tag of images.
func TestVersions(t *testing.T) {
	for _, file := range []string{"Chart.yaml", "charts/gateway/Chart.yaml"} {
		var c struct {
			Version, AppVersion string
			Dependencies        []struct{ Version string }
		}
		read(t, file, &c)
		if c.Version != fairway.Release || c.AppVersion != fairway.Release {
			t.Errorf("%s is version %s of %s, want %s", file, c.Version, c.AppVersion, fairway.Release)
		}
		for _, d := range c.Dependencies {
			if d.Version != fairway.Release {
				t.Errorf("%s needs version %s of another", file, d.Version)
			}
		}
	}
}

// TestCRDs: the build has them, whole.
func TestCRDs(t *testing.T) {
	text, err := deploy.CRDs()
	if err != nil {
		t.Fatal(err)
	}
	if len(text) < 500_000 {
		t.Errorf("the CRDs have %d bytes", len(text))
	}
}
