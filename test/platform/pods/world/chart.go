package world

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"fairway/test/envoy/live"
	"fairway/test/platform/kube/cluster"
	"fairway/test/platform/kube/kubelet"
	"fairway/test/rig"
)

// StartBare starts a cluster without a mesh. A hub has the project's images, and more are other images. Pods find the API server as every
// pod does, and the addresses of all Services lead to their pods.
func StartBare(t testing.TB, hub string, more map[string]kubelet.Image) *World {
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
	all := map[string]kubelet.Image{}
	for name, image := range images(t, envoy) {
		if own, ok := strings.CutPrefix(name, "fairway/"); ok {
			name = hub + "/" + own
		}
		all[name] = image
	}
	for name, image := range more {
		all[name] = image
	}
	w.Kubelet = kubelet.Start(t, w.Cluster, w.Network, all)
	w.Carry(t)
	return w
}

// StartChart is Start with the control plane that the chart describes: pods of its Deployment, which find the API server as every pod does,
// the chart's webhooks, and the objects that the control plane itself writes. pilotctl installs it.
func StartChart(t testing.TB, replicas int) *World {
	t.Helper()
	w := StartBare(t, "fairway", nil)
	w.Install(t, fmt.Sprintf("pilot.replicaCount=%d", replicas))
	w.Inject(t, "shop")
	return w
}

// Install runs pilotctl install in a cluster that has no mesh yet, with the images of hub fairway and with values of the chart
// (NAME=VALUE).
func (w *World) Install(t testing.TB, values ...string) {
	t.Helper()
	args := []string{"install", "--kubeconfig", w.Kubeconfig(t, nil, "admin", "system:masters")}
	for _, v := range append([]string{
		"pilot.autoscaleEnabled=false", "global.hub=fairway", "meshConfig.defaultConfig.concurrency=1",
	}, values...) {
		args = append(args, "--set", v)
	}
	install := rig.Launch(t, rig.Command{Name: "pilotctl", Path: Programs[3].Path(t), Dir: w.dir, In: w.Network.Host, Args: args})
	if code := install.Exit(t); code != 0 {
		t.Fatalf("pilotctl install: %d\n%s", code, install.Log)
	}
}
