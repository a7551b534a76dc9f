package interpret

import (
	"strconv"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"

	"fairway/internal/interpret/way"
)

// header matches a header. A header that is missing matches no condition on its value, unless it is treated as empty.
func (w *walk) header(m *routev3.HeaderMatcher) way.Tri {
	w.Spend(1)
	value, present, known := w.headerValue(m.GetName())
	if !known {
		return way.Unsure
	}
	switch p := m.GetHeaderMatchSpecifier().(type) {
	case nil:
		return way.Of(present != m.GetInvertMatch())
	case *routev3.HeaderMatcher_PresentMatch:
		return way.Of((present == p.PresentMatch) != m.GetInvertMatch())
	}
	if !present && !m.GetTreatMissingHeaderAsEmpty() {
		return way.No
	}
	return w.headerText(m, value).Invert(m.GetInvertMatch())
}

func (w *walk) headerText(m *routev3.HeaderMatcher, value string) way.Tri {
	switch p := m.GetHeaderMatchSpecifier().(type) {
	case *routev3.HeaderMatcher_StringMatch:
		return w.Text(p.StringMatch, value)
	case *routev3.HeaderMatcher_RangeMatch:
		n, err := strconv.ParseInt(value, 10, 64)
		return way.Of(err == nil && n >= p.RangeMatch.GetStart() && n < p.RangeMatch.GetEnd())
	case *routev3.HeaderMatcher_ExactMatch:
		return way.Of(value == p.ExactMatch) //nolint:staticcheck // deprecated, still in force
	case *routev3.HeaderMatcher_PrefixMatch:
		return way.Of(strings.HasPrefix(value, p.PrefixMatch)) //nolint:staticcheck // deprecated, still in force
	case *routev3.HeaderMatcher_SuffixMatch:
		return way.Of(strings.HasSuffix(value, p.SuffixMatch)) //nolint:staticcheck // deprecated, still in force
	case *routev3.HeaderMatcher_ContainsMatch:
		return way.Of(strings.Contains(value, p.ContainsMatch)) //nolint:staticcheck // deprecated, still in force
	case *routev3.HeaderMatcher_SafeRegexMatch:
		return w.Regex(p.SafeRegexMatch.GetRegex(), value) //nolint:staticcheck // deprecated, still in force
	}
	return way.Unsure
}

// query matches a query parameter by its first value, which is not decoded.
func (w *walk) query(m *routev3.QueryParameterMatcher) way.Tri {
	w.Spend(1)
	value, present := firstParameter(w.http.path, m.GetName())
	switch p := m.GetQueryParameterMatchSpecifier().(type) {
	case *routev3.QueryParameterMatcher_PresentMatch:
		if !p.PresentMatch {
			return way.Unsure
		}
		return way.Of(present)
	case *routev3.QueryParameterMatcher_StringMatch:
		if !present {
			return way.No
		}
		return w.Text(p.StringMatch, value)
	}
	return way.Of(present)
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
func (w *walk) cookie(m *routev3.CookieMatcher) way.Tri {
	w.Spend(1)
	value, present := w.cookieValue(m.GetName())
	if !present {
		return way.Unsure // whether a missing cookie matches an inverted condition is not known
	}
	return w.Text(m.GetStringMatch(), value).Invert(m.GetInvertMatch())
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
func (w *walk) metadata(m *matcherv3.MetadataMatcher) way.Tri {
	w.Spend(1 + len(m.GetPath()))
	var at any = w.asked.Metadata[m.GetFilter()]
	for _, s := range m.GetPath() {
		switch object := at.(type) {
		case map[string]any:
			at = object[s.GetKey()]
		default:
			at = nil
		}
	}
	return w.Value(m.GetValue(), at, 0).Invert(m.GetInvert())
}
