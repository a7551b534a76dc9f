package authorization

import (
	"fmt"
	"net/netip"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// form is how a value of a rule matches (Rule: "Any string field in the rule supports Exact, Prefix, Suffix and Presence match").
type form uint8

const (
	exact form = iota
	prefix
	suffix
	presence
)

// pattern is a value of a rule.
type pattern struct {
	form form
	text string // without the star
}

func parsePattern(value string) pattern {
	if value == "*" {
		return pattern{form: presence}
	}
	if rest, ok := strings.CutPrefix(value, "*"); ok {
		return pattern{suffix, rest}
	}
	if rest, ok := strings.CutSuffix(value, "*"); ok {
		return pattern{prefix, rest}
	}
	return pattern{exact, value}
}

// matches reports whether the pattern matches a text.
func (p pattern) matches(text string) bool {
	switch p.form {
	case prefix:
		return strings.HasPrefix(text, p.text)
	case suffix:
		return strings.HasSuffix(text, p.text)
	case presence:
		return text != ""
	}
	return text == p.text
}

// matcher returns the pattern as an Envoy matcher. Envoy has none for presence: the caller must handle it, because here it becomes the
// empty string.
func (p pattern) matcher() *matcherv3.StringMatcher {
	switch p.form {
	case prefix:
		return &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Prefix{Prefix: p.text}}
	case suffix:
		return &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Suffix{Suffix: p.text}}
	}
	return exactly(p.text)
}

func exactly(text string) *matcherv3.StringMatcher {
	return &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Exact{Exact: text}}
}

func containing(text string) *matcherv3.StringMatcher {
	return &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Contains{Contains: text}}
}

func beginning(text string) *matcherv3.StringMatcher {
	return &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Prefix{Prefix: text}}
}

func ending(text string) *matcherv3.StringMatcher {
	return &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Suffix{Suffix: text}}
}

// block parses an address or a CIDR.
func block(text string) (*corev3.CidrRange, error) {
	p, err := netip.ParsePrefix(text)
	if err != nil {
		a, err := netip.ParseAddr(text)
		if err != nil || a.Zone() != "" {
			return nil, fmt.Errorf("%q is not an address or CIDR", text)
		}
		p = netip.PrefixFrom(a, a.BitLen())
	}
	return &corev3.CidrRange{AddressPrefix: p.Masked().Addr().String(), PrefixLen: wrapperspb.UInt32(uint32(p.Bits()))}, nil
}
