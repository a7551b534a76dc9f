package interpret

import (
	"strconv"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
)

// text matches a text.
func (w *walk) text(m *matcherv3.StringMatcher, text string) tri {
	w.spend(1 + len(text)/64)
	fold := func(s string) string {
		if m.GetIgnoreCase() {
			return lower(s)
		}
		return s
	}
	switch p := m.GetMatchPattern().(type) {
	case *matcherv3.StringMatcher_Exact:
		return of(fold(text) == fold(p.Exact))
	case *matcherv3.StringMatcher_Prefix:
		return of(strings.HasPrefix(fold(text), fold(p.Prefix)))
	case *matcherv3.StringMatcher_Suffix:
		return of(strings.HasSuffix(fold(text), fold(p.Suffix)))
	case *matcherv3.StringMatcher_Contains:
		return of(strings.Contains(fold(text), fold(p.Contains)))
	case *matcherv3.StringMatcher_SafeRegex:
		return w.regex(p.SafeRegex.GetRegex(), text)
	}
	return unsure
}

// lower is Envoy's: letters of ASCII only.
func lower(s string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, s)
}

// header matches a header. A header that is missing matches no condition on its value, unless it is treated as empty.
func (w *walk) header(m *routev3.HeaderMatcher) tri {
	w.spend(1)
	value, present, known := w.headerValue(m.GetName())
	if !known {
		return unsure
	}
	switch p := m.GetHeaderMatchSpecifier().(type) {
	case nil:
		return of(present != m.GetInvertMatch())
	case *routev3.HeaderMatcher_PresentMatch:
		return of((present == p.PresentMatch) != m.GetInvertMatch())
	}
	if !present && !m.GetTreatMissingHeaderAsEmpty() {
		return no
	}
	return w.headerText(m, value).invert(m.GetInvertMatch())
}

func (w *walk) headerText(m *routev3.HeaderMatcher, value string) tri {
	switch p := m.GetHeaderMatchSpecifier().(type) {
	case *routev3.HeaderMatcher_StringMatch:
		return w.text(p.StringMatch, value)
	case *routev3.HeaderMatcher_RangeMatch:
		n, err := strconv.ParseInt(value, 10, 64)
		return of(err == nil && n >= p.RangeMatch.GetStart() && n < p.RangeMatch.GetEnd())
	case *routev3.HeaderMatcher_ExactMatch:
		return of(value == p.ExactMatch) //nolint:staticcheck // deprecated, still in force
	case *routev3.HeaderMatcher_PrefixMatch:
		return of(strings.HasPrefix(value, p.PrefixMatch)) //nolint:staticcheck // deprecated, still in force
	case *routev3.HeaderMatcher_SuffixMatch:
		return of(strings.HasSuffix(value, p.SuffixMatch)) //nolint:staticcheck // deprecated, still in force
	case *routev3.HeaderMatcher_ContainsMatch:
		return of(strings.Contains(value, p.ContainsMatch)) //nolint:staticcheck // deprecated, still in force
	case *routev3.HeaderMatcher_SafeRegexMatch:
		return w.regex(p.SafeRegexMatch.GetRegex(), value) //nolint:staticcheck // deprecated, still in force
	}
	return unsure
}

// query matches a query parameter by its first value, which is not decoded.
func (w *walk) query(m *routev3.QueryParameterMatcher) tri {
	w.spend(1)
	value, present := firstParameter(w.http.path, m.GetName())
	switch p := m.GetQueryParameterMatchSpecifier().(type) {
	case *routev3.QueryParameterMatcher_PresentMatch:
		if !p.PresentMatch {
			return unsure
		}
		return of(present)
	case *routev3.QueryParameterMatcher_StringMatch:
		if !present {
			return no
		}
		return w.text(p.StringMatch, value)
	}
	return of(present)
}

func firstParameter(path, name string) (string, bool) {
	_, query, _ := strings.Cut(path, "?")
	query, _, _ = strings.Cut(query, "#")
	for pair := range strings.SplitSeq(query, "&") {
		if key, value, _ := strings.Cut(pair, "="); key == name && pair != "" {
			return value, true
		}
	}
	return "", false
}

// cookie matches a cookie by its first value.
func (w *walk) cookie(m *routev3.CookieMatcher) tri {
	w.spend(1)
	value, present := w.cookieValue(m.GetName())
	if !present {
		return unsure // whether a missing cookie matches an inverted condition is not known
	}
	return w.text(m.GetStringMatch(), value).invert(m.GetInvertMatch())
}

func (w *walk) cookieValue(name string) (string, bool) {
	for _, line := range w.http.headers["cookie"] {
		for part := range strings.SplitSeq(line, ";") {
			if key, value, ok := strings.Cut(strings.TrimSpace(part), "="); ok && key == name {
				return strings.Trim(value, `"`), true
			}
		}
	}
	return "", false
}

// setMetadata adds to the dynamic metadata of this way.
func (w *walk) setMetadata(filter string, values map[string]any) {
	out := map[string]map[string]any{}
	for name, of := range w.asked.Metadata {
		out[name] = of
	}
	merged := map[string]any{}
	for k, v := range out[filter] {
		merged[k] = v
	}
	for k, v := range values {
		merged[k] = v
	}
	out[filter] = merged
	w.asked.Metadata = out
}

// metadata matches dynamic metadata.
func (w *walk) metadata(m *matcherv3.MetadataMatcher) tri {
	w.spend(1 + len(m.GetPath()))
	var at any = w.asked.Metadata[m.GetFilter()]
	for _, s := range m.GetPath() {
		switch object := at.(type) {
		case map[string]any:
			at = object[s.GetKey()]
		default:
			at = nil
		}
	}
	return w.value(m.GetValue(), at, 0).invert(m.GetInvert())
}

// value matches a value of metadata; nil: there is none.
func (w *walk) value(m *matcherv3.ValueMatcher, v any, depth int) tri {
	w.deep(depth)
	switch p := m.GetMatchPattern().(type) {
	case *matcherv3.ValueMatcher_StringMatch:
		if text, ok := v.(string); ok {
			return w.text(p.StringMatch, text)
		}
		return no
	case *matcherv3.ValueMatcher_BoolMatch:
		b, ok := v.(bool)
		return of(ok && b == p.BoolMatch)
	case *matcherv3.ValueMatcher_PresentMatch:
		return of((v != nil) == p.PresentMatch)
	case *matcherv3.ValueMatcher_DoubleMatch:
		n, ok := v.(float64)
		if r := p.DoubleMatch.GetRange(); r != nil {
			return of(ok && n >= r.GetStart() && n < r.GetEnd())
		}
		return of(ok && n == p.DoubleMatch.GetExact())
	case *matcherv3.ValueMatcher_ListMatch:
		list, _ := v.([]any)
		return any1(len(list), func(i int) tri { return w.value(p.ListMatch.GetOneOf(), list[i], depth+1) })
	case *matcherv3.ValueMatcher_OrMatch:
		return any1(len(p.OrMatch.GetValueMatchers()), func(i int) tri { return w.value(p.OrMatch.GetValueMatchers()[i], v, depth+1) })
	}
	return unsure
}
