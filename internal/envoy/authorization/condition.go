package authorization

import (
	"strings"

	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	securityv1beta1 "istio.io/api/security/v1beta1"
)

// The keys of conditions are those of https://istio.io/latest/docs/reference/config/security/conditions/.

// principalCondition returns the field of a condition on the client of a request; false: the key is not one of those.
func (c *compiler) principalCondition(w *securityv1beta1.Condition) (field[*principal], bool) {
	f := field[*principal]{name: "values", notName: "notValues", values: w.GetValues(), not: w.GetNotValues()}
	switch key := w.GetKey(); key {
	case "source.ip":
		f.one = sourceIP
	case "remote.ip":
		f.one = remoteIP
	case "source.namespace":
		f.one = namespace
	case "source.principal":
		f.one = c.principal
	case "source.serviceAccount":
		f.one = c.serviceAccount
	case "source.trustDomain":
		f.one = trustDomain
	case "request.auth.principal":
		f.one, f.requests = requestPrincipal, true
	case "request.auth.audiences":
		f.one, f.requests = claim([]string{"aud"}), true
	case "request.auth.presenter":
		f.one, f.requests = claim([]string{"azp"}), true
	default:
		path, ok := bracketed(key, "request.auth.claims")
		if !ok {
			return f, false
		}
		f.one, f.requests = claim(path), true
	}
	return f, true
}

// permissionCondition returns the field of a condition on what the request asks for; false: the key is not one of those.
func (c *compiler) permissionCondition(w *securityv1beta1.Condition) (field[*permission], bool) {
	f := field[*permission]{name: "values", notName: "notValues", values: w.GetValues(), not: w.GetNotValues()}
	switch key := w.GetKey(); key {
	case "destination.ip":
		f.one = destinationIP
	case "destination.port":
		f.one = destinationPort
	case "connection.sni":
		f.one = serverName
	default:
		if name, ok := bracketed(key, "request.headers"); ok && len(name) == 1 {
			f.requests, f.one = true, headerNamed(name[0])
			return f, true
		}
		filter, ok := strings.CutPrefix(key, "experimental.")
		if !ok {
			return f, false
		}
		name, rest, ok := strings.Cut(filter, "[")
		if path, fits := bracketed("["+rest, ""); ok && fits && len(path) == 1 {
			f.one = metadataValue(name, path)
			return f, true
		}
		return f, false
	}
	return f, true
}

// bracketed splits a key: "request.auth.claims[a][b]" becomes a, b.
func bracketed(key, name string) ([]string, bool) {
	rest, ok := strings.CutPrefix(key, name)
	rest, opens := strings.CutPrefix(rest, "[")
	rest, closes := strings.CutSuffix(rest, "]")
	if !ok || !opens || !closes {
		return nil, false
	}
	parts := strings.Split(rest, "][")
	for _, p := range parts {
		if p == "" || strings.ContainsAny(p, "[]") {
			return nil, false
		}
	}
	return parts, true
}

// headerNamed matches a header. The header Host is the request's authority.
func headerNamed(name string) func(string) (*permission, error) {
	if strings.EqualFold(name, "host") {
		name = ":authority"
	}
	return func(value string) (*permission, error) { return header(name, parsePattern(value), false), nil }
}

// metadataValue matches a value in the dynamic metadata of an Envoy filter: a string, or, with "[x]", an item of a list.
func metadataValue(filter string, path []string) func(string) (*permission, error) {
	of := func(v *matcherv3.ValueMatcher) *permission {
		return &permission{Rule: &rbacv3.Permission_Metadata{Metadata: metadata(filter, path, v)}} //nolint:staticcheck // older proxies
	}
	return func(value string) (*permission, error) {
		if item, ok := strings.CutPrefix(value, "["); ok && strings.HasSuffix(item, "]") {
			return of(oneOf(textValue(parsePattern(strings.TrimSuffix(item, "]"))))), nil
		}
		return of(textValue(parsePattern(value))), nil
	}
}
