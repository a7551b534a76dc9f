package authorization

import (
	"errors"
	"strings"

	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"

	"fairway/internal/envoy/authentication"
)

// manySlashes is how many slashes a request principal may have: each may be the one between issuer and subject.
const manySlashes = 32

// metadata matches a value in the dynamic metadata that a filter writes about a request.
func metadata(filter string, path []string, v *matcherv3.ValueMatcher) *matcherv3.MetadataMatcher {
	m := &matcherv3.MetadataMatcher{Filter: filter, Value: v}
	for _, key := range path {
		m.Path = append(m.Path, &matcherv3.MetadataMatcher_PathSegment{
			Segment: &matcherv3.MetadataMatcher_PathSegment_Key{Key: key},
		})
	}
	return m
}

// textValue matches a string.
func textValue(p pattern) *matcherv3.ValueMatcher {
	m := p.matcher()
	if p.form == presence {
		m = &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_SafeRegex{
			SafeRegex: &matcherv3.RegexMatcher{Regex: `(?s).+`},
		}}
	}
	return &matcherv3.ValueMatcher{MatchPattern: &matcherv3.ValueMatcher_StringMatch{StringMatch: m}}
}

// oneOf matches a list with an item that v matches.
func oneOf(v *matcherv3.ValueMatcher) *matcherv3.ValueMatcher {
	return &matcherv3.ValueMatcher{MatchPattern: &matcherv3.ValueMatcher_ListMatch{ListMatch: &matcherv3.ListMatcher{
		MatchPattern: &matcherv3.ListMatcher_OneOf{OneOf: v},
	}}}
}

// token matches a value in the request's token.
func token(path []string, v *matcherv3.ValueMatcher) *principal {
	return &principal{Identifier: &rbacv3.Principal_Metadata{
		//nolint:staticcheck // its successor is newer than proxies in use
		Metadata: metadata(authentication.Metadata, append([]string{authentication.Claims}, path...), v),
	}}
}

// claim matches a claim that is a string, or a list of strings if one of them matches.
func claim(path []string) func(string) (*principal, error) {
	return func(value string) (*principal, error) {
		text := textValue(parsePattern(value))
		return principals.or([]*principal{token(path, text), token(path, oneOf(text))}), nil
	}
}

// requestPrincipal matches "<iss>/<sub>" of the request's token. Issuers and subjects may have slashes themselves, so each slash of a
// value may be the one between the two. A token matches if one of these readings matches.
func requestPrincipal(value string) (*principal, error) {
	issuer := func(form form, text string) *principal { return token([]string{"iss"}, textValue(pattern{form, text})) }
	subject := func(form form, text string) *principal { return token([]string{"sub"}, textValue(pattern{form, text})) }
	p := parsePattern(value)
	if strings.Count(p.text, "/") > manySlashes {
		return nil, errors.New("it has too many slashes to tell the issuer from the subject")
	}
	var readings []*principal
	both := func(a, b *principal) { readings = append(readings, principals.and([]*principal{a, b})) }
	switch p.form {
	case presence:
		both(issuer(presence, ""), subject(presence, ""))
	case prefix:
		both(issuer(beginningWith(p.text)), subject(presence, ""))
	case suffix:
		both(issuer(presence, ""), subject(endingIn(p.text)))
	}
	for at := range p.text {
		if p.text[at] != '/' {
			continue
		}
		iss, sub := p.text[:at], p.text[at+1:]
		switch { // a token without issuer or subject has no principal
		case p.form == exact && iss != "" && sub != "":
			both(issuer(exact, iss), subject(exact, sub))
		case p.form == prefix && iss != "":
			both(issuer(exact, iss), subject(beginningWith(sub)))
		case p.form == suffix && sub != "":
			both(issuer(endingIn(iss)), subject(exact, sub))
		}
	}
	if len(readings) == 0 {
		return noClient(), nil
	}
	return principals.or(readings), nil
}

// beginningWith and endingIn return the pattern for a value that begins or ends with a text, which may be empty.
func beginningWith(text string) (form, string) {
	if text == "" {
		return presence, ""
	}
	return prefix, text
}

func endingIn(text string) (form, string) {
	if text == "" {
		return presence, ""
	}
	return suffix, text
}
