package settings

import (
	"slices"
	"strings"
	"testing"
)

// TestEnvoyGetsFewVariables: Envoy gets only those of the agent's variables that are on the list or that the operator names; none
// on the list may be a secret.
func TestEnvoyGetsFewVariables(t *testing.T) {
	vars := map[string]string{
		"TZ":                         "UTC",
		"PATH":                       "/bin",
		"POD_NAME":                   "a",
		"AWS_SECRET_ACCESS_KEY":      "s",
		"AWS_REGION":                 "eu",
		"DD_API_KEY":                 "s",
		"OTEL_EXPORTER_OTLP_HEADERS": "s",
		"MY_TOKEN":                   "s",
		"NOTIFY_SOCKET":              "/run/x",
		"ISTIO_META_SECRET":          "s",
		"PROXY_CONFIG":               "{}",
		"FAIRWAY_CALLER":             "forged",
		"TZX":                        "s",
	}
	for pass, want := range map[string][]string{
		"":                        {"PATH=/bin", "POD_NAME=a", "TZ=UTC"},
		"AWS_REGION , DD_API_KEY": {"AWS_REGION=eu", "DD_API_KEY=s", "PATH=/bin", "POD_NAME=a", "TZ=UTC"},
		"AWS_*,FAIRWAY_*,":        {"AWS_REGION=eu", "AWS_SECRET_ACCESS_KEY=s", "PATH=/bin", "POD_NAME=a", "TZ=UTC"},
	} {
		vars[passVariable] = pass
		if got, err := envoyVariables(vars); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %q, %v, want %q", pass, got, err, want)
		}
	}
	for _, bad := range []string{"*", "A-B", "A*B", "A=1"} {
		vars[passVariable] = bad
		if _, err := envoyVariables(vars); err == nil || !strings.Contains(err.Error(), passVariable) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
