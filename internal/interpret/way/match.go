package way

import (
	"net/netip"
	"regexp"
	"regexp/syntax"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"

	"fairway/internal/mesh/regex"
)

// Text matches a text.
func (w *Walk) Text(m *matcherv3.StringMatcher, text string) Tri {
	w.Spend(1 + len(text)/64)
	fold := func(s string) string {
		if m.GetIgnoreCase() {
			return Lower(s)
		}
		return s
	}
	switch p := m.GetMatchPattern().(type) {
	case *matcherv3.StringMatcher_Exact:
		return Of(fold(text) == fold(p.Exact))
	case *matcherv3.StringMatcher_Prefix:
		return Of(strings.HasPrefix(fold(text), fold(p.Prefix)))
	case *matcherv3.StringMatcher_Suffix:
		return Of(strings.HasSuffix(fold(text), fold(p.Suffix)))
	case *matcherv3.StringMatcher_Contains:
		return Of(strings.Contains(fold(text), fold(p.Contains)))
	case *matcherv3.StringMatcher_SafeRegex:
		return w.Regex(p.SafeRegex.GetRegex(), text)
	}
	return Unsure
}

// Lower is Envoy's: letters of ASCII only.
func Lower(s string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, s)
}

// Value matches a value of metadata; nil: there is none.
func (w *Walk) Value(m *matcherv3.ValueMatcher, v any, depth int) Tri {
	w.Deep(depth)
	switch p := m.GetMatchPattern().(type) {
	case *matcherv3.ValueMatcher_StringMatch:
		if text, ok := v.(string); ok {
			return w.Text(p.StringMatch, text)
		}
		return No
	case *matcherv3.ValueMatcher_BoolMatch:
		b, ok := v.(bool)
		return Of(ok && b == p.BoolMatch)
	case *matcherv3.ValueMatcher_PresentMatch:
		return Of((v != nil) == p.PresentMatch)
	case *matcherv3.ValueMatcher_DoubleMatch:
		n, ok := v.(float64)
		if r := p.DoubleMatch.GetRange(); r != nil {
			return Of(ok && n >= r.GetStart() && n < r.GetEnd())
		}
		return Of(ok && n == p.DoubleMatch.GetExact())
	case *matcherv3.ValueMatcher_ListMatch:
		list, _ := v.([]any)
		return Any(len(list), func(i int) Tri { return w.Value(p.ListMatch.GetOneOf(), list[i], depth+1) })
	case *matcherv3.ValueMatcher_OrMatch:
		return Any(len(p.OrMatch.GetValueMatchers()), func(i int) Tri { return w.Value(p.OrMatch.GetValueMatchers()[i], v, depth+1) })
	}
	return Unsure
}

// compiled is a regular expression, and how many instructions it has.
type compiled struct {
	*regexp.Regexp
	size int
}

// Regex matches a whole text. Envoy's engine takes bytes, so text that is not ASCII is not interpreted.
func (w *Walk) Regex(pattern, text string) Tri {
	re := w.Compile(pattern, true, text)
	if !ASCII(text) || !ASCII(pattern) {
		return Unsure
	}
	return Of(re.MatchString(text))
}

// Compile compiles an expression once, for whole texts or for parts of them. It spends what a match of the text may cost.
func (w *Walk) Compile(pattern string, whole bool, text string) *regexp.Regexp {
	key := pattern
	if whole {
		key = `\A(?:` + pattern + `)\z`
	}
	re, known := w.regexes[key]
	if !known {
		w.Spend(10 * len(pattern))
		re = w.newRegex(pattern, key)
		w.regexes[key] = re
	}
	w.Spend(1 + len(text)*re.size/16)
	return re.Regexp
}

func (w *Walk) newRegex(pattern, key string) compiled {
	err := regex.Check(pattern)
	if err == nil {
		var parsed *syntax.Regexp
		var program *syntax.Prog
		if parsed, err = syntax.Parse(key, syntax.Perl); err == nil {
			if program, err = syntax.Compile(parsed.Simplify()); err == nil {
				return compiled{regexp.MustCompile(key), len(program.Inst)}
			}
		}
	}
	Refuse(w.Resource, "regex %s: %v", Quote(pattern), err)
	return compiled{}
}

// ASCII reports whether a text has no other characters.
func ASCII(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r >= 0x80 }) < 0
}

// Within reports whether a range holds an address.
func (w *Walk) Within(r *corev3.CidrRange, a netip.Addr) bool {
	ip, err := netip.ParseAddr(r.GetAddressPrefix())
	if err != nil {
		Refuse(w.Resource, "address_prefix %s is not an IP address", Quote(r.GetAddressPrefix()))
	}
	bits := min(int(r.GetPrefixLen().GetValue()), ip.BitLen())
	return a.IsValid() && netip.PrefixFrom(ip, bits).Masked().Contains(a.WithZone("").Unmap())
}

func (w *Walk) Deep(depth int) {
	w.Spend(1)
	if depth > mostDepth {
		Refuse(w.Resource, "a rule is more than %d levels deep", mostDepth)
	}
}
