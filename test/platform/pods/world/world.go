package world

import (
	"cmp"
	_ "embed"
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
	"fairway/test/platform/kube/front"
	"fairway/test/platform/kube/kubelet"
	"fairway/test/release/unpacked"
	"fairway/test/rig"
)

// Programs are those that a world runs; rig.Main removes them.
var Programs = []*rig.Program{
	{Name: "pilot-discovery"}, {Name: "pilot-agent"}, {Name: "service", Package: "./examples/bookinfo/service"},
	{Name: "pilotctl"},
}

//go:embed mesh.yaml
var meshText string

//go:embed webhook.yaml
var webhookText string

//go:embed shop.yaml
var shopText string

//go:embed gateway.yaml
var gatewayText string

// planeIP is the address of the control plane's Service: Host has it, and passes connections on to the replicas.
const planeIP = "10.250.0.10"

// World is a cluster with a mesh, which runs until its test ends.
type World struct {
	*cluster.Cluster
	*kubelet.Kubelet
	Network *kubelet.Network

	t      testing.TB
	dir    string
	planes [3]*rig.Process // replicas, unless these are pods; those that never ran are nil
	fronts []*front.Front  // one for each port of its Service
}

// Start starts a cluster with its control plane, and the namespace shop with injection. It skips the test if the machine cannot have pods.
func Start(t testing.TB) *World {
	t.Helper()
	envoy := live.NeedEnvoy(t)
	w := &World{t: t, Network: kubelet.NewNetwork(t), dir: rig.Folder(t)}
	w.Cluster = cluster.StartIn(t, w.Network.Host)
	w.Define(t)
	w.Apply(t, rig.Fill(t, "mesh.yaml", meshText, rig.Pairs("ip", planeIP)))
	w.Network.Serve(t, planeIP)
	for _, port := range planePorts {
		w.fronts = append(w.fronts, w.carry(t, port))
	}
	w.StartPlane()
	w.Trust(t, "shop")
	w.askPlane(t)
	w.Kubelet = kubelet.Start(t, w.Cluster, w.Network, images(t, envoy))
	return w
}

// Images is the variable that names the folder of images that `make images` wrote. Without it pods run the programs as they are built.
const Images = "FAIRWAY_IMAGES"

func images(t testing.TB, envoy string) map[string]kubelet.Image {
	if folder := os.Getenv(Images); folder != "" {
		of := func(name string) kubelet.Image {
			i := unpacked.Unpack(t, filepath.Join(folder, name))
			return kubelet.Image{i.Root, i.Entrypoint[0]}
		}
		return map[string]kubelet.Image{
			"fairway/pilot": of("pilot"), "fairway/proxyv2": of("proxyv2"), "bookinfo/service": {Programs[2].Path(t)},
		}
	}
	return map[string]kubelet.Image{
		"fairway/pilot":    {Programs[0].Path(t)},
		"fairway/proxyv2":  {Programs[1].Path(t), envoy},
		"bookinfo/service": {Programs[2].Path(t)},
	}
}

// askPlane has the API server ask the control plane for pods, and returns once it does.
func (w *World) askPlane(t testing.TB) {
	t.Helper()
	root, err := os.ReadFile(filepath.Join(w.dir, "ca", "root-cert.pem"))
	if err != nil {
		t.Fatal(err)
	}
	w.Apply(t, rig.Fill(t, "webhook.yaml", webhookText, rig.Pairs("root", base64.StdEncoding.EncodeToString(root))))
	w.awaitInjection(t, "shop")
}

// Inject makes a namespace with injection, and returns once its pods are injected.
func (w *World) Inject(t testing.TB, namespace string) {
	t.Helper()
	w.Apply(t, fmt.Sprintf("{apiVersion: v1, kind: Namespace, metadata: {name: %s, labels: {istio-injection: enabled}}}", namespace))
	w.awaitInjection(t, namespace)
}

// awaitInjection returns once pods of a namespace are injected: the API server takes up configurations within a second, and until it
// has, pods pass as they are.
func (w *World) awaitInjection(t testing.TB, namespace string) {
	t.Helper()
	rig.Eventually(t, func() error {
		const pod = `{"metadata":{"name":"probe"},"spec":{"containers":[{"name":"a","image":"b"}]}}`
		at := "/api/v1/namespaces/" + namespace + "/pods?dryRun=All"
		o, err := w.Do(t.Context(), http.MethodPost, at, "application/json", []byte(pod))
		if err == nil && !strings.Contains(fmt.Sprint(o), "istio-proxy") {
			err = fmt.Errorf("the webhook is not asked yet")
		}
		return err
	})
}

// Trust tells a namespace of the authority's root.
func (w *World) Trust(t testing.TB, namespace string) {
	t.Helper()
	root, err := os.ReadFile(filepath.Join(w.dir, "ca", "root-cert.pem"))
	if err != nil {
		t.Fatal(err)
	}
	w.Apply(t, fmt.Sprintf(`
apiVersion: v1
kind: ConfigMap
metadata: {name: istio-ca-root-cert, namespace: %s}
data: {root-cert.pem: %q}
`, namespace, root))
}

