package pods_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"fairway/test/envoy/live"
	"fairway/test/platform/kube/kubelet"
	"fairway/test/platform/pods/world"
	"fairway/test/rig"
)

// ingress: a client outside is served by TLS, and a Secret is replaced while it asks.
func (w mesh) ingress(t *testing.T) {
	first, second := world.NewCertificate(t), world.NewCertificate(t)
	// Connections that were idle since policies changed are closed with their old listeners, 45 seconds later, and Envoy may close one just
	// as a request goes there. So clients close connections that are idle for a second.
	w.Apply(t, rig.Text(t, "idle.yaml"))
	w.Gateway(t)
	w.Apply(t, first.Object)
	gateway := w.Ready(t, "edge", "istio", "ingressgateway", 1)[0]
	request := func(of ...world.Certificate) live.Request {
		config := &tls.Config{ServerName: "shop.example", RootCAs: x509.NewCertPool()}
		for _, c := range of {
			config.RootCAs.AppendCertsFromPEM(c.Roots)
		}
		return live.Request{To: gateway.IP() + ":443", Host: "shop.example", TLS: config, Dial: w.Network.Host.DialContext}
	}
	serves := func(shown world.Certificate) {
		t.Helper()
		rig.Eventually(t, func() error {
			reply, err := live.Try(request(shown))
			if err == nil && reply.Status != http.StatusOK {
				err = fmt.Errorf("%d %s", reply.Status, reply.Body)
			}
			return err
		})
	}
	serves(first)
	load := live.StartLoad(t, paced(live.HTTPClients("clients outside", 2, request(first, second))))
	w.Apply(t, second.Object)
	begun := time.Now()
	serves(second)
	t.Logf("the new certificate is shown after %s", time.Since(begun))
	var unknown x509.UnknownAuthorityError
	if _, err := live.Try(request(first)); !errors.As(err, &unknown) {
		t.Errorf("the old certificate is still shown: %v", err)
	}
	load.Await(t, 2)
	load.Stop(t)
}

// paced are clients that leave the machine some time for others.
func paced(c live.Clients) live.Clients {
	c.Pause = 20 * time.Millisecond
	return c
}

// inside are clients in a pod, behind its sidecar.
func (w mesh) inside(t *testing.T, pod *kubelet.Pod, service string, n int) live.Clients {
	t.Helper()
	return w.insideBy(t, http.MethodPost, pod, service, n)
}

// insideBy are such clients that use a method.
func (w mesh) insideBy(t *testing.T, method string, pod *kubelet.Pod, service string, n int) live.Clients {
	t.Helper()
	r := live.Request{Method: method, To: w.VIP(t, service), Host: service, Dial: pod.DialContext}
	return paced(live.HTTPClients(pod.Name(), n, r))
}

// outages: sidecars serve on while the API server is killed, and while the control plane is, and follow both when these are back.
func (w mesh) outages(t *testing.T, page *kubelet.Pod) {
	load := live.StartLoad(t, w.inside(t, page, "reviews", 2), w.inside(t, page, "ratings", 1))
	w.StopServer()
	load.Await(t, 20)
	w.KillPlane()
	load.Await(t, 20)
	w.StartServer(t)
	w.StartPlane()
	load.Await(t, 5)
	w.StopServer()
	load.Await(t, 20)
	w.StartServer(t)
	w.routes(t, page)
	load.Stop(t)
}

// replicas: of three replicas each ends, at once or gracefully, while pods call each other and rules change. The remaining replica serves
// all agents.
func (w mesh) replicas(t *testing.T, page *kubelet.Pod) {
	load := live.StartLoad(t, w.inside(t, page, "reviews", 2), w.inside(t, page, "ratings", 1))
	w.StartReplica(1)
	w.StartReplica(2)
	for _, end := range []struct {
		replica int
		by      syscall.Signal
	}{{0, syscall.SIGKILL}, {1, syscall.SIGTERM}} {
		w.EndReplica(end.replica, end.by)
		w.routes(t, page)
		load.Await(t, 5)
	}
	w.StartReplica(0)
	w.StopServer() // so that no token can be reviewed
	w.EndReplica(2, syscall.SIGKILL)
	w.connected(t, 0, page.Name())
	w.StartServer(t)
	w.routes(t, page)
	load.Await(t, 5)
	load.Stop(t)
}

// connected waits until a pod's proxy has a stream at a replica.
func (w mesh) connected(t *testing.T, replica int, pod string) {
	t.Helper()
	at := fmt.Sprintf("http://127.0.0.1:%d/debug/syncz", 8080+replica)
	rig.Eventually(t, func() error {
		code, body, err := rig.Call(http.MethodGet, at, w.Network.Host.DialContext)
		if err == nil && (code != http.StatusOK || !strings.Contains(body, pod)) {
			err = fmt.Errorf("%s is not at replica %d: %d %s", pod, replica, code, body)
		}
		return err
	})
}

// rollout: all pods are replaced under load, and no request fails. An abrupt application closes its port as soon as it gets SIGTERM, before
// its callers know of that: they try another pod. It also closes connections while a request may be on its way. Such a request may be
// retried only if its method is idempotent, so the test makes such requests.
func (w mesh) rollout(t *testing.T, page *kubelet.Pod, name string, replicas int, abrupt bool) {
	begun := time.Now()
	many := world.Workload{Name: name, Version: "v1", Role: "ratings", Replicas: replicas, Build: "1", Abrupt: abrupt}
	w.Deploy(t, many)
	w.awaitRollout(t, name, "1", replicas)
	t.Logf("%d injected pods are ready after %s", replicas, time.Since(begun))
	rig.Eventually(t, func() error {
		_, err := world.Ask(page.DialContext, w.VIP(t, name), name, nil)
		return err
	})
	method := http.MethodPost
	if abrupt {
		method = http.MethodGet
	}
	load := live.StartLoad(t, w.insideBy(t, method, page, name, 4))
	begun = time.Now()
	many.Build = "2"
	w.Deploy(t, many)
	w.awaitRollout(t, name, "2", replicas)
	t.Logf("they are replaced after %s", time.Since(begun))
	load.Await(t, 5)
	load.Stop(t)
}

// awaitRollout waits, longer than for anything else, until all pods of an app are of one build, and ready.
func (w mesh) awaitRollout(t *testing.T, app, build string, replicas int) {
	t.Helper()
	for deadline := time.Now().Add(4 * time.Minute); ; {
		ready, others := 0, 0
		for _, p := range w.Pods("shop", "app", app) {
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
			t.Fatalf("of %s %d pods are ready, and %d of another build are left", app, ready, others)
		}
		<-time.After(20 * time.Millisecond)
	}
}
