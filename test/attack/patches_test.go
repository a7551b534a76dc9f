package attack

import (
	"strings"
	"testing"

	"fairway/internal/mesh/code"
	"fairway/test/ads"
	"fairway/test/plane"
	"fairway/test/rig"
)

// TestPatchesReachNothingOfTheAgents: an EnvoyFilter has a listener answer with the agent's token, leads a cluster to the agent's
// socket for keys, and reads the environment; none of these is sent, and the object's honest cluster is. Lua is sent until the mesh's
// administrator lists the namespaces that may run it.
func TestPatchesReachNothingOfTheAgents(t *testing.T) {
	p := plane.Start(t, plane.SecureOptions(t))
	p.Apply(t, "rules.yaml", rig.Text(t, "patches.yaml", nil))
	c := p.Connect(t, plane.Proxy{Name: "web-1", Namespace: "shop", Identity: p.JoinAs(t, "shop", "web")})
	has := func(typ, name string) bool { _, ok := c.Body(typ, name); return ok }
	for _, l := range []string{"reads-token", "reads-environment", "reads-folder"} {
		if has(ads.ListenerType, l) {
			t.Errorf("the proxy is sent the listener %s", l)
		}
	}
	if has(ads.ClusterType, "keys") {
		t.Error("the proxy is sent a cluster at the agent's socket")
	}
	if !has(ads.ClusterType, "honest") || !has(ads.ListenerType, "scripted") {
		t.Error("the honest patches of the object are not sent")
	}
	told := func(what string) (n int) {
		for _, problem := range p.Discovery.Problems() {
			if problem.Code == what && problem.Object.Name == "patches" {
				n++
			}
		}
		return n
	}
	if own, lua := told(code.ProxysOwn), told(code.RunsLua); own != 4 || lua != 1 {
		t.Errorf("%d patches are told to be the proxy's own, want 4; %d to run Lua, want 1", own, lua)
	}
	p.Apply(t, "mesh.yaml", "kind: MeshConfig\nspec: {defaultConfig: {proxyMetadata: {FAIRWAY_LUA: \"\"}}}\n")
	if body, ok := c.Body(ads.ListenerType, "scripted"); ok && strings.Contains(string(body), "envoy_on_request") {
		t.Error("Lua is sent though no namespace may run it")
	}
}