// Workload is a Deployment of one version of one of the bookshop's services, with its Service and its account.
type Workload struct {
	Name, Version string
	Role          string // of examples/bookinfo/service; empty: Name
	Upstream      string // host:port of the service that it asks; empty: none
	Replicas      int
	Build         string // changed, its pods are replaced
	// Abrupt applications have no preStop: they get SIGTERM when the mesh learns that they end. They are replaced one by one: a request is
	// tried three times, so it may meet two that end at once, but no more.
	Abrupt bool
	// Life is the lifetime of its certificates, as Go writes a time; empty: the default. They are replaced when four fifths are left.
	Life string
}

// Deploy applies workloads to the namespace shop.
func (w *World) Deploy(t testing.TB, all ...Workload) {
	t.Helper()
	for _, one := range all {
		lifecycle, strategy := "{preStop: {sleep: {seconds: 3}}}", "{}"
		if one.Abrupt {
			lifecycle, strategy = "{}", "{maxSurge: 1, maxUnavailable: 0}"
		}
		more := ""
		if one.Life != "" {
			more = `, proxy.istio.io/config: '{"proxyMetadata": {"SECRET_TTL": "` + one.Life + `", "SECRET_GRACE_PERIOD_RATIO": "0.8"}}'`
		}
		w.Apply(t, rig.Fill(t, "shop.yaml", shopText, rig.Pairs(
			"name", one.Name, "version", one.Version, "role", cmp.Or(one.Role, one.Name), "upstream", one.Upstream,
			"replicas", max(one.Replicas, 1), "build", one.Build, "more", more, "lifecycle", lifecycle, "strategy", strategy,
		)))
	}
}

// Bookshop deploys the bookshop, and returns its first page and ratings once all are ready.
func (w *World) Bookshop(t testing.TB) (page, ratings *kubelet.Pod) {
	t.Helper()
	w.Deploy(t,
		Workload{Name: "productpage", Version: "v1", Upstream: "reviews:9080"},
		Workload{Name: "reviews", Version: "v1", Upstream: "ratings:9080"},
		Workload{Name: "reviews", Version: "v2", Upstream: "ratings:9080"},
		Workload{Name: "ratings", Version: "v1"},
	)
	w.Ready(t, "shop", "app", "reviews", 2)
	return w.Ready(t, "shop", "app", "productpage", 1)[0], w.Ready(t, "shop", "app", "ratings", 1)[0]
}

// Gateway deploys an ingress gateway in the namespace edge, and the shop's Ingress, which wants the Secret shop-cert there. It is
// ready once the Secret is read.
func (w *World) Gateway(t testing.TB) {
	t.Helper()
	w.Apply(t, gatewayText)
	w.Trust(t, "edge")
}

// Certificate is a Secret of the gateway's, with a certificate of its own authority.
type Certificate struct {
	Object string
	Roots  []byte // PEM
}

// NewCertificate makes one, good for shop.example.
func NewCertificate(t testing.TB) Certificate {
	t.Helper()
	certificate, key, err := rig.Pair()
	if err != nil {
		t.Fatal(err)
	}
	text := base64.StdEncoding.EncodeToString
	return Certificate{fmt.Sprintf(`
apiVersion: v1
kind: Secret
type: kubernetes.io/tls
metadata: {name: shop-cert, namespace: edge}
data: {tls.crt: %s, tls.key: %s}
`, text(certificate), text(key)), certificate}
}

// Answer is what the bookshop's services say.
type Answer struct {
	Service, Version, Error string
	Status                  int
	Reviews, Ratings        *Answer
}

// Ask sends one request, from a place, to an address.
func Ask(from live.Dial, to, host string, header map[string]string) (a Answer, err error) {
	reply, err := live.Try(live.Request{To: to, Host: host, Header: header, Dial: from})
	if err == nil && reply.Status != http.StatusOK {
		return a, fmt.Errorf("%s at %s: %d %s", host, to, reply.Status, reply.Body)
	}
	if err == nil {
		err = json.Unmarshal([]byte(reply.Body), &a)
	}
	return a, err
}

// Kubectl runs kubectl as an administrator of the cluster, with a text on its standard input, and returns its output. One that fails ends
// the test.
func (w *World) Kubectl(t testing.TB, input string, args ...string) string {
	t.Helper()
	out, err := w.Cluster.Kubectl(t.Context(), w.Kubeconfig(t, nil, "user", "system:masters"), w.dir, input, args...)
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// VIP is the address of one of the shop's Services, with its port.
func (w *World) VIP(t testing.TB, service string) string {
	t.Helper()
	o, err := w.Do(t.Context(), http.MethodGet, "/api/v1/namespaces/shop/services/"+service, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	spec, _ := o["spec"].(map[string]any)
	return fmt.Sprintf("%s:9080", spec["clusterIP"])
}
