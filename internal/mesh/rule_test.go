package mesh_test

import (
	"testing"

	"fairway/internal/mesh"
)

// TestParsedNames: tools read back the names that proxies are sent, and no others.
func TestParsedNames(t *testing.T) {
	namespace, policy, rule, ok := mesh.ParseRuleName(mesh.RuleName("shop", "deny-all", 12))
	if !ok || namespace != "shop" || policy != "deny-all" || rule != "12" {
		t.Errorf("the rule is %s/%s %s, %t", namespace, policy, rule, ok)
	}
	for _, name := range []string{"", "none", "ns[a]-policy[b]-rule[]", "ns[a]-policy[b]-rule[1]x", "xns[a]-policy[b]-rule[1]"} {
		if _, _, _, ok := mesh.ParseRuleName(name); ok {
			t.Errorf("%q is read as a rule", name)
		}
	}
	key := mesh.ClusterKey{Port: 80, Subset: "v1", Host: "a.example"}
	direction, port, subset, host, ok := mesh.ClusterParts(key.String())
	if !ok || direction != "outbound" || port != "80" || subset != "v1" || host != "a.example" {
		t.Errorf("the cluster is %s %s %s %s, %t", direction, port, subset, host, ok)
	}
	if _, _, _, _, ok := mesh.ClusterParts("PassthroughCluster"); ok {
		t.Error("a special name has no parts")
	}
	for id, want := range map[mesh.ProxyID]bool{
		"router~10.0.0.9~edge-1.shop~shop.svc.cluster.local": true, "shop/edge|router~10.0.0.9~edge-1.shop~shop.svc.cluster.local": true,
		"sidecar~10.0.0.8~router~shop.svc.cluster.local": false, "": false,
	} {
		if id.IsRouter() != want {
			t.Errorf("%q: want %t", id, want)
		}
	}
}
