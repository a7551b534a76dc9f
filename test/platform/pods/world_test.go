package pods_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fairway/test/envoy/live"
	"fairway/test/platform/kube/cluster"
	"fairway/test/platform/kube/kubelet"
	"fairway/test/rig"
)

var (
	discovery = rig.Program{Name: "pilot-discovery"}
	agent     = rig.Program{Name: "pilot-agent"}
	service   = rig.Program{Name: "service", Package: "./examples/bookinfo/service"}
)

func TestMain(m *testing.M) {
	kubelet.Enter()
	os.Exit(rig.Main(m, &discovery, &agent, &service))
}

// planeIP is the address of the control plane's Service. Nothing carries connections there but that Host has it.
const planeIP = "10.250.0.10"

// world is a cluster with a mesh.
type world struct {
	*cluster.Cluster
	*kubelet.Kubelet
	network *kubelet.Network
	dir     string
	plane   *rig.Process
}

// newWorld starts a cluster with its control plane, and the namespace shop, whose pods are injected.
func newWorld(t *testing.T) *world {
	t.Helper()
	if testing.Short() {
		t.Skip("a mesh of real pods takes minutes")
	}
	envoy := live.NeedEnvoy(t)
	w := &world{network: kubelet.NewNetwork(t), dir: rig.Folder(t)}
	w.Cluster = cluster.StartIn(t, w.network.Host)
	w.Define(t)
	w.Apply(t, rig.Text(t, "mesh.yaml", rig.Pairs("ip", planeIP, "host", kubelet.HostIP)))
	w.network.Serve(t, planeIP)
	w.startPlane(t)
	w.trustRoot(t, "shop")
	w.askPlane(t)
	w.Kubelet = kubelet.Start(t, w.Cluster, w.network, map[string]kubelet.Image{
		"fairway/proxy": {agent.Path(t), envoy}, "bookinfo/service": {service.Path(t)},
	})
	return w
}

// startPlane starts the control plane and returns once it serves.
func (w *world) startPlane(t *testing.T) {
	t.Helper()
	w.plane = rig.Launch(t, rig.Command{
		Name: "pilot-discovery", Path: discovery.Path(t), Dir: w.dir, In: w.network.Host,
		Args: []string{
			"discovery", "--kubeconfig", w.Kubeconfig(t, nil, "plane", "system:masters"), "--caStateDir", filepath.Join(w.dir, "ca"),
			"--grpcAddr", "", "--secureGRPCAddr", ":15012", "--httpAddr", ":8080", "--monitoringAddr", "", "--httpsAddr", ":15017",
			"--shutdownDuration", "10ms",
		},
	})
	w.awaitPlane(t)
}

func (w *world) awaitPlane(t *testing.T) {
	t.Helper()
	rig.Eventually(t, func() error {
		w.plane.Running(t)
		code, body, err := rig.Call(http.MethodGet, "http://127.0.0.1:8080/ready", w.network.Host.DialContext)
		if err == nil && code != http.StatusOK {
			err = fmt.Errorf("the control plane: %d %s", code, body)
		}
		return err
	})
}

// askPlane has the API server ask the control plane for pods, and returns once it does.
func (w *world) askPlane(t *testing.T) {
	t.Helper()
	root, err := os.ReadFile(filepath.Join(w.dir, "ca", "root-cert.pem"))
	if err != nil {
		t.Fatal(err)
	}
	w.Apply(t, rig.Text(t, "webhook.yaml", rig.Pairs("root", base64.StdEncoding.EncodeToString(root))))
	// The API server takes up configurations within a second; until it has, pods pass as they are.
	rig.Eventually(t, func() error {
		const pod = `{"metadata":{"name":"probe"},"spec":{"containers":[{"name":"a","image":"b"}]}}`
		o, err := w.Do(t.Context(), http.MethodPost, "/api/v1/namespaces/shop/pods?dryRun=All", "application/json", []byte(pod))
		if err == nil && !strings.Contains(fmt.Sprint(o), "istio-proxy") {
			err = fmt.Errorf("the webhook is not asked yet")
		}
		return err
	})
}

// answer is what the bookshop's services say.
type answer struct {
	Service, Version, Error string
	Status                  int
	Reviews, Ratings        *answer
}

// ask sends one request, from a place, to an address.
func ask(from live.Dial, to, host string, header map[string]string) (a answer, err error) {
	reply, err := live.Try(live.Request{To: to, Host: host, Header: header, Dial: from})
	if err == nil && reply.Status != http.StatusOK {
		return a, fmt.Errorf("%s at %s: %d %s", host, to, reply.Status, reply.Body)
	}
	if err == nil {
		err = json.Unmarshal([]byte(reply.Body), &a)
	}
	return a, err
}

// vip is a Service's address, with a port.
func (w *world) vip(t *testing.T, service string, port int) string {
	t.Helper()
	o, err := w.Do(t.Context(), http.MethodGet, "/api/v1/namespaces/shop/services/"+service, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	spec, _ := o["spec"].(map[string]any)
	return fmt.Sprintf("%s:%d", spec["clusterIP"], port)
}
