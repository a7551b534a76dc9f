package config

import (
	"slices"
	"testing"

	"fairway/internal/config/schemas"
)

// TestVersions: each kind has the versions that its schema is published with, and a stable one is preferred.
func TestVersions(t *testing.T) {
	for _, api := range APIs() {
		published, err := schemas.Load(string(api.Kind))
		if err != nil {
			t.Fatal(err)
		}
		have, want := slices.Sorted(slices.Values(api.Versions)), slices.Sorted(slices.Values(published.Versions))
		if !slices.Equal(have, want) || api.Group != published.Group {
			t.Errorf("%s: %s %v; its schema has %s %v", api.Kind, api.Group, have, published.Group, want)
		}
		if slices.Contains(want, "v1") && api.Versions[0] != "v1" {
			t.Errorf("%s: %s is preferred to v1", api.Kind, api.Versions[0])
		}
	}
}
