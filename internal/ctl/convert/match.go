package convert

import (
	"maps"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"fairway/internal/config"
	"fairway/internal/ctl/convert/block"
)

// match converts a match block; false: the Gateway API cannot say it.
func (w *work) match(field string, rule int, m *networking.HTTPMatchRequest) (*block.Match, bool) {
	out := &block.Match{Field: field, Rule: rule}
	ok := w.sayable(field, m)
	ok = w.path(field, out, m) && ok
	if m.GetMethod().GetMatchType() != nil {
		if out.Method = m.GetMethod().GetExact(); out.Method == "" {
			w.lose(field+".method", "a route matches one method", "write exact, in a match block for each method")
			ok = false
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m.GetHeaders())) {
		at, value := field+".headers."+name, m.GetHeaders()[name]
		if _, claim := config.ClaimPath(name); claim {
			w.lose(at, "a route does not match claims of tokens", "keep the VirtualService")
			ok = false
			continue
		}
		if slices.Contains([]string{"uri", "scheme", "method", "authority"}, name) {
			w.lose(at, name+" is not a header: the condition has no effect", "leave it out, or use the match block's field "+name)
			ok = false
			continue
		}
		kind, text, good := w.value(at, value)
		ok = ok && good
		out.Headers = append(out.Headers, gatewayv1.HTTPHeaderMatch{
			Type: ptr(gatewayv1.HeaderMatchType(kind)), Name: gatewayv1.HTTPHeaderName(name), Value: text,
		})
	}
	for _, name := range slices.Sorted(maps.Keys(m.GetQueryParams())) {
		kind, text, good := w.value(field+".queryParams."+name, m.GetQueryParams()[name])
		ok = ok && good
		out.Query = append(out.Query, gatewayv1.HTTPQueryParamMatch{
			Type: ptr(gatewayv1.QueryParamMatchType(kind)), Name: gatewayv1.HTTPHeaderName(name), Value: text,
		})
	}
	return out, ok
}

// sayable reports whether a match block has only fields that a route has.
func (w *work) sayable(field string, m *networking.HTTPMatchRequest) bool {
	ok := true
	refuse := func(name, what, fix string) {
		w.lose(field+"."+name, what, fix)
		ok = false
	}
	if m.GetScheme().GetMatchType() != nil {
		refuse("scheme", "a route does not match schemes", "leave it out, or bind the rule to a listener of the protocol")
	}
	if m.GetAuthority().GetMatchType() != nil {
		refuse("authority", "a route does not match the authority", "write the name into hosts of a VirtualService of its own")
	}
	if len(m.GetWithoutHeaders()) > 0 {
		refuse("withoutHeaders", "a route cannot say that a header is missing", "write rules for the header before a rule without it")
	}
	if m.GetIgnoreUriCase() && m.GetUri().GetMatchType() != nil {
		refuse("ignoreUriCase", "a route compares paths with their case", "write a regex with (?i)")
	}
	if len(m.GetSourceLabels()) > 0 {
		refuse("sourceLabels", "a route does not match the labels of clients", "keep the VirtualService")
	}
	if m.GetSourceNamespace() != "" {
		refuse("sourceNamespace", "a route does not match the namespace of clients",
			"write a VirtualService with exportTo [.] in that namespace")
	}
	if m.GetStatPrefix() != "" {
		refuse("statPrefix", "a route has no statistics of its own", "leave it out")
	}
	return ok
}

// path converts the match of a path.
func (w *work) path(field string, out *block.Match, m *networking.HTTPMatchRequest) bool {
	switch t := m.GetUri().GetMatchType().(type) {
	case *networking.StringMatch_Exact:
		out.Kind, out.Path = block.Exact, t.Exact
	case *networking.StringMatch_Prefix:
		switch out.Path = t.Prefix; {
		case t.Prefix == "" || t.Prefix == "/":
			out.Kind = block.Any
		case !w.Elements:
			out.Kind = block.Text
			w.note(field+".uri.prefix", "it is written as a regular expression: PathPrefix "+strings.TrimRight(t.Prefix, "/")+
				" only takes whole path elements", "--whole-elements writes PathPrefix")
		case strings.TrimRight(t.Prefix, "/") == "":
			w.lose(field+".uri.prefix", "the path cannot be a PathPrefix", "write one slash")
			return false
		default:
			out.Kind, out.Path, out.Slash = block.Elements, strings.TrimRight(t.Prefix, "/"), strings.HasSuffix(t.Prefix, "/")
		}
	case *networking.StringMatch_Regex:
		if out.Kind, out.Path = block.Pattern, t.Regex; t.Regex == "" || t.Regex == ".*" {
			out.Kind = block.Any
		}
	}
	return true
}

// value converts the condition on a header or a query parameter. Without a value, it must only be present.
func (w *work) value(field string, m *networking.StringMatch) (kind, value string, ok bool) {
	kind = string(gatewayv1.HeaderMatchRegularExpression)
	switch t := m.GetMatchType().(type) {
	case *networking.StringMatch_Exact:
		if t.Exact == "" {
			w.lose(field+".exact", "a route cannot match an empty value", "write regex ^$")
			return "", "", false
		}
		return string(gatewayv1.HeaderMatchExact), t.Exact, true
	case *networking.StringMatch_Prefix:
		return kind, block.TextPattern(t.Prefix), true
	case *networking.StringMatch_Regex:
		if t.Regex != "" {
			return kind, t.Regex, true
		}
	}
	return kind, ".*", true
}
