package route

import (
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"
	networking "istio.io/api/networking/v1alpha3"
)

// Hash returns the part of a request that a consistent-hash load balancer hashes (ConsistentHashLB.hash_key); nil: there is none. It
// returns an error for a key that Envoy would refuse: without the key requests are balanced at random, with it Envoy would refuse the
// route.
func Hash(lb *networking.LoadBalancerSettings_ConsistentHashLB) ([]*routev3.RouteAction_HashPolicy, error) {
	out := &routev3.RouteAction_HashPolicy{}
	switch k := lb.GetHashKey().(type) {
	case *networking.LoadBalancerSettings_ConsistentHashLB_HttpHeaderName:
		out.PolicySpecifier = &routev3.RouteAction_HashPolicy_Header_{
			Header: &routev3.RouteAction_HashPolicy_Header{HeaderName: k.HttpHeaderName},
		}
	case *networking.LoadBalancerSettings_ConsistentHashLB_HttpCookie:
		out.PolicySpecifier = &routev3.RouteAction_HashPolicy_Cookie_{Cookie: cookie(k.HttpCookie)}
	case *networking.LoadBalancerSettings_ConsistentHashLB_UseSourceIp:
		if !k.UseSourceIp {
			return nil, nil
		}
		out.PolicySpecifier = &routev3.RouteAction_HashPolicy_ConnectionProperties_{
			ConnectionProperties: &routev3.RouteAction_HashPolicy_ConnectionProperties{SourceIp: true},
		}
	case *networking.LoadBalancerSettings_ConsistentHashLB_HttpQueryParameterName:
		out.PolicySpecifier = &routev3.RouteAction_HashPolicy_QueryParameter_{
			QueryParameter: &routev3.RouteAction_HashPolicy_QueryParameter{Name: k.HttpQueryParameterName},
		}
	default:
		return nil, nil
	}
	if err := out.ValidateAll(); err != nil {
		return nil, err
	}
	return []*routev3.RouteAction_HashPolicy{out}, nil
}

func cookie(in *networking.LoadBalancerSettings_ConsistentHashLB_HTTPCookie) *routev3.RouteAction_HashPolicy_Cookie {
	out := &routev3.RouteAction_HashPolicy_Cookie{Name: in.GetName(), Path: in.GetPath(), Ttl: in.GetTtl()}
	for _, a := range in.GetAttributes() {
		out.Attributes = append(out.Attributes, &routev3.RouteAction_HashPolicy_CookieAttribute{Name: a.GetName(), Value: a.GetValue()})
	}
	return out
}

// addHash joins the hash policies of several destinations, each once.
func addHash(have, more []*routev3.RouteAction_HashPolicy) []*routev3.RouteAction_HashPolicy {
next:
	for _, m := range more {
		for _, h := range have {
			if proto.Equal(h, m) {
				continue next
			}
		}
		have = append(have, m)
	}
	return have
}
