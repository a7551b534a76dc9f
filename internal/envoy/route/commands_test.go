package route

import "testing"

// TestHeaderValueCommands: what Envoy's formatter does not know makes it refuse the whole virtual host.
func TestHeaderValueCommands(t *testing.T) {
	for value, want := range map[string]bool{
		"plain":                            true,
		"100%%":                            true,
		"100%":                             false,
		"%PROTOCOL% to %UPSTREAM_CLUSTER%": true,
		"%REQ(x-a?:authority):20%":         true,
		"%START_TIME%":                     true,
		"%START_TIME(%s)%":                 true,
		"%DYNAMIC_METADATA(a:b)%":          true,
		"%NO_SUCH_THING%":                  false,
		"%REQ%":                            false,
		"%PROTOCOL(x)%":                    false,
	} {
		if got := headerValue(value); got != want {
			t.Errorf("%q is a header's value: %t, want %t", value, got, want)
		}
	}
}
