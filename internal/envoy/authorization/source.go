package authorization

import (
	"errors"
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	securityv1beta1 "istio.io/api/security/v1beta1"
)

// A workload's identity is the URI spiffe://<trust domain>/ns/<namespace>/sa/<service account> of its certificate. A principal
// is the same without the scheme.
const scheme = "spiffe://"

// localDomain is the name that policies may use for the mesh's trust domain, whatever its real name is.
const localDomain = "cluster.local"

// sourceFields lists the fields of a source (Source).
func (c *compiler) sourceFields(s *securityv1beta1.Source) []field[*principal] {
	return []field[*principal]{
		{name: "principals", notName: "notPrincipals", values: s.GetPrincipals(), not: s.GetNotPrincipals(), one: c.principal},
		{
			name: "requestPrincipals", notName: "notRequestPrincipals", values: s.GetRequestPrincipals(),
			not: s.GetNotRequestPrincipals(), requests: true, one: requestPrincipal,
		},
		{name: "namespaces", notName: "notNamespaces", values: s.GetNamespaces(), not: s.GetNotNamespaces(), one: namespace},
		{
			name: "serviceAccounts", notName: "notServiceAccounts", values: s.GetServiceAccounts(),
			not: s.GetNotServiceAccounts(), one: c.serviceAccount,
		},
		{
			name: "trustDomains", notName: "notTrustDomains", values: s.GetTrustDomains(),
			not: s.GetNotTrustDomains(), one: trustDomain,
		},
		{name: "ipBlocks", notName: "notIpBlocks", values: s.GetIpBlocks(), not: s.GetNotIpBlocks(), one: sourceIP},
		{
			name: "remoteIpBlocks", notName: "notRemoteIpBlocks", values: s.GetRemoteIpBlocks(),
			not: s.GetNotRemoteIpBlocks(), one: remoteIP,
		},
	}
}

// identity matches the identity in the client's certificate.
func identity(m *matcherv3.StringMatcher) *principal {
	return &principal{Identifier: &rbacv3.Principal_Authenticated_{
		Authenticated: &rbacv3.Principal_Authenticated{PrincipalName: m},
	}}
}

// workload matches an identity that has the form of a workload's identity and matches m. If a certificate has no such identity, Envoy uses
// other names, which users may choose.
func workload(m *matcherv3.StringMatcher) *principal {
	return principals.and([]*principal{identity(beginning(scheme)), identity(m)})
}

// anyIdentity matches any client that has an identity.
func anyIdentity() *principal { return identity(beginning(scheme)) }

func noClient() *principal { return principals.not(principals.and(nil)) }

func (c *compiler) principal(value string) (*principal, error) {
	var list []*principal
	for _, v := range c.aliases(value) {
		switch p := parsePattern(v); p.form {
		case presence:
			list = append(list, anyIdentity())
		case exact:
			list = append(list, identity(exactly(scheme+p.text)))
		case prefix:
			list = append(list, identity(beginning(scheme+p.text)))
		case suffix:
			list = append(list, workload(ending(p.text)))
		}
	}
	return principals.or(list), nil
}

// aliases returns the principals that a value means: if its trust domain is one of the mesh's, the same principal in each of the mesh's
// trust domains.
func (c *compiler) aliases(value string) []string {
	domain, rest, whole := strings.Cut(value, "/")
	if !whole {
		rest = "*"
	}
	p := parsePattern(domain)
	if p.form == presence || !whole && p.form != prefix {
		return []string{value}
	}
	out := []string{value}
	switch {
	case domain == localDomain:
		out = nil
	case !p.matches(localDomain) && !slices.ContainsFunc(c.trust, p.matches):
		return out
	}
	for _, d := range c.trust {
		if v := d + "/" + rest; !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	return out
}

// namespace matches the namespace of the caller's identity. A namespace has no slash in its name.
func namespace(value string) (*principal, error) {
	p := parsePattern(value)
	if strings.Contains(p.text, "/") {
		return noClient(), nil
	}
	switch p.form {
	case presence:
		return workload(containing("/ns/")), nil
	case prefix:
		return workload(containing("/ns/" + p.text)), nil
	case suffix:
		return workload(containing(p.text + "/sa/")), nil
	}
	return workload(containing("/ns/" + p.text + "/sa/")), nil
}

// serviceAccount matches "<namespace>/<service account>", or a service account of the policy's own namespace.
func (c *compiler) serviceAccount(value string) (*principal, error) {
	ns, name, ok := strings.Cut(value, "/")
	if !ok {
		ns, name = c.namespace, value
	}
	if ns == "" || name == "" || strings.Contains(name, "/") || strings.Contains(value, "*") {
		return nil, errors.New("it is neither <namespace>/<service account> nor <service account>")
	}
	return workload(ending("/ns/" + ns + "/sa/" + name)), nil
}

// trustDomain matches the trust domain of the caller's identity.
func trustDomain(value string) (*principal, error) {
	p := parsePattern(value)
	if strings.Contains(p.text, "/") {
		return noClient(), nil
	}
	switch p.form {
	case presence:
		return anyIdentity(), nil
	case prefix:
		return identity(beginning(scheme + p.text)), nil
	case suffix:
		return workload(containing(p.text + "/ns/")), nil
	}
	return identity(beginning(scheme + p.text + "/")), nil
}

// sourceIP matches the address that the connection comes from.
func sourceIP(value string) (*principal, error) {
	return address(value, func(r *corev3.CidrRange) *principal {
		return &principal{Identifier: &rbacv3.Principal_DirectRemoteIp{DirectRemoteIp: r}}
	})
}

// remoteIP matches the original client address of the request, as reported by trusted proxies.
func remoteIP(value string) (*principal, error) {
	return address(value, func(r *corev3.CidrRange) *principal {
		return &principal{Identifier: &rbacv3.Principal_RemoteIp{RemoteIp: r}}
	})
}

func address[T any](value string, of func(*corev3.CidrRange) T) (T, error) {
	r, err := block(value)
	if err != nil {
		var none T
		return none, err
	}
	return of(r), nil
}
