package block

import (
	"fmt"
	"slices"
	"strings"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// In a VirtualService, the first match counts. In the Gateway API the most specific one does, whichever rule it is of
// (HTTPRouteRule.matches): an exact path before a prefix, longer ones first, then a method, more headers, more parameters. A conversion is
// right if both orders agree about each two matches that may take the same request.

// Most bounds the comparison, which is of each match with each.
const Most = 1000

// rank returns how specific a match is, by path, method, headers and parameters, as the compiler compares them.
func (m *Match) rank() [4]int {
	const exact = 1 << 32
	out := [4]int{1, min(1, len(m.Method)), len(m.Headers) + min(1, len(m.Method)), len(m.Query)}
	switch m.Kind {
	case Any:
	case Exact:
		out[0] = exact + len(m.Path)
	case Text:
		out[0] = len(TextPattern(m.Path))
	default:
		out[0] = len(m.Path)
	}
	return out
}

// before reports whether the Gateway API prefers a to b.
func before(a, b *Match) bool {
	x, y := a.rank(), b.rank()
	return slices.Compare(x[:], y[:]) > 0
}

// apart reports whether no request can match both.
func apart(a, b *Match) bool {
	if a.Method != "" && b.Method != "" && a.Method != b.Method || pathsApart(a, b) || pathsApart(b, a) {
		return true
	}
	for _, x := range a.Headers {
		for _, y := range b.Headers {
			if strings.EqualFold(string(x.Name), string(y.Name)) && *x.Type == gatewayv1.HeaderMatchExact && *y.Type == *x.Type &&
				x.Value != y.Value {
				return true
			}
		}
	}
	for _, x := range a.Query {
		for _, y := range b.Query {
			if x.Name == y.Name && *x.Type == gatewayv1.QueryParamMatchExact && *y.Type == *x.Type && x.Value != y.Value {
				return true
			}
		}
	}
	return false
}

// pathsApart reports whether no path matches both, if a's is an exact path or both are prefixes.
func pathsApart(a, b *Match) bool {
	switch {
	case a.Kind == Exact && b.Kind == Exact:
		return a.Path != b.Path
	case a.Kind == Exact && b.Kind == Text:
		return !strings.HasPrefix(a.Path, b.Path)
	case a.Kind == Exact && b.Kind == Elements:
		return a.Path != b.Path && !strings.HasPrefix(a.Path, b.Path+"/")
	case isPrefix(a.Kind) && isPrefix(b.Kind):
		return !strings.HasPrefix(a.Path, b.Path) && !strings.HasPrefix(b.Path, a.Path)
	}
	return false
}

func isPrefix(k Kind) bool { return k == Text || k == Elements }

// Overtakes returns the first earlier match of another rule that would lose requests to m in the Gateway API; nil: there is none.
func Overtakes(earlier []*Match, m *Match) *Match {
	for _, e := range earlier {
		if e.Rule != m.Rule && before(m, e) && !apart(e, m) {
			return e
		}
	}
	return nil
}

// mostAdded bounds how many matches are added to keep one match back.
const mostAdded = 64

// KeepBack adds matches to the rules of earlier ones, so that m takes none of their requests; false: that is not possible. Rules in fixed
// get no further matches.
func KeepBack(earlier []*Match, m *Match, fixed map[int]bool) ([]*Match, bool) {
	budget := mostAdded
	return keepBack(earlier, m, fixed, &budget)
}

func keepBack(earlier []*Match, m *Match, fixed map[int]bool, budget *int) ([]*Match, bool) {
	var out []*Match
	for _, e := range earlier {
		if e.Rule != m.Rule && before(m, e) && !apart(e, m) {
			both, ok := common(e, m)
			if *budget--; !ok || *budget < 0 || fixed[e.Rule] || before(m, both) {
				return nil, false
			}
			if slices.ContainsFunc(out, both.same) || slices.ContainsFunc(earlier, both.same) {
				out = append(out, e)
				continue
			}
			if out, ok = keepBack(out, both, fixed, budget); !ok {
				return nil, false
			}
			out = append(out, both)
		}
		out = append(out, e)
	}
	return out, true
}

// common returns the match of an earlier rule for requests that match both; false: it cannot be written.
func common(e, m *Match) (*Match, bool) {
	out := *e
	ok := out.narrow(m)
	if out.Method == "" {
		out.Method = m.Method
	}
	out.Headers, out.Query = slices.Clone(e.Headers), slices.Clone(e.Query)
	for _, h := range m.Headers {
		i := slices.IndexFunc(out.Headers, func(o gatewayv1.HTTPHeaderMatch) bool {
			return strings.EqualFold(string(o.Name), string(h.Name))
		})
		if i < 0 {
			out.Headers = append(out.Headers, h)
		} else if *out.Headers[i].Type != *h.Type || out.Headers[i].Value != h.Value {
			ok = false
		}
	}
	for _, q := range m.Query {
		i := slices.IndexFunc(out.Query, func(o gatewayv1.HTTPQueryParamMatch) bool { return o.Name == q.Name })
		if i < 0 {
			out.Query = append(out.Query, q)
		} else if *out.Query[i].Type != *q.Type || out.Query[i].Value != q.Value {
			ok = false
		}
	}
	return &out, ok
}

// same reports whether another match is of the same rule and takes the same requests.
func (m *Match) same(o *Match) bool {
	text := func(m *Match) string {
		var all []string
		for _, h := range m.Headers {
			all = append(all, fmt.Sprintf("header %q %s %q", strings.ToLower(string(h.Name)), *h.Type, h.Value))
		}
		for _, q := range m.Query {
			all = append(all, fmt.Sprintf("parameter %q %s %q", q.Name, *q.Type, q.Value))
		}
		slices.Sort(all)
		return fmt.Sprintf("%s %q", m.Method, all)
	}
	return m.Rule == o.Rule && m.Kind == o.Kind && m.Path == o.Path && text(m) == text(o)
}

// narrow makes a path that of both matches; false: it cannot be written.
func (e *Match) narrow(m *Match) bool {
	within := func(inner, outer *Match) bool {
		rest, below := strings.CutPrefix(inner.Path, outer.Path)
		switch {
		case outer.Kind == Any || inner.Kind == outer.Kind && inner.Path == outer.Path:
			return true
		case outer.Kind == Text:
			return below && (inner.Kind == Exact || isPrefix(inner.Kind))
		case outer.Kind == Elements:
			exact := inner.Kind == Exact
			return below && (exact && rest == "" || strings.HasPrefix(rest, "/") && (exact || isPrefix(inner.Kind)))
		}
		return false
	}
	switch {
	case within(e, m):
	case within(m, e):
		e.Kind, e.Path, e.Slash = m.Kind, m.Path, m.Slash
	default:
		return false
	}
	return true
}
