package cluster_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"fairway/test/platform/kube/cluster"
	"fairway/test/rig"
)

// A Service's pods become endpoints, stored objects outlive the API server, and a gate can be closed.
func TestCluster(t *testing.T) {
	begun := time.Now()
	c := cluster.Start(t)
	t.Logf("ready in %s", time.Since(begun))
	c.Apply(t, `
apiVersion: v1
kind: Node
metadata: {name: n1}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: v1
kind: Pod
metadata: {name: web-1, labels: {app: web}}
spec: {nodeName: n1, containers: [{name: web, image: web}]}
status: {phase: Running, podIP: 10.3.0.1, podIPs: [{ip: 10.3.0.1}], conditions: [{type: Ready, status: "True"}]}
`)
	const slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices?labelSelector=kubernetes.io/service-name=web"
	rig.Eventually(t, func() error { return holds(t, c, slices, "10.3.0.1") })
	c.StopServer()
	c.StartServer(t)
	rig.Eventually(t, func() error { return holds(t, c, slices, "10.3.0.1") })
	g := c.Gate(t)
	through := c.Config(t, g, "somebody")
	g.Close()
	if _, err := http.Get(through.Host); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("a closed gate: %v", err)
	}
	g.Open(t)
	if _, err := http.Get(through.Host); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("an open gate: %v", err)
	}
}

func holds(t testing.TB, c *cluster.Cluster, path, want string) error {
	o, err := c.Do(t.Context(), http.MethodGet, path, "", nil)
	if err == nil && !strings.Contains(fmt.Sprint(o), want) {
		err = fmt.Errorf("no %s in %v", want, o)
	}
	return err
}
