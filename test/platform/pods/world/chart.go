package world

import (
	"fmt"
	"net/http"
	"net/url"
	"testing"

	"fairway/test/envoy/live"
	"fairway/test/platform/kube/cluster"
	"fairway/test/platform/kube/kubelet"
	"fairway/test/rig"
)

// StartChart is Start with the control plane that the chart describes: pods of its Deployment, which find the API server as every pod does,
// the chart's webhooks, and the objects that the control plane itself writes. pilotctl installs it.
func StartChart(t testing.TB, replicas int) *World {
	t.Helper()
	envoy := live.NeedEnvoy(t)
	w := &World{t: t, Network: kubelet.NewNetwork(t), dir: rig.Folder(t)}
	w.Cluster = cluster.StartIn(t, w.Network.Host)
	server, err := url.Parse(w.Admin().Host)
	if err != nil {
		t.Fatal(err)
	}
	w.Network.Serve(t, cluster.ServiceIP)
	w.pass(t, cluster.ServiceIP+":443", server.Host)
	w.Kubelet = kubelet.Start(t, w.Cluster, w.Network, images(t, envoy))
	install := rig.Launch(t, rig.Command{
		Name: "pilotctl", Path: Programs[3].Path(t), Dir: w.dir, In: w.Network.Host,
		Args: []string{
			"install", "--kubeconfig", w.Kubeconfig(t, nil, "admin", "system:masters"), "--set", "pilot.autoscaleEnabled=false",
			"--set", "global.hub=fairway",
			"--set", fmt.Sprintf("pilot.replicaCount=%d", replicas), "--set", "meshConfig.defaultConfig.concurrency=1",
		},
	})
	if code := install.Exit(t); code != 0 {
		t.Fatalf("pilotctl install: %d\n%s", code, install.Log)
	}
	w.serve(t)
	w.Apply(t, "{apiVersion: v1, kind: Namespace, metadata: {name: shop, labels: {istio-injection: enabled}}}")
	w.awaitWebhook(t)
	return w
}

// serve has the address of the control plane's Service lead to its pods.
func (w *World) serve(t testing.TB) {
	t.Helper()
	o, err := w.Do(t.Context(), http.MethodGet, "/api/v1/namespaces/istio-system/services/istiod", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	spec, _ := o["spec"].(map[string]any)
	ip := fmt.Sprint(spec["clusterIP"])
	w.Network.Serve(t, ip)
	for from, to := range map[int]int{planePorts[0]: planePorts[0], 443: planePorts[1]} {
		var servers []string
		for _, p := range w.Pods("istio-system", "app", "istiod") {
			servers = append(servers, fmt.Sprintf("%s:%d", p.IP(), to))
		}
		w.fronts = append(w.fronts, w.pass(t, fmt.Sprintf("%s:%d", ip, from), servers...))
	}
}
