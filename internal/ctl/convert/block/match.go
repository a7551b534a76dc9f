package block

import (
	"regexp"
	"slices"
	"strings"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// Kind is how a match compares paths.
type Kind uint8

const (
	Any      Kind = iota
	Exact         // the whole path
	Text          // a prefix of the text: VirtualServices have this
	Elements      // a prefix of whole path elements: PathPrefix
	Pattern       // a regular expression
)

// Match is a match block of a rule.
type Match struct {
	Field   string
	Rule    int
	Kind    Kind
	Path    string
	Slash   bool // a path of kind Elements was written with a slash at its end
	Method  string
	Headers []gatewayv1.HTTPHeaderMatch
	Query   []gatewayv1.HTTPQueryParamMatch
}

// catchAll reports whether the block takes every request.
func (m *Match) CatchAll() bool {
	return m.Kind == Any && m.Method == "" && len(m.Headers)+len(m.Query) == 0
}

// written returns the block as an HTTPRoute has it.
func (m *Match) Written() gatewayv1.HTTPRouteMatch {
	out := gatewayv1.HTTPRouteMatch{Headers: m.Headers, QueryParams: m.Query}
	kind, path := gatewayv1.PathMatchPathPrefix, m.Path
	switch m.Kind {
	case Any:
		path = "/"
	case Exact:
		kind = gatewayv1.PathMatchExact
	case Text:
		kind, path = gatewayv1.PathMatchRegularExpression, TextPattern(m.Path)
	case Pattern:
		kind = gatewayv1.PathMatchRegularExpression
	}
	if m.Kind != Any || m.CatchAll() {
		out.Path = &gatewayv1.HTTPPathMatch{Type: &kind, Value: &path}
	}
	if m.Method != "" {
		out.Method = ptr(gatewayv1.HTTPMethod(m.Method))
	}
	return out
}

// TextPattern is the regular expression of a prefix.
func TextPattern(prefix string) string { return regexp.QuoteMeta(prefix) + ".*" }

// joined replaces an exact path and the prefix of all paths below it by one PathPrefix, which means both.
func Joined(list []*Match) (out []*Match) {
	skip := map[*Match]bool{}
	for _, m := range list {
		if m.Kind != Text || !strings.HasSuffix(m.Path, "/") {
			continue
		}
		above := strings.TrimSuffix(m.Path, "/")
		i := slices.IndexFunc(list, func(o *Match) bool {
			return o.Rule == m.Rule && o.Kind == Exact && o.Path == above && !skip[o] && alike(o, m)
		})
		if i >= 0 && above != "" && !strings.HasSuffix(above, "/") {
			skip[list[i]] = true
			m.Kind, m.Path = Elements, above
		}
	}
	for _, m := range list {
		if !skip[m] {
			out = append(out, m)
		}
	}
	return out
}

// alike reports whether two blocks differ in their paths alone.
func alike(a, b *Match) bool {
	sameHeader := func(x, y gatewayv1.HTTPHeaderMatch) bool {
		return *x.Type == *y.Type && x.Name == y.Name && x.Value == y.Value
	}
	sameQuery := func(x, y gatewayv1.HTTPQueryParamMatch) bool {
		return *x.Type == *y.Type && x.Name == y.Name && x.Value == y.Value
	}
	return a.Method == b.Method && slices.EqualFunc(a.Headers, b.Headers, sameHeader) && slices.EqualFunc(a.Query, b.Query, sameQuery)
}

// ptr returns a pointer to a value.
func ptr[T any](v T) *T { return &v }
