package cluster

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"fairway/build/kubebin"
	"fairway/test/netns"
	"fairway/test/rig"
)

// Cluster is a Kubernetes without machines. It runs until its test ends.
type Cluster struct {
	dir    string // of its files
	binary string
	ca     *authority
	etcd   string // where clients find it
	port   uint16 // of the API server

	in     *netns.Namespace // where its programs run; nil: where the test does
	server *rig.Process     // the API server; nil while it is down
	admin  *rest.Config
	http   *http.Client // as the administrator
	plain  *http.Client // without credentials
}

// ServiceIP is the address of the Service kubernetes. Nothing carries connections there.
const ServiceIP = "10.250.0.1"

// Start runs a cluster and returns once it serves, and has made the namespace default and its service account. It is
// skipped with -short; a machine without the binary fails the test with a message how to get it.
func Start(t testing.TB) *Cluster {
	t.Helper()
	return StartIn(t, nil)
}

// StartIn is Start in a network namespace. Clients of the test's own that have a configuration of Admin or Config reach
// it from outside; those that have a file of Kubeconfig run in there, too.
func StartIn(t testing.TB, in *netns.Namespace) *Cluster {
	t.Helper()
	binary := rig.Server(t, kubebin.Obtain)
	c := &Cluster{dir: rig.Folder(t), binary: binary, ca: newAuthority(t, "test-ca"), port: rig.FreePort(t), in: in}
	c.plain = http.DefaultClient
	if in != nil {
		c.plain = &http.Client{Transport: &http.Transport{DialContext: in.DialContext}}
	}
	c.writeFiles(t)
	c.startStore(t)
	c.StartServer(t)
	c.startControllers(t)
	return c
}

// writeFiles makes the certificates of all, and the administrator's client.
func (c *Cluster) writeFiles(t testing.TB) {
	t.Helper()
	rig.Write(t, c.dir, "ca.crt", c.ca.pem)
	c.ca.server(t).write(t, c.dir, "server")
	c.ca.client(t, "kube-apiserver-kubelet-client", "system:masters").write(t, c.dir, "kubelet-client")
	accounts, text := newKey(t)
	rig.Write(t, c.dir, "accounts.key", text)
	rig.Write(t, c.dir, "accounts.pub", public(t, accounts))
	rig.Write(t, c.dir, "controllers.kubeconfig", c.kubeconfig(c.ca.client(t, "system:kube-controller-manager", "system:masters"), c.port))
	c.admin = c.config(c.ca.client(t, "admin", "system:masters"), c.port)
	client, err := rest.HTTPClientFor(c.admin)
	if err != nil {
		t.Fatal(err)
	}
	c.http = client
}

func (c *Cluster) path(name string) string { return filepath.Join(c.dir, name) }

// startStore starts etcd, without waiting for disks: its data is lost with the test anyway.
func (c *Cluster) startStore(t testing.TB) {
	t.Helper()
	client, peer := rig.FreePort(t), rig.FreePort(t)
	c.etcd = fmt.Sprintf("http://127.0.0.1:%d", client)
	peers := fmt.Sprintf("http://127.0.0.1:%d", peer)
	etcd := c.launch(t, "etcd",
		"--name=test", "--data-dir="+c.path("etcd"), "--unsafe-no-fsync", "--log-level=warn",
		"--listen-client-urls="+c.etcd, "--advertise-client-urls="+c.etcd,
		"--listen-peer-urls="+peers, "--initial-advertise-peer-urls="+peers, "--initial-cluster=test="+peers,
	)
	rig.Eventually(t, func() error {
		etcd.Running(t)
		return ask(t.Context(), c.plain, c.etcd+"/health", `"health":"true"`)
	})
}

// StartServer starts the API server, on its earlier port and with its stored objects. It returns once it serves.
func (c *Cluster) StartServer(t testing.TB) {
	t.Helper()
	c.server = c.launch(t, "kube-apiserver",
		"--etcd-servers="+c.etcd, "--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", c.port),
		"--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none", "--service-cluster-ip-range=10.250.0.0/16,fd00:250::/108",
		"--tls-cert-file="+c.path("server.crt"), "--tls-private-key-file="+c.path("server.key"), "--client-ca-file="+c.path("ca.crt"),
		"--kubelet-client-certificate="+c.path("kubelet-client.crt"), "--kubelet-client-key="+c.path("kubelet-client.key"),
		"--authorization-mode=RBAC", "--anonymous-auth=false", "--profiling=false", "--allow-privileged=true",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file="+c.path("accounts.pub"), "--service-account-signing-key-file="+c.path("accounts.key"),
	)
	rig.Eventually(t, func() error {
		c.server.Running(t)
		return ask(t.Context(), c.http, c.url("/readyz"), "ok")
	})
}

// StopServer kills the API server; its stored objects stay.
func (c *Cluster) StopServer() {
	c.server.Kill()
	c.server = nil
}

// controllers are the controllers that make objects for a mesh, and those that the deletion of a namespace needs.
// Controllers of machines are left out, because there are none.
const controllers = "endpointslice-controller,endpointslice-mirroring-controller,serviceaccount-controller,namespace-controller," +
	"garbage-collector-controller,deployment-controller,replicaset-controller,endpoints-controller," +
	"root-ca-certificate-publisher-controller,serviceaccount-token-controller"

func (c *Cluster) startControllers(t testing.TB) {
	t.Helper()
	own := c.path("controllers.kubeconfig")
	c.launch(t, "kube-controller-manager",
		"--kubeconfig="+own, "--authentication-kubeconfig="+own, "--authorization-kubeconfig="+own,
		"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", rig.FreePort(t)), "--leader-elect=false", "--profiling=false",
		"--root-ca-file="+c.path("ca.crt"), "--service-account-private-key-file="+c.path("accounts.key"),
		"--use-service-account-credentials=false", "--kube-api-qps=1000", "--kube-api-burst=2000", "--controllers="+controllers,
	)
	rig.Eventually(t, func() error {
		return ask(t.Context(), c.http, c.url("/api/v1/namespaces/default/serviceaccounts/default"), `"uid"`)
	})
}

// launch starts one of the three. They are killed when the test ends: asked to end, they wait for one another.
func (c *Cluster) launch(t testing.TB, name string, args ...string) *rig.Process {
	t.Helper()
	p := rig.Launch(t, rig.Command{Name: name, Path: c.binary, Args: append([]string{name}, args...), Dir: c.dir, In: c.in})
	t.Cleanup(p.Kill)
	return p
}

func (c *Cluster) url(path string) string { return fmt.Sprintf("https://127.0.0.1:%d%s", c.port, path) }

// ask is nil once an answer holds a text.
func ask(ctx context.Context, client *http.Client, url, want string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && (response.StatusCode != http.StatusOK || !strings.Contains(string(body), want)) {
		err = fmt.Errorf("%s: %s: %.500s", url, response.Status, body)
	}
	return err
}
