package kube_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"fairway/internal/xdstype"
	"fairway/test/plane"
	"fairway/test/platform/kube/cluster"
	"fairway/test/rig"
)

// scale is how many services there are; of pods there are five times as many, of nodes a tenth, of namespaces a
// fiftieth: 5,000 is what the project promises figures for, and takes minutes.
var scale = flag.Int("services", 200, "services of the scale test")

// A cluster of some size: how long a control plane takes to read it, how much it holds then, and that updates that no
// proxy depends on start no turn.
func TestScale(t *testing.T) {
	c := cluster.Start(t)
	c.Define(t)
	begun := time.Now()
	fill(t, c, *scale)
	t.Logf("%d services and %d pods made in %s", *scale, 5**scale, time.Since(begun))

	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	begun = time.Now()
	p := plane.Start(t, options(t, c, nil))
	cold := time.Since(begun)
	s := connect(t, p, plane.Proxy{Name: "client", Namespace: "ns-0", IP: "10.9.9.9"})
	first := time.Since(begun)
	p.Settle(t)
	runtime.GC()
	runtime.ReadMemStats(&after)
	if n := len(s.Names(xdstype.ClusterURL)); n < *scale {
		t.Errorf("the proxy holds %d clusters", n)
	}
	t.Logf(
		"synced after %s, first proxy served after %s; %d MB more in use, the proxy's own copy included",
		cold, first, (after.HeapAlloc-before.HeapAlloc)>>20,
	)

	s.taken()
	turn := p.Discovery.LastTurn().Version
	const touches = 400
	begun = time.Now()
	at(t, touches, func(i int) error {
		path := fmt.Sprintf("/api/v1/namespaces/%s/pods/p-%d", namespace(i%*scale, *scale), i%*scale*5)
		body := fmt.Appendf(nil, `{"metadata":{"annotations":{"touched":"%d"}}}`, i)
		_, err := c.Do(t.Context(), http.MethodPatch, path, "application/merge-patch+json", body)
		return err
	})
	took := time.Since(begun)
	// A kind's changes arrive in order: behind that of a label come none of the annotations before it.
	c.Patch(t, "/api/v1/namespaces/"+namespace(0, *scale)+"/pods/p-0", `{"metadata":{"labels":{"last":"label"}}}`)
	rig.Eventually(t, func() error {
		if p.Discovery.LastTurn().Version == turn {
			return errNone
		}
		return nil
	})
	p.Settle(t)
	if now, sent := p.Discovery.LastTurn().Version, s.taken(); now != turn+1 || len(sent) > 1 {
		t.Errorf("%d annotations and a label made %d turns, and sent %+v", touches, now-turn, sent)
	}
	t.Logf("%d annotations took the API server %s, and the control plane no turn", touches, took)
	load(t, c, *scale)
}

func namespace(service, services int) string {
	return fmt.Sprintf("ns-%d", service%max(services/50, 1))
}

// at does something for 0 to n-1, a few at a time.
func at(t *testing.T, n int, do func(int) error) {
	t.Helper()
	var g errgroup.Group
	g.SetLimit(16)
	for i := range n {
		g.Go(func() error { return do(i) })
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
}

// podAddress is that of a pod, by its number.
func podAddress(n int) string { return fmt.Sprintf("10.%d.%d.%d", 16+n/62500, n/250%250, n%250+1) }

// fill makes services with their pods and EndpointSlices, the slices by hand: the time of the controllers is not
// measured.
func fill(t *testing.T, c *cluster.Cluster, services int) {
	t.Helper()
	post := poster(t, c)
	named := func(kind, name string, more map[string]any) map[string]any {
		o := map[string]any{"kind": kind, "metadata": map[string]any{"name": name}}
		for k, v := range more {
			o[k] = v
		}
		return o
	}
	at(t, max(services/50, 1), func(i int) error {
		return post("/api/v1/namespaces", named("Namespace", fmt.Sprintf("ns-%d", i), nil))
	})
	at(t, max(services/10, 1), func(i int) error {
		o := named("Node", fmt.Sprintf("n-%d", i), nil)
		o["metadata"].(map[string]any)["labels"] = map[string]any{
			"topology.kubernetes.io/region": "r1", "topology.kubernetes.io/zone": fmt.Sprintf("z%d", i%3),
		}
		return post("/api/v1/nodes", o)
	})
	at(t, services, func(i int) error { return one(post, c, t, i, services) })
}

// poster makes objects.
func poster(t *testing.T, c *cluster.Cluster) func(path string, o map[string]any) error {
	return func(path string, o map[string]any) error {
		body, err := json.Marshal(o)
		if err == nil {
			_, err = c.Do(t.Context(), http.MethodPost, path, "application/json", body)
		}
		return err
	}
}

// one makes one service with five pods.
func one(post func(string, map[string]any) error, c *cluster.Cluster, t *testing.T, i, services int) error {
	ns, name := namespace(i, services), fmt.Sprintf("s-%d", i)
	if err := post("/api/v1/namespaces/"+ns+"/services", map[string]any{
		"metadata": map[string]any{"name": name},
		"spec":     map[string]any{"ports": []any{map[string]any{"name": "http", "port": 80, "targetPort": 8080}}},
	}); err != nil {
		return err
	}
	var endpoints []any
	for k := range 5 {
		n := i*5 + k
		if err := onePod(post, c, t, ns, name, n, max(services/10, 1)); err != nil {
			return err
		}
		endpoints = append(endpoints, map[string]any{
			"addresses": []string{podAddress(n)}, "conditions": map[string]any{"ready": true},
			"targetRef": map[string]any{"kind": "Pod", "namespace": ns, "name": fmt.Sprintf("p-%d", n)},
		})
	}
	return post("/apis/discovery.k8s.io/v1/namespaces/"+ns+"/endpointslices", map[string]any{
		"metadata":    map[string]any{"name": name + "-x", "labels": map[string]any{"kubernetes.io/service-name": name}},
		"addressType": "IPv4", "ports": []any{map[string]any{"name": "http", "port": 8080}}, "endpoints": endpoints,
	})
}

// onePod makes one pod of a service, which runs and is ready.
func onePod(post func(string, map[string]any) error, c *cluster.Cluster, t *testing.T, ns, app string, n, nodes int) error {
	pod, ip := fmt.Sprintf("p-%d", n), podAddress(n)
	if err := post("/api/v1/namespaces/"+ns+"/pods", map[string]any{
		"metadata": map[string]any{"name": pod, "labels": map[string]any{
			"app": app, "version": fmt.Sprintf("v%d", n%2), "pod-template-hash": fmt.Sprintf("%x", n),
			"security.istio.io/tlsMode": "istio",
		}},
		"spec": map[string]any{
			"nodeName": fmt.Sprintf("n-%d", n%nodes), "containers": []any{map[string]any{"name": "app", "image": "app"}},
		},
	}); err != nil {
		return err
	}
	status := fmt.Appendf(
		nil,
		`{"status":{"phase":"Running","podIP":%q,"podIPs":[{"ip":%q}],"conditions":[{"type":"Ready","status":"True"}]}}`,
		ip, ip,
	)
	path := "/api/v1/namespaces/" + ns + "/pods/" + pod + "/status"
	_, err := c.Do(t.Context(), http.MethodPatch, path, "application/merge-patch+json", status)
	return err
}
