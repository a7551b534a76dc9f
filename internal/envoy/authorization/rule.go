package authorization

import (
	"fmt"

	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	securityv1beta1 "istio.io/api/security/v1beta1"
)

type (
	permission = rbacv3.Permission
	principal  = rbacv3.Principal
)

// compiler compiles one rule, for requests or for connections that are not HTTP.
type compiler struct {
	namespace string
	trust     []string
	http      bool
	at        string  // the rule's place in the object
	faults    []Fault // fields that cannot be compiled
	unknown   []Fault // fields that only requests have
}

// field is one field of a rule: the values of which one must match, and the values that must not match.
type field[T any] struct {
	name        string // as it is written, of its positive form
	notName     string
	values, not []string
	requests    bool // only requests have it
	one         func(string) (T, error)
}

// rule compiles a rule: one of its sources, one of its operations, and all of its conditions (Rule). It returns false if the rule matches
// nothing.
func (c *compiler) rule(r *securityv1beta1.Rule, action securityv1beta1.AuthorizationPolicy_Action) (*rbacv3.Policy, bool) {
	var sources []*principal
	for i, from := range r.GetFrom() {
		at := fmt.Sprintf("%s.from[%d].source", c.at, i)
		sources = append(sources, principals.and(gather(c, at, principals, c.sourceFields(from.GetSource()))))
	}
	var operations []*permission
	for i, to := range r.GetTo() {
		at := fmt.Sprintf("%s.to[%d].operation", c.at, i)
		operations = append(operations, permissions.and(gather(c, at, permissions, c.operationFields(to.GetOperation()))))
	}
	who, what := []*principal{}, []*permission{}
	if len(sources) > 0 {
		who = append(who, principals.or(sources))
	}
	if len(operations) > 0 {
		what = append(what, permissions.or(operations))
	}
	for i, when := range r.GetWhen() {
		at := fmt.Sprintf("%s.when[%d]", c.at, i)
		if of, ok := c.principalCondition(when); ok {
			who = append(who, gather(c, at, principals, []field[*principal]{of})...)
		} else if of, ok := c.permissionCondition(when); ok {
			what = append(what, gather(c, at, permissions, []field[*permission]{of})...)
		} else {
			c.faults = append(c.faults, Fault{at + ".key", fmt.Sprintf("%q is not known of requests", when.GetKey())})
		}
	}
	if len(c.faults)+len(c.unknown) > 0 && !refuses(action) {
		return nil, false
	}
	return &rbacv3.Policy{
		Permissions: []*permission{permissions.and(what)}, Principals: []*principal{principals.and(who)},
	}, true
}

// gather builds a matcher for each field that is set, and a negated one for each field that must not match.
func gather[T any](c *compiler, at string, l logic[T], fields []field[T]) (out []T) {
	for _, f := range fields {
		if len(f.values) > 0 {
			if m, ok := alternatives(c, at+"."+f.name, l, f, f.values); ok {
				out = append(out, m)
			}
		}
		if len(f.not) > 0 {
			if m, ok := alternatives(c, at+"."+f.notName, l, f, f.not); ok {
				out = append(out, l.not(m))
			}
		}
	}
	return out
}

// alternatives matches any of a field's values. It returns false, and records why, if one of them cannot be compiled.
func alternatives[T any](c *compiler, at string, l logic[T], f field[T], values []string) (T, bool) {
	var none T
	if f.requests && !c.http {
		c.unknown = append(c.unknown, Fault{at, "only requests have it"})
		return none, false
	}
	list := make([]T, 0, len(values))
	for i, v := range values {
		m, err := f.one(v)
		if err == nil {
			err = l.check(m)
		}
		if err != nil {
			c.faults = append(c.faults, Fault{fmt.Sprintf("%s[%d]", at, i), err.Error()})
			return none, false
		}
		list = append(list, m)
	}
	return l.or(list), true
}
