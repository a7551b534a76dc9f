package logline

import (
	"encoding/json"
	"fmt"
	"strings"
)

// get returns a value of a tree: keys of objects and indexes of lists; nil: there is none.
func get(v any, path ...any) any {
	for _, p := range path {
		switch p := p.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[p]
		case int:
			l, _ := v.([]any)
			if p < 0 || p >= len(l) {
				return nil
			}
			v = l[p]
		}
	}
	return v
}

func text(v any, path ...any) string {
	s, _ := get(v, path...).(string)
	return s
}

func list(v any, path ...any) []any {
	l, _ := get(v, path...).([]any)
	return l
}

// brief returns a value as JSON of one line.
func brief(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	const most = 160
	if s := string(b); len(s) <= most {
		return strings.Trim(s, `"`)
	}
	return string(b[:most]) + "…"
}

// names reports whether a host in a rule of a namespace is that of a service. Short names are of the rule's namespace.
func names(rule, namespace, host string) bool {
	rule = strings.ToLower(rule)
	switch suffix, wild := strings.CutPrefix(rule, "*"); {
	case rule == host:
		return true
	case wild:
		return strings.HasSuffix(host, suffix)
	case !strings.Contains(rule, "."):
		return strings.HasPrefix(host, rule+"."+namespace+".svc.")
	}
	return strings.HasPrefix(host, rule+".svc.") || strings.HasPrefix(host, rule+".") && strings.Contains(rule, ".svc")
}
