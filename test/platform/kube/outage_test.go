package kube_test

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"fairway/test/platform/kube/cluster"
	"fairway/test/rig"
)

// A connection that is cut costs nothing: all rows stay, the source reports that it is stale, and it continues where it
// was once it can.
func TestConnectionIsCut(t *testing.T) {
	c := cluster.Start(t)
	c.Define(t, "virtualservices.networking.istio.io")
	c.Apply(t, shop+"---"+webPod+"---"+webRule)
	gate := c.Gate(t)
	w := watch(t, c.Config(t, gate, "reader", "system:masters"))
	w.holding(t, webRuleKey, "seconds:3")
	held := w.keeps()
	gate.Close()
	w.phase(t, "stale", "connection refused")
	if diff := cmp.Diff(held, w.keeps()); diff != "" {
		t.Errorf("a cut connection changed rows:\n%s", diff)
	}
	c.Apply(t, strings.ReplaceAll(webRule, "3s", "5s"))
	c.Delete(t, webPod)
	gate.Open(t)
	w.holding(t, webRuleKey, "seconds:5")
	w.holding(t, podKey, "")
	w.phase(t, "synced", "")
	if n := w.lists("Pod") + w.lists("VirtualService"); n != 2 {
		t.Errorf("kinds that could go on were listed again: %d lists", n)
	}
}

// While the source is away, objects are made and deleted, and the API server forgets its history: the lists that follow
// have the current objects, and each is one whole shard.
func TestHistoryIsForgotten(t *testing.T) {
	c := cluster.Start(t)
	c.Define(t, "virtualservices.networking.istio.io")
	c.Apply(t, shop+"---"+webPod+"---"+webRule)
	gate := c.Gate(t)
	w := watch(t, c.Config(t, gate, "reader", "system:masters"))
	w.holding(t, webRuleKey, "seconds:3")
	w.phase(t, "synced", "")
	gate.Close()
	w.phase(t, "stale", "")
	c.Delete(t, webPod+"---"+webRule)
	c.Apply(t, strings.ReplaceAll(webPod, "web-1", "web-2")+"---"+strings.ReplaceAll(webRule, "name: web,", "name: other,"))
	for i := range 20 { // so that what the source knows of is long past
		c.Patch(t, "/api/v1/namespaces/shop", fmt.Sprintf(`{"metadata":{"annotations":{"n":"%d"}}}`, i))
	}
	c.StopServer()
	c.Compact(t)
	c.StartServer(t)
	gate.Open(t)
	w.holding(t, podKey, "")
	w.holding(t, "workload Kubernetes/east/shop/web-2", "10.3.0.1")
	w.holding(t, webRuleKey, "")
	w.holding(t, "VirtualService shop/other", "seconds:3")
	w.phase(t, "synced", "")
	if w.lists("Pod") != 2 || w.lists("VirtualService") != 2 {
		t.Errorf("lists: %v, want two of each", w.whole)
	}
	if !strings.Contains(w.log.String(), "listed again") {
		t.Error("nobody was told why")
	}
}

// The API server is killed and comes back: no row is removed meanwhile, and later changes arrive.
func TestServerIsKilled(t *testing.T) {
	c := cluster.Start(t)
	c.Define(t, "virtualservices.networking.istio.io")
	c.Apply(t, shop+"---"+webPod+"---"+webRule)
	w := watch(t, c.Admin())
	w.holding(t, webRuleKey, "seconds:3")
	held := w.keeps()
	for range 2 {
		c.StopServer()
		w.phase(t, "stale", "")
		if diff := cmp.Diff(held, w.keeps()); diff != "" {
			t.Errorf("an API server that is gone changed rows:\n%s", diff)
		}
		c.StartServer(t)
		w.phase(t, "synced", "")
	}
	c.Patch(t, "/api/v1/namespaces/shop", `{"metadata":{"labels":{"still":"heard"}}}`)
	w.holding(t, "namespace Kubernetes/east/shop", "still=heard")
	w.until(t, func() error {
		now := maps.Clone(w.holds)
		now["namespace Kubernetes/east/shop"] = held["namespace Kubernetes/east/shop"]
		if diff := cmp.Diff(held, now); diff != "" {
			return errors.New(diff)
		}
		return nil
	})
}

