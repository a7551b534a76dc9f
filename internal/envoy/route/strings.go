package route

import (
	"fmt"
	"strconv"
	"strings"

	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/mesh/regex"
)

// stringMatcher translates a StringMatch. Nil means "any value": no condition, an empty prefix, or a regex that matches everything.
func (b *Builder) stringMatcher(field string, m *networking.StringMatch) (*matcherv3.StringMatcher, bool) {
	switch t := m.GetMatchType().(type) {
	case *networking.StringMatch_Exact:
		return &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Exact{Exact: t.Exact}}, true
	case *networking.StringMatch_Prefix:
		if t.Prefix == "" {
			return nil, true
		}
		return &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Prefix{Prefix: t.Prefix}}, true
	case *networking.StringMatch_Regex:
		if !b.regex(field+".regex", t.Regex) {
			return nil, false
		}
		if t.Regex == "" || t.Regex == ".*" {
			return nil, true
		}
		return &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_SafeRegex{SafeRegex: regexMatcher(t.Regex)}}, true
	}
	return nil, true
}

func regexMatcher(re string) *matcherv3.RegexMatcher { return &matcherv3.RegexMatcher{Regex: re} }

// regex reports whether Envoy's engine, RE2, can compile re. See [regex.Check].
func (b *Builder) regex(field, re string) bool {
	if err := regex.Check(re); err != nil {
		b.problem(mesh.Error, code.BadRegex, field, fmt.Sprintf("%s is not an RE2 regular expression: %v", quote(re), err),
			"see https://github.com/google/re2/wiki/Syntax; what uses it is left out")
		return false
	}
	return true
}

// matchableHeader reports whether a match may name the header: a token (RFC 9110 §5.6.2), after a colon for HTTP's own.
func matchableHeader(name string) bool { return token(strings.TrimPrefix(name, ":")) }

func token(s string) bool {
	for i := range len(s) {
		if !tokenByte(s[i]) {
			return false
		}
	}
	return s != ""
}

func tokenByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
}

// text reports whether a rewritten path or host may be in a request: Envoy's messages refuse NUL and line ends.
func text(s string) bool { return !strings.ContainsAny(s, "\x00\r\n") }

func quote(s string) string { return strconv.Quote(s) }
