package install_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"

	"fairway/internal/kubeclient"
	"fairway/test/platform/kube/cluster"
)

// kubelet says of each pod that it runs, and forwards pods' ports.
type kubelet struct {
	cluster *cluster.Cluster
	client  *kubeclient.Clients
	addr    *net.TCPAddr
	status  func(*corev1.Pod) corev1.PodStatus

	mu    sync.Mutex
	ports map[string]string // "15014", or "istiod-1:15014" of one pod: where it leads
}

const machine = "n1"

// addresses counts those that pods were given.
var addresses atomic.Uint32

// running is the status of a pod that serves.
func running(*corev1.Pod) corev1.PodStatus {
	n := addresses.Add(1)
	ip := fmt.Sprintf("10.3.%d.%d", n/250, 1+n%250)
	out := corev1.PodStatus{Phase: corev1.PodRunning, PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}}}
	for _, is := range []corev1.PodConditionType{corev1.PodScheduled, corev1.ContainersReady, corev1.PodReady} {
		since := metav1.Now()
		out.Conditions = append(out.Conditions, corev1.PodCondition{Type: is, Status: corev1.ConditionTrue, LastTransitionTime: since})
	}
	return out
}

// unpulled is the status of a pod with an image that cannot be pulled.
func unpulled(p *corev1.Pod) corev1.PodStatus {
	return corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{
		Name: p.Spec.Containers[0].Name, Image: p.Spec.Containers[0].Image,
		State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "no such image"}},
	}}}
}

// startKubelet runs one until the test ends. status says how pods are.
func startKubelet(t *testing.T, c *cluster.Cluster) *kubelet {
	t.Helper()
	client, err := kubeclient.Open(c.Admin())
	if err != nil {
		t.Fatal(err)
	}
	k := &kubelet{cluster: c, client: client, ports: map[string]string{}}
	server := httptest.NewUnstartedServer(http.HandlerFunc(k.forward))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	k.addr = server.Listener.Addr().(*net.TCPAddr)
	node := c.Apply(t, "apiVersion: v1\nkind: Node\nmetadata: {name: "+machine+"}")[0].Meta("name")
	status, err := json.Marshal(map[string]any{"status": corev1.NodeStatus{
		Addresses:       []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}},
		DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: int32(k.addr.Port)}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	c.Patch(t, "/api/v1/nodes/"+node+"/status", string(status))
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	t.Cleanup(func() {
		stop()
		<-done
		server.CloseClientConnections()
		server.Close()
	})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			k.follow(ctx)
		}
	}()
	return k
}

// as sets the status of pods from now on, including existing ones.
func (k *kubelet) as(t *testing.T, status func(*corev1.Pod) corev1.PodStatus) {
	t.Helper()
	k.mu.Lock()
	k.status = status
	k.mu.Unlock()
	all, err := k.client.Pods("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range all.Items {
		k.tell(t.Context(), &all.Items[i], true)
	}
}

// follow watches pods.
func (k *kubelet) follow(ctx context.Context) {
	w, err := k.client.Pods("").Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return
	}
	defer w.Stop()
	for e := range w.ResultChan() {
		if p, ok := e.Object.(*corev1.Pod); ok && e.Type != "DELETED" {
			k.tell(ctx, p, false)
		}
	}
}

// tell binds a pod and writes its status. One that is being deleted goes.
func (k *kubelet) tell(ctx context.Context, p *corev1.Pod, anew bool) {
	k.mu.Lock()
	status := k.status
	k.mu.Unlock()
	pods := k.client.Pods(p.Namespace)
	if p.DeletionTimestamp != nil {
		at := int64(0)
		_ = pods.Delete(ctx, p.Name, metav1.DeleteOptions{GracePeriodSeconds: &at})
		return
	}
	if status == nil {
		return
	}
	if p.Spec.NodeName == "" {
		const bind = `{"apiVersion": "v1", "kind": "Binding", "metadata": {"name": %q}, "target": {"kind": "Node", "name": %q}}`
		path := fmt.Sprintf("/api/v1/namespaces/%s/pods/%s/binding", p.Namespace, p.Name)
		_, _ = k.cluster.Do(ctx, http.MethodPost, path, "application/json", fmt.Appendf(nil, bind, p.Name, machine))
	}
	if !anew && (p.Status.PodIP != "" || len(p.Status.ContainerStatuses) > 0) {
		return
	}
	patch, err := json.Marshal(map[string]any{"status": status(p)})
	if err == nil {
		_, _ = pods.Patch(ctx, p.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	}
}

// forward serves /portForward/<namespace>/<pod>: pairs of streams over SPDY, one for errors and one for data.
func (k *kubelet) forward(w http.ResponseWriter, r *http.Request) {
	if !strings.HasPrefix(r.URL.Path, "/portForward/") {
		http.NotFound(w, r)
		return
	}
	if _, err := httpstream.Handshake(r, w, []string{"portforward.k8s.io"}); err != nil {
		return
	}
	streams := make(chan httpstream.Stream, 16)
	conn := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(s httpstream.Stream, _ <-chan struct{}) error {
		streams <- s
		return nil
	})
	if conn == nil {
		return
	}
	defer conn.Close()
	wrong := map[string]httpstream.Stream{}
	var all sync.WaitGroup
	defer all.Wait()
	for {
		select {
		case <-conn.CloseChan():
			return
		case s := <-streams:
			id := s.Headers().Get(corev1.PortForwardRequestIDHeader)
			if s.Headers().Get(corev1.StreamType) == corev1.StreamTypeError {
				wrong[id] = s
				continue
			}
			of := wrong[id]
			all.Go(func() { k.pass(path.Base(r.URL.Path), s, of) })
		}
	}
}

// pass connects a stream of data with what its port leads to.
func (k *kubelet) pass(pod string, data, wrong httpstream.Stream) {
	defer data.Close()
	port := data.Headers().Get(corev1.PortHeader)
	k.mu.Lock()
	to, own := k.ports[pod+":"+port]
	if !own {
		to = k.ports[port]
	}
	k.mu.Unlock()
	err := errors.New("nobody listens on port " + port)
	if to != "" {
		err = k.join(data, to)
	}
	if wrong != nil {
		if err != nil {
			fmt.Fprint(wrong, err.Error())
		}
		wrong.Close()
	}
}

func (k *kubelet) join(data httpstream.Stream, to string) error {
	c, err := net.Dial("tcp", to)
	if err != nil {
		return err
	}
	defer c.Close()
	go func() {
		_, _ = io.Copy(c, data)
		_ = c.(*net.TCPConn).CloseWrite()
	}()
	_, err = io.Copy(data, c)
	return err
}

// leads has a port of every pod, or of one, lead to an address.
func (k *kubelet) leads(port, to string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ports[port] = to
}
