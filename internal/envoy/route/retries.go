package route

import (
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"
)

// manyRoutes is the number of routes from which a virtual host stores the common retry policy once. Envoy builds the predicates of every
// policy message, and a route with one takes five times as long: with 120,000 routes at a gateway, 20 s became 4 s.
const manyRoutes = 16

// ShareRetries moves the retry policy that most routes of a virtual host have to the virtual host, if it has many routes and no
// policy of its own. It reports whether it did. A route without a policy gets an empty one, which retries nothing either.
func ShareRetries(h *routev3.VirtualHost) bool {
	return len(h.GetRoutes()) >= manyRoutes && h.GetRetryPolicy() == nil && shareRetries(h)
}

// shareRetries is ShareRetries for any number of routes.
func shareRetries(h *routev3.VirtualHost) bool {
	shared := mostCommon(h.GetRoutes())
	if shared == nil {
		return false
	}
	h.RetryPolicy = shared
	for _, r := range h.GetRoutes() {
		to := r.GetRoute()
		switch {
		case to == nil:
		case to.GetRetryPolicy() == nil:
			to.RetryPolicy = &routev3.RetryPolicy{}
		case proto.Equal(to.GetRetryPolicy(), shared):
			to.RetryPolicy = nil
		}
	}
	return true
}

// OwnRetries undoes ShareRetries: each route has its own policy again, so that a patch of a route finds it there.
func OwnRetries(h *routev3.VirtualHost) {
	shared := h.GetRetryPolicy()
	if len(h.GetRoutes()) < manyRoutes || shared == nil {
		return
	}
	h.RetryPolicy = nil
	for _, r := range h.GetRoutes() {
		to := r.GetRoute()
		switch {
		case to == nil:
		case to.GetRetryPolicy() == nil:
			to.RetryPolicy = proto.CloneOf(shared)
		case proto.Size(to.GetRetryPolicy()) == 0:
			to.RetryPolicy = nil
		}
	}
}

// mostCommon returns the retry policy that most routes have, if at least half of the routes that forward requests have it; nil otherwise.
// If two policies are equally common, it returns the first.
func mostCommon(routes []*routev3.Route) *routev3.RetryPolicy {
	type count struct {
		policy *routev3.RetryPolicy
		n      int
	}
	var found []count
	all := 0
	for _, r := range routes {
		if r.GetRoute() == nil {
			continue
		}
		all++
		p := r.GetRoute().GetRetryPolicy()
		known := false
		for i := range found {
			if known = p != nil && proto.Equal(found[i].policy, p); known {
				found[i].n++
				break
			}
		}
		if p != nil && !known && len(found) < 4 { // a policy that half of the routes have is soon found
			found = append(found, count{p, 1})
		}
	}
	best := count{}
	for _, c := range found {
		if c.n > best.n {
			best = c
		}
	}
	if 2*best.n < all {
		return nil
	}
	return best.policy
}
