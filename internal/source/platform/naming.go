package platform

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"fairway/internal/mesh"
	"fairway/internal/printable"
)

// Naming says how services of a registry are named in the mesh, and their protocol if they do not say. It is a part of each
// registry's options.
type Naming struct {
	// Host is the template of a service's host: "{name}.service.consul". {name} and {namespace} are the registry's own words,
	// others are what the registry's page names. It becomes lower case.
	Host string `json:"host,omitempty"`
	// Namespace is the template of its namespace; empty: "default".
	Namespace string `json:"namespace,omitempty"`
	// Protocol is what ports speak that say nothing, by its name in Istio's API; empty: it is found out.
	Protocol string `json:"protocol,omitempty"`
	// Port is the number that clients address, whatever instances listen on; 0: each port of instances is one of the service.
	Port uint32 `json:"port,omitempty"`
}

// DefaultNamespace is that of services which a registry puts in none.
const DefaultNamespace = "default"

// Validate returns every mistake as an error. vars are the words that templates may have beside name and namespace.
func (n Naming) Validate(vars ...string) error {
	var errs []error
	for _, t := range []struct{ field, text string }{{"host", n.Host}, {"namespace", n.Namespace}} {
		if err := checkTemplate(t.text, vars); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", t.field, err))
		}
	}
	if n.Host != "" && !strings.Contains(n.Host, "{name}") {
		errs = append(errs, fmt.Errorf("host: %q gives all services one host; write {name} where a service's name belongs", n.Host))
	}
	if _, ok := mesh.ParseProtocol(n.Protocol); n.Protocol != "" && !ok {
		errs = append(errs,
			fmt.Errorf("protocol: %q is not valid; want HTTP, HTTP2, GRPC, TCP, TLS, …", printable.Text(n.Protocol, printable.Short)))
	}
	if n.Port > 65535 {
		errs = append(errs, fmt.Errorf("port: %d; want a number from 1 to 65535, or none", n.Port))
	}
	return errors.Join(errs...)
}

var word = regexp.MustCompile(`\{[^{}]*\}`)

func checkTemplate(text string, vars []string) error {
	if len(text) > maxWord {
		return fmt.Errorf("%d bytes are too long for a template", len(text))
	}
	known := append([]string{"name", "namespace"}, vars...)
	for _, at := range word.FindAllString(text, -1) {
		is := false
		for _, v := range known {
			is = is || at == "{"+v+"}"
		}
		if !is {
			return fmt.Errorf("%s is not a known placeholder; want {%s}", printable.Text(at, printable.Short), strings.Join(known, "}, {"))
		}
	}
	if strings.ContainsAny(word.ReplaceAllString(text, ""), "{}") {
		return fmt.Errorf("%q has a brace without its other", printable.Text(text, printable.Short))
	}
	return nil
}

// fill replaces the words of a template. A word that is not known becomes empty, and dots that meet because of that
// become one.
func fill(template string, words map[string]string) string {
	out := word.ReplaceAllStringFunc(template, func(at string) string { return words[at[1:len(at)-1]] })
	for strings.Contains(out, "..") {
		out = strings.ReplaceAll(out, "..", ".")
	}
	return strings.Trim(out, ".")
}

// maxHost and maxLabel are how long a host and a part of it may be (RFC 1035, section 2.3.4).
const (
	maxHost  = 253
	maxLabel = 63
)

// isHost reports whether a name in lower case can be a host: letters, digits, '-' and, as registries have it, '_'.
func isHost(s string) bool {
	if len(s) > maxHost {
		return false
	}
	for _, label := range strings.Split(s, ".") {
		if label == "" || len(label) > maxLabel || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		for i := range len(label) {
			switch c := label[i]; {
			case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '-', c == '_':
			default:
				return false
			}
		}
	}
	return true
}

// isNamespace reports whether a word can be a namespace: one label of a host, without '_'.
func isNamespace(s string) bool {
	return isHost(s) && !strings.ContainsAny(s, "._")
}
