package format

import (
	"strings"
	"testing"
)

// TestCommands: Envoy refuses the whole virtual host for a command that its formatter does not know, and some commands that it
// knows return data that a rule's author may not see.
func TestCommands(t *testing.T) {
	for value, want := range map[string]bool{
		"plain":                               true,
		"100%%":                               true,
		"100%":                                false,
		"%PROTOCOL% to %UPSTREAM_CLUSTER%":    true,
		"%REQ(x-a?:authority):20%":            true,
		"%REQ(x-a):123456%":                   false,
		"%START_TIME%":                        true,
		"%START_TIME(%s)%":                    true,
		"%START_TIME(%Y-%m-%dT%H:%M:%S.%3f)%": true,
		"%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%":  true,
		"%DOWNSTREAM_PEER_CERT%":                    true,
		"%HOSTNAME%":                                true,
		"%UPSTREAM_METADATA(a:b)%":                  true,
		"%DYNAMIC_METADATA(a:b)%":                   false,
		"%ENVIRONMENT(HOME)%":                       false,
		"%%%ENVIRONMENT(HOME)%":                     false,
		"%%ENVIRONMENT(HOME)%%":                     true,
		`%COALESCE({"operators":["ENVIRONMENT"]})%`: false,
		"%CEL(xds.node)%":                           false,
		"%FILTER_STATE(x)%":                         false,
		"%REQ(x%ENVIRONMENT(HOME)%)%":               false,
		"%REQ(a(b)%":                                false,
		"%REQ(" + strings.Repeat("a", 257) + ")%":   false,
		strings.Repeat("%PROTOCOL%", 64):            true,
		strings.Repeat("%PROTOCOL%", 65):            false,
		"%NO_SUCH_THING%":                           false,
		"%REQ%":                                     false,
		"%PROTOCOL(x)%":                             false,
	} {
		if got := Valid(value); got != want {
			t.Errorf("%q is a header's value: %t, want %t", value, got, want)
		}
	}
}

func TestValid(t *testing.T) {
	for v, want := range map[string]bool{
		"": true, "plain": true, "100%%": true, "%REQ(x-id)%": true, "a %REQ(x?y):10% b": true,
		"%DOWNSTREAM_REMOTE_ADDRESS%": true, "%START_TIME(%s)%": true,
		"50%": false, "%": false, "%lower%": false, "%REQ(x%": false, "%REQ(x):%": false, "a\nb": false, "a\x00b": false,
	} {
		if Valid(v) != want {
			t.Errorf("Valid(%q) is %v", v, !want)
		}
	}
}

// FuzzValid: in a value that passes, no withheld command follows a percent sign that is not doubled, for a formatter that reads from
// left to right.
func FuzzValid(f *testing.F) {
	for _, s := range []string{
		"%REQ(a)%%%ENVIRONMENT(X)%", "%START_TIME(%ENVIRONMENT(X)%)%", "%%%%ENVIRONMENT(X)%", "%PROTOCOL%:5",
		"%REQ(a):1%",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, v string) {
		if !Valid(v) {
			return
		}
		for i := 0; i < len(v); i++ {
			if v[i] != '%' {
				continue
			}
			rest := v[i+1:]
			if strings.HasPrefix(rest, "%") {
				i++
				continue
			}
			name := rest[:commandName(rest)]
			if listed(withheldCommands, name) || name == "" {
				t.Fatalf("%q passes with %q", v, name)
			}
			end := strings.IndexByte(rest[len(name):], '%')
			if strings.HasPrefix(rest[len(name):], "(") {
				end = strings.Index(rest[len(name):], ")")
				end += strings.IndexByte(rest[len(name)+end:], '%')
			}
			i += 1 + len(name) + end
		}
	})
}

// TestBounds: the first and the last character of each class, and lengths at their bounds.
func TestBounds(t *testing.T) {
	for name, want := range map[string]int{
		"": 0, "AZ09_": 5, "A@": 1, "A[": 1, "A/": 1, "A:": 1, "A`": 1, "a": 0, "Z": 1, "AZ(": 2, "_": 1, "0": 1, "9": 1,
	} {
		if got := commandName(name); got != want {
			t.Errorf("%q: %d, want %d", name, got, want)
		}
	}
	for value, want := range map[string]bool{
		"%REQ(" + strings.Repeat("a", maxArgument) + ")%": true, "%REQ(" + strings.Repeat("a", maxArgument+1) + ")%": false,
		"%REQ( ~)%": true, "%REQ(\x1f)%": false, "%REQ(\x7f)%": false, "%REQ(%)%": false, "%START_TIME(()%": false,
		"%START_TIME(%)%": true,
	} {
		if got := Valid(value); got != want {
			t.Errorf("%q: %v, want %v", value, got, want)
		}
	}
	for value, want := range map[string]string{
		"": "", "%ENVIRONMENT(A)%": "ENVIRONMENT", "a%%ENVIRONMENT": "ENVIRONMENT", "%REQ(%ENVIRONMENT(A)%)%": "ENVIRONMENT",
		"%PROTOCOL%":  "",
		"ENVIRONMENT": "", "%": "", "%PROTOCOL% %CEL(x)%": "CEL",
	} {
		if got := Withheld(value); got != want {
			t.Errorf("%q withholds %q, want %q", value, got, want)
		}
	}
}
