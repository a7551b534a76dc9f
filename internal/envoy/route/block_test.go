package route_test

import (
	"bytes"
	"fmt"
	"testing"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	networking "istio.io/api/networking/v1alpha3"

	"google.golang.org/protobuf/proto"

	"fairway/internal/envoy"
	"fairway/internal/envoy/route"
	"fairway/internal/mesh"
)

// ruleOf has n routes by path; of these every sixth does not retry, and every seventh redirects. With all, one more takes every request.
func ruleOf(name string, n int, all bool) route.Rule {
	to := []*networking.HTTPRouteDestination{{Destination: &networking.Destination{Host: name}}}
	spec := &networking.VirtualService{Hosts: []string{"a.example", "b.example"}}
	for i := range n {
		path := &networking.StringMatch{MatchType: &networking.StringMatch_Prefix{Prefix: fmt.Sprintf("/%s/%d", name, i)}}
		r := &networking.HTTPRoute{Match: []*networking.HTTPMatchRequest{{Uri: path}}, Route: to}
		switch {
		case i%7 == 6:
			r.Route, r.Redirect = nil, &networking.HTTPRedirect{Uri: "/"}
		case i%6 == 5:
			r.Retries = &networking.HTTPRetry{}
		}
		spec.Http = append(spec.Http, r)
	}
	if all {
		spec.Http = append(spec.Http, &networking.HTTPRoute{Route: to})
	}
	return route.Rule{Namespace: "default", Name: name, Spec: spec}
}

func builderOf(retry *networking.HTTPRetry) *route.Builder {
	viewer := route.Viewer{Gateways: []string{route.Mesh}, Port: 80}
	return &route.Builder{Viewer: viewer, Retry: retry, Target: func(_ route.Rule, _ string, d *networking.Destination) route.Target {
		return route.Target{Cluster: mesh.ClusterKey{Host: mesh.Host(d.GetHost()), Port: 80}}
	}}
}

// TestBlocksAreTheVirtualHost: a virtual host of blocks has the same bytes as one that is encoded at once.
func TestBlocksAreTheVirtualHost(t *testing.T) {
	for name, rules := range map[string][]route.Rule{
		"few":           {ruleOf("a", 3, false)},
		"many":          {ruleOf("a", 100, false)},
		"all":           {ruleOf("a", 100, true)},
		"two":           {ruleOf("a", 100, true), ruleOf("b", 2, true)},
		"few and few":   {ruleOf("a", 5, false), ruleOf("b", 5, true)},
		"nothing":       {ruleOf("a", 0, false)},
		"one takes all": {ruleOf("a", 0, true), ruleOf("b", 40, false)},
	} {
		t.Run(name, func(t *testing.T) {
			var lists [][]*routev3.Route
			var blocks []*route.Block
			for _, rule := range rules {
				lists = append(lists, builderOf(nil).HTTP(rule))
				blocks = append(blocks, builderOf(nil).Block(rule))
			}
			h := func(routes []*routev3.Route) *routev3.VirtualHost {
				out := route.Host("80/a.example:80", []string{"a.example"}, routes)
				out.RequireTls = routev3.VirtualHost_ALL
				return out
			}
			whole := h(route.Merge(lists...))
			if n := len(rules[0].Spec.GetHttp()); len(whole.GetRoutes()) < n {
				t.Fatalf("there are %d routes of %d", len(whole.GetRoutes()), n)
			}
			route.ShareRetries(whole)
			want, got := envoy.Encode(whole), route.EncodeHost(h(nil), blocks...)
			if want.Err != nil || got.Err != nil {
				t.Fatal(want.Err, got.Err)
			}
			if !bytes.Equal(want.Body, got.Body) {
				t.Errorf("of blocks it has %d bytes, at once %d", len(got.Body), len(want.Body))
			}
		})
	}
}

// TestBlocksOfOtherRetries: if rules have different retry policies, each route has its own.
func TestBlocksOfOtherRetries(t *testing.T) {
	a := builderOf(nil).Block(ruleOf("a", 20, false))
	b := builderOf(&networking.HTTPRetry{Attempts: 7}).Block(ruleOf("b", 20, false))
	h := &routev3.VirtualHost{}
	if err := proto.Unmarshal(route.EncodeHost(route.Host("x", []string{"x"}, nil), a, b).Body, h); err != nil {
		t.Fatal(err)
	}
	if h.GetRetryPolicy() != nil {
		t.Error("the virtual host has a retry policy that half of its routes do not have")
	}
	if got := h.GetRoutes()[20].GetRoute().GetRetryPolicy().GetNumRetries().GetValue(); got != 7 {
		t.Errorf("the first route of the second rule retries %d times, want 7", got)
	}
}

// TestRetriesAreShared: the policy of many routes is stored once, and OwnRetries gives each route its own again.
func TestRetriesAreShared(t *testing.T) {
	for n, shared := range map[int]bool{8: false, 50: true} {
		h := route.Host("x", []string{"x"}, builderOf(nil).HTTP(ruleOf("a", n, true)))
		before := proto.CloneOf(h)
		if got := route.ShareRetries(h); got != shared || (h.GetRetryPolicy() != nil) != shared {
			t.Errorf("%d routes share their policy: %t", n, got)
		}
		for i, r := range h.GetRoutes() {
			had := before.GetRoutes()[i].GetRoute().GetRetryPolicy() != nil
			if to := r.GetRoute(); shared && to != nil && !had && to.GetRetryPolicy() == nil {
				t.Errorf("route %d, which retries nothing, comes under the shared policy", i)
			}
		}
		route.OwnRetries(h)
		if !proto.Equal(before, h) {
			t.Errorf("%d routes are not what they were", n)
		}
	}
}
