package authorization

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	templatev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/path/match/uri_template/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	securityv1beta1 "istio.io/api/security/v1beta1"

	"fairway/internal/envoy"
)

// operationFields lists the fields of an operation (Operation).
func (c *compiler) operationFields(o *securityv1beta1.Operation) []field[*permission] {
	return []field[*permission]{
		{name: "hosts", notName: "notHosts", values: o.GetHosts(), not: o.GetNotHosts(), requests: true, one: host},
		{name: "methods", notName: "notMethods", values: o.GetMethods(), not: o.GetNotMethods(), requests: true, one: method},
		{name: "paths", notName: "notPaths", values: o.GetPaths(), not: o.GetNotPaths(), requests: true, one: path},
		{name: "ports", notName: "notPorts", values: o.GetPorts(), not: o.GetNotPorts(), one: destinationPort},
	}
}

// header matches a header of requests by a pattern. A request without the header does not match.
func header(name string, p pattern, ignoreCase bool) *permission {
	of := func(m *routev3.HeaderMatcher) *permission {
		m.Name = name
		return &permission{Rule: &rbacv3.Permission_Header{Header: m}}
	}
	text := func(m *matcherv3.StringMatcher) *permission {
		m.IgnoreCase = ignoreCase
		return of(&routev3.HeaderMatcher{HeaderMatchSpecifier: &routev3.HeaderMatcher_StringMatch{StringMatch: m}})
	}
	if p.form != presence {
		return text(p.matcher())
	}
	there := of(&routev3.HeaderMatcher{HeaderMatchSpecifier: &routev3.HeaderMatcher_PresentMatch{PresentMatch: true}})
	return permissions.and([]*permission{there, permissions.not(of(&routev3.HeaderMatcher{
		HeaderMatchSpecifier: &routev3.HeaderMatcher_StringMatch{StringMatch: exactly("")},
	}))})
}

// host matches the host that a request is for, ignoring case.
func host(value string) (*permission, error) {
	return header(":authority", parsePattern(value), true), nil
}

func method(value string) (*permission, error) {
	return header(":method", parsePattern(value), false), nil
}

// literal matches the text and operators that a path template may have: Envoy refuses templates with anything else.
var literal = regexp.MustCompile(`^(/([A-Za-z0-9._~%!$&'()+,;:@=-]*|\*\*?))+$`)

// path matches a request's path without its query: by a pattern, or by a template.
func path(value string) (*permission, error) {
	if strings.Contains(value, "{*}") || strings.Contains(value, "{**}") {
		return template(value)
	}
	p := parsePattern(value)
	if p.form == presence {
		return header(":path", p, false), nil
	}
	return &permission{Rule: &rbacv3.Permission_UrlPath{UrlPath: &matcherv3.PathMatcher{
		Rule: &matcherv3.PathMatcher_Path{Path: p.matcher()},
	}}}, nil
}

// template matches a path by {*}, which is one segment, and {**}, which is any number of them.
func template(value string) (*permission, error) {
	if strings.ContainsAny(strings.NewReplacer("{*}", "", "{**}", "").Replace(value), "*{}") {
		return nil, errors.New("beside {*} and {**} a path template has no stars and braces")
	}
	text := strings.NewReplacer("{**}", "**", "{*}", "*").Replace(value)
	if !literal.MatchString(text) {
		return nil, fmt.Errorf("%q cannot be a path template: {*} and {**} must be alone between slashes, and text has no spaces", value)
	}
	if at := strings.Index(text, "**"); at >= 0 && strings.Contains(text[at+2:], "*") {
		return nil, errors.New("{**} is not the last operator of the template")
	}
	return &permission{Rule: &rbacv3.Permission_UriTemplate{UriTemplate: &corev3.TypedExtensionConfig{
		Name:        "envoy.path.match.uri_template.uri_template_matcher",
		TypedConfig: envoy.Any(&templatev3.UriTemplateMatchConfig{PathTemplate: text}),
	}}}, nil
}

// destinationPort matches the destination port of a connection.
func destinationPort(value string) (*permission, error) {
	n, err := strconv.ParseUint(value, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("%q is not a port", value)
	}
	return &permission{Rule: &rbacv3.Permission_DestinationPort{DestinationPort: uint32(n)}}, nil
}

func destinationIP(value string) (*permission, error) {
	return address(value, func(r *corev3.CidrRange) *permission {
		return &permission{Rule: &rbacv3.Permission_DestinationIp{DestinationIp: r}}
	})
}

// serverName matches the server name that a client asked for in TLS.
func serverName(value string) (*permission, error) {
	of := func(m *matcherv3.StringMatcher) *permission {
		return &permission{Rule: &rbacv3.Permission_RequestedServerName{RequestedServerName: m}}
	}
	if p := parsePattern(value); p.form != presence {
		return of(p.matcher()), nil
	}
	return permissions.not(of(exactly(""))), nil
}
