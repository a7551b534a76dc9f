package language

import (
	"encoding/json"
	"fmt"
	"strings"

	template "github.com/DataDog/datadog-agent/pkg/template/text"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// Parse parses a template. Its errors are for the author of the configuration.
func Parse(name, source string) (*template.Template, error) {
	t, err := template.New(name).Funcs(functions()).Option("missingkey=zero").Parse(source)
	if err != nil {
		return nil, fmt.Errorf("templates: %w", err)
	}
	bind(t)
	return t, nil
}

// functions returns the functions of templates beside the language's own.
func functions() template.FuncMap {
	return template.FuncMap{
		"quote":   asJSON, // a JSON string is one of YAML's
		"toJSON":  asJSON,
		"toJson":  asJSON,
		"toYaml":  asYAML,
		"indent":  indented,
		"nindent": func(n int, s string) (string, error) { s, err := indented(n, s); return "\n" + s, err },
		"default": func(otherwise, value any) any {
			if truthy, ok := template.IsTrue(value); !ok || !truthy {
				return otherwise
			}
			return value
		},
		"annotation": func(meta metav1.ObjectMeta, name string, otherwise any) any {
			if value, ok := meta.Annotations[name]; ok {
				return value
			}
			return otherwise
		},
		memberFunction: member,
		"isset":        func(m map[string]string, name string) bool { _, ok := m[name]; return ok },
	}
}

func asJSON(v any) (string, error) {
	raw, err := json.Marshal(v)
	return string(raw), err
}

func asYAML(v any) (string, error) {
	raw, err := yaml.Marshal(v)
	return strings.TrimSuffix(string(raw), "\n"), err
}

func indented(n int, s string) (string, error) {
	const most = 100
	if n < 0 || n > most {
		return "", fmt.Errorf("indent by 0 to %d spaces, not %d", most, n)
	}
	pad := strings.Repeat(" ", n)
	return pad + strings.ReplaceAll(s, "\n", "\n"+pad), nil
}