// A kind without a definition delays no other kind. It is read as soon as it is defined, no more when the definition is
// removed, and again when it is put back.
func TestDefinitionsComeAndGo(t *testing.T) {
	c := cluster.Start(t)
	c.Apply(t, shop)
	w := watch(t, c.Admin())
	w.holding(t, "service "+webKey, "http:80")
	for range 2 {
		c.Define(t, "virtualservices.networking.istio.io")
		rig.Eventually(t, func() error { // a defined kind is not yet served everywhere
			_, err := c.Try(t.Context(), webRule)
			return err
		})
		w.holding(t, webRuleKey, "seconds:3")
		w.phase(t, "synced", "")
		c.Undefine(t, "virtualservices.networking.istio.io")
		w.holding(t, webRuleKey, "")
		w.phase(t, "synced", "")
	}
	c.Apply(t, webPod)
	w.holding(t, podKey, "10.3.0.1")
}

const rights = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: reader}
rules:
- {apiGroups: ["", discovery.k8s.io, networking.istio.io, apiextensions.k8s.io], resources: ["*"], verbs: [list, watch, get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: reader}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: reader}
subjects: [{kind: User, name: reader}]
`

// A kind that may not be read at the start is a problem, and delays the source for a moment only. If rights are taken
// away, the rows that were read stay; new rights are noticed.
func TestRightsAreTakenAway(t *testing.T) {
	c := cluster.Start(t)
	c.Define(t)
	c.Apply(t, shop+"---"+webPod+"---"+webRule+"---"+rights)
	w := watch(t, c.Config(t, nil, "reader"))
	w.holding(t, webRuleKey, "seconds:3")
	w.problem(t, "Telemetry", "forbidden")
	w.phase(t, "synced", "")

	held := w.keeps()
	const role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/reader"
	c.Patch(t, role, `{"rules":[{"apiGroups":["","discovery.k8s.io"],"resources":["*"],"verbs":["list","watch"]}]}`)
	c.StopServer() // watches that go on are not asked again for their rights
	c.StartServer(t)
	w.problem(t, "VirtualService", "forbidden")
	w.phase(t, "stale", "forbidden")
	if diff := cmp.Diff(held, w.keeps()); diff != "" {
		t.Errorf("rights that were taken away changed rows:\n%s", diff)
	}
	c.Patch(t, "/api/v1/namespaces/shop", `{"metadata":{"labels":{"still":"heard"}}}`)
	w.holding(t, "namespace Kubernetes/east/shop", "still=heard")

	c.Apply(t, strings.ReplaceAll(webRule, "3s", "6s"))
	c.Apply(t, strings.ReplaceAll(rights, "networking.istio.io", "networking.istio.io, telemetry.istio.io"))
	w.holding(t, webRuleKey, "seconds:6")
	w.problem(t, "VirtualService", "")
	w.problem(t, "Telemetry", "")
	w.phase(t, "synced", "")
}

// A version of an object that is refused is a problem of that object alone: the good one before it stays, also when its
// kind is listed again, until it is mended or deleted.
func TestRefusedVersions(t *testing.T) {
	c := cluster.Start(t)
	c.DefineLoosely(t, "virtualservices.networking.istio.io")
	c.Apply(t, shop+"---"+webRule)
	gate := c.Gate(t)
	w := watch(t, c.Config(t, gate, "reader", "system:masters"))
	w.holding(t, webRuleKey, "seconds:3")
	const path = "/apis/networking.istio.io/v1/namespaces/shop/virtualservices/web"
	c.Patch(t, path, `{"spec":{"http":[{"timeout":"nonsense","route":[{"destination":{"host":"web"}}]}]}}`)
	w.problem(t, "VirtualService shop/web", "nonsense")
	c.Apply(t, strings.ReplaceAll(webRule, "name: web,", "name: other,"))
	w.holding(t, "VirtualService shop/other", "seconds:3")
	w.holding(t, webRuleKey, "seconds:3")

	gate.Close()
	w.phase(t, "stale", "")
	c.StopServer()
	c.Compact(t)
	c.StartServer(t)
	c.Apply(t, strings.ReplaceAll(webRule, "name: web,", "name: third,"))
	gate.Open(t)
	w.holding(t, "VirtualService shop/third", "seconds:3")
	w.holding(t, webRuleKey, "seconds:3")
	w.problem(t, "VirtualService shop/web", "nonsense")

	c.Patch(t, path, `{"spec":{"http":[{"timeout":"7s","route":[{"destination":{"host":"web"}}]}]}}`)
	w.problem(t, "VirtualService shop/web", "")
	w.holding(t, webRuleKey, "seconds:7")
	c.Patch(t, path, `{"spec":{"http":[{"timeout":"nonsense","route":[{"destination":{"host":"web"}}]}]}}`)
	w.problem(t, "VirtualService shop/web", "nonsense")
	c.Delete(t, webRule)
	w.holding(t, webRuleKey, "")
	w.problem(t, "VirtualService shop/web", "")
}
