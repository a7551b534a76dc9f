package pods_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"fairway/test/envoy/live"
	"fairway/test/platform/kube/kubelet"
	"fairway/test/rig"
)

// ingress: a client outside is served by TLS, and a Secret is replaced while it asks.
func (w *world) ingress(t *testing.T) {
	first, second := w.secret(t), w.secret(t)
	w.Apply(t, rig.Text(t, "gateway.yaml"))
	w.trustRoot(t, "edge")
	w.Apply(t, first.object)
	gateway := w.Ready(t, "edge", "istio", "ingressgateway", 1)[0]
	request := func(roots ...*x509.CertPool) live.Request {
		config := &tls.Config{ServerName: "shop.example"}
		if len(roots) > 0 {
			config.RootCAs = roots[0]
		} else { // whichever of the two
			config.RootCAs = x509.NewCertPool()
			config.RootCAs.AppendCertsFromPEM(first.certificate)
			config.RootCAs.AppendCertsFromPEM(second.certificate)
		}
		return live.Request{To: gateway.IP() + ":443", Host: "shop.example", TLS: config, Dial: w.network.Host.DialContext}
	}
	serves := func(roots *x509.CertPool) {
		t.Helper()
		rig.Eventually(t, func() error {
			reply, err := live.Try(request(roots))
			if err == nil && reply.Status != http.StatusOK {
				err = fmt.Errorf("%d %s", reply.Status, reply.Body)
			}
			return err
		})
	}
	serves(first.roots)
	load := live.StartLoad(t, paced(live.HTTPClients("clients outside", 2, request())))
	w.Apply(t, second.object)
	begun := time.Now()
	serves(second.roots)
	t.Logf("the new certificate is shown after %s", time.Since(begun))
	var unknown x509.UnknownAuthorityError
	if _, err := live.Try(request(first.roots)); !errors.As(err, &unknown) {
		t.Errorf("the old certificate is still shown: %v", err)
	}
	load.Await(t, 2)
	load.Stop(t)
}

// secret is a certificate of its own authority as a Secret of the gateway's.
type secret struct {
	object      string
	certificate []byte
	roots       *x509.CertPool
}

func (w *world) secret(t *testing.T) secret {
	t.Helper()
	certificate, key, err := rig.Pair()
	if err != nil {
		t.Fatal(err)
	}
	roots, text := x509.NewCertPool(), base64.StdEncoding.EncodeToString
	roots.AppendCertsFromPEM(certificate)
	return secret{fmt.Sprintf(
		"{apiVersion: v1, kind: Secret, type: kubernetes.io/tls, metadata: {name: shop-cert, namespace: edge}, data: {tls.crt: %s, tls.key: %s}}",
		text(certificate), text(key)), certificate, roots}
}

// paced are clients that leave the machine some time for others.
func paced(c live.Clients) live.Clients {
	c.Pause = 20 * time.Millisecond
	return c
}

// inside are clients in a pod, behind its sidecar.
func (w *world) inside(t *testing.T, pod *kubelet.Pod, service string, n int) live.Clients {
	t.Helper()
	return paced(live.HTTPClients(pod.Name(), n, live.Request{To: w.vip(t, service, 9080), Host: service, Dial: pod.DialContext}))
}

// outages: sidecars serve on while the API server is killed, and while the control plane is, and follow both when these are back.
func (w *world) outages(t *testing.T, page *kubelet.Pod) {
	load := live.StartLoad(t, w.inside(t, page, "reviews", 2), w.inside(t, page, "ratings", 1))
	w.StopServer()
	load.Await(t, 20)
	w.plane.Kill()
	load.Await(t, 20)
	w.StartServer(t)
	w.startPlane(t)
	load.Await(t, 5)
	w.StopServer()
	load.Await(t, 20)
	w.StartServer(t)
	w.routes(t, page)
	load.Stop(t)
}

// rollout: 20 pods are replaced under load, and no request fails.
func (w *world) rollout(t *testing.T, page *kubelet.Pod) {
	const replicas = 20
	begun := time.Now()
	w.deploy(t, "many", "v1", "ratings", "", replicas, "1")
	w.awaitRollout(t, "many-v1", "1", replicas)
	t.Logf("%d injected pods are ready after %s", replicas, time.Since(begun))
	rig.Eventually(t, func() error {
		_, err := ask(page.DialContext, w.vip(t, "many", 9080), "many", nil)
		return err
	})
	load := live.StartLoad(t, w.inside(t, page, "many", 4))
	begun = time.Now()
	w.deploy(t, "many", "v1", "ratings", "", replicas, "2")
	w.awaitRollout(t, "many-v1", "2", replicas)
	t.Logf("they are replaced after %s", time.Since(begun))
	load.Await(t, 5)
	load.Stop(t)
}

// awaitRollout waits, longer than for anything else, until all pods of a Deployment are of one build, and ready.
func (w *world) awaitRollout(t *testing.T, deployment, build string, replicas int) {
	t.Helper()
	for deadline := time.Now().Add(4 * time.Minute); ; {
		ready, others := 0, 0
		for _, p := range w.Pods("shop", "app", "many") {
			if p.Annotation("build") != build {
				others++
			} else if p.IsReady() {
				ready++
			}
		}
		if ready == replicas && others == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("of %s %d pods are ready, and %d of another build are left", deployment, ready, others)
		}
		<-time.After(20 * time.Millisecond)
	}
}

// trustRoot tells a namespace of the authority's root.
func (w *world) trustRoot(t *testing.T, namespace string) {
	t.Helper()
	root, err := os.ReadFile(filepath.Join(w.dir, "ca", "root-cert.pem"))
	if err != nil {
		t.Fatal(err)
	}
	w.Apply(t, fmt.Sprintf("{apiVersion: v1, kind: ConfigMap, metadata: {name: istio-ca-root-cert, namespace: %s}, data: {root-cert.pem: %q}}",
		namespace, root))
}
