package authorization

import (
	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
)

// logic combines matchers of one of RBAC's two kinds.
type logic[T any] struct {
	and   func([]T) T // of an empty list: matches everything
	or    func([]T) T // of at least one
	not   func(T) T
	check func(T) error // an error if Envoy would refuse it
}

var permissions = logic[*permission]{
	and: func(list []*permission) *permission {
		switch len(list) {
		case 0:
			return &permission{Rule: &rbacv3.Permission_Any{Any: true}}
		case 1:
			return list[0]
		}
		return &permission{Rule: &rbacv3.Permission_AndRules{AndRules: &rbacv3.Permission_Set{Rules: list}}}
	},
	or: func(list []*permission) *permission {
		if len(list) == 1 {
			return list[0]
		}
		return &permission{Rule: &rbacv3.Permission_OrRules{OrRules: &rbacv3.Permission_Set{Rules: list}}}
	},
	not: func(p *permission) *permission {
		return &permission{Rule: &rbacv3.Permission_NotRule{NotRule: p}}
	},
	check: (*permission).Validate,
}

var principals = logic[*principal]{
	and: func(list []*principal) *principal {
		switch len(list) {
		case 0:
			return &principal{Identifier: &rbacv3.Principal_Any{Any: true}}
		case 1:
			return list[0]
		}
		return &principal{Identifier: &rbacv3.Principal_AndIds{AndIds: &rbacv3.Principal_Set{Ids: list}}}
	},
	or: func(list []*principal) *principal {
		if len(list) == 1 {
			return list[0]
		}
		return &principal{Identifier: &rbacv3.Principal_OrIds{OrIds: &rbacv3.Principal_Set{Ids: list}}}
	},
	not: func(p *principal) *principal {
		return &principal{Identifier: &rbacv3.Principal_NotId{NotId: p}}
	},
	check: (*principal).Validate,
}
