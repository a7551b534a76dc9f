package kubelet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fairway/test/platform/kube/cluster"
	"fairway/test/rig"
)

// Node is the machine that all pods are on.
const Node = "node-1"

// Kubelet runs the pods of one cluster until its test ends.
type Kubelet struct {
	t       testing.TB
	api     api
	network *Network
	images  map[string]Image
	dir     string
	ctx     context.Context
	under   sync.WaitGroup

	mu    sync.Mutex
	pods  map[string]*Pod // by uid
	past  map[string]*Pod // those that have ended, while their objects exist
	notes map[string]string
}

// Start runs the pods of a cluster that runs in the network's Host. images are by name, without a tag. When the test ends, all pods are
// killed, and their output is shown if it failed.
func Start(t testing.TB, c *cluster.Cluster, n *Network, images map[string]Image) *Kubelet {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	k := &Kubelet{
		t: t, api: newAPI(t, c), network: n, images: images, dir: rig.Folder(t), ctx: ctx,
		pods: map[string]*Pod{}, past: map[string]*Pod{}, notes: map[string]string{},
	}
	t.Cleanup(func() {
		cancel()
		k.under.Wait()
		for _, p := range k.past {
			p.closeLogs()
		}
		k.show()
	})
	c.Apply(t, fmt.Sprintf(`
apiVersion: v1
kind: Node
metadata: {name: %s, labels: {kubernetes.io/hostname: %s}}
status:
  addresses: [{type: InternalIP, address: %s}]
  conditions: [{type: Ready, status: "True"}]
  daemonEndpoints: {kubeletEndpoint: {Port: %d}}
`, Node, Node, HostIP, port))
	k.resolve(t)
	k.serve(t, c)
	k.under.Go(k.follow)
	return k
}

// follow keeps to what the API server says, also after it was away.
func (k *Kubelet) follow() {
	for {
		version, err := k.list()
		for err == nil {
			version, err = k.watch(version)
		}
		if !pause(k.ctx, 50*time.Millisecond) {
			return
		}
	}
}

func (k *Kubelet) list() (version string, err error) {
	var all corev1.PodList
	if err := k.api.get(k.ctx, "/api/v1/pods", &all); err != nil {
		return "", err
	}
	there := map[string]bool{}
	for i := range all.Items {
		there[string(all.Items[i].UID)] = true
		k.take(&all.Items[i])
	}
	for uid, p := range k.all() {
		if !there[uid] {
			p.finish(leastGrace)
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for uid := range k.past {
		if !there[uid] {
			k.forget(uid)
		}
	}
	return all.ResourceVersion, nil
}

// watch returns when the API server ends it, with the version to go on from.
func (k *Kubelet) watch(version string) (string, error) {
	body, err := k.api.open(k.ctx, http.MethodGet, "/api/v1/pods?watch=true&allowWatchBookmarks=true&resourceVersion="+version, "", nil)
	if err != nil {
		return "", err
	}
	defer body.Close()
	for events := json.NewDecoder(body); ; {
		var e struct {
			Type   string
			Object *corev1.Pod
		}
		if err := events.Decode(&e); err != nil {
			return "", err
		}
		switch e.Type {
		case "ADDED", "MODIFIED":
			k.take(e.Object)
		case "DELETED":
			if p := k.all()[string(e.Object.UID)]; p != nil {
				p.finish(leastGrace)
			}
			k.mu.Lock()
			k.forget(string(e.Object.UID))
			k.mu.Unlock()
		case "ERROR":
			return "", errors.New("the watch is over")
		}
	}
}

// take carries out one version of a pod.
func (k *Kubelet) take(pod *corev1.Pod) {
	switch p := k.all()[string(pod.UID)]; {
	case p != nil:
		p.mu.Lock()
		p.object = pod
		p.mu.Unlock()
		if pod.DeletionTimestamp != nil {
			p.finish(time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second)
		}
	case pod.Spec.NodeName != "" && pod.Spec.NodeName != Node: // a test plays its kubelet
	case pod.DeletionTimestamp != nil:
		k.under.Go(func() { _ = k.remove(k.ctx, pod) }) // it comes up again where this failed
	case pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed:
	case pod.Spec.NodeName == "":
		k.under.Go(func() { k.bind(pod) })
	default:
		k.begin(pod)
	}
}

// bind gives a pod its node.
func (k *Kubelet) bind(pod *corev1.Pod) {
	at := "/api/v1/namespaces/" + pod.Namespace + "/pods/" + pod.Name + "/binding"
	to := corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: pod.Name, UID: pod.UID}}
	to.Target = corev1.ObjectReference{Kind: "Node", Name: Node}
	to.APIVersion, to.Kind = "v1", "Binding"
	for {
		if err := k.api.do(k.ctx, http.MethodPost, at, "application/json", to, nil); err == nil || errors.Is(err, errGone) {
			return
		}
		if !pause(k.ctx, eager) {
			return
		}
	}
}

// remove deletes the object of a pod that has no processes left.
func (k *Kubelet) remove(ctx context.Context, pod *corev1.Pod) error {
	now := int64(0)
	how := metav1.DeleteOptions{GracePeriodSeconds: &now, Preconditions: &metav1.Preconditions{UID: &pod.UID}}
	how.APIVersion, how.Kind = "v1", "DeleteOptions"
	return k.api.do(ctx, http.MethodDelete, "/api/v1/namespaces/"+pod.Namespace+"/pods/"+pod.Name, "application/json", how, nil)
}

// begin starts a pod's life.
func (k *Kubelet) begin(pod *corev1.Pod) {
	p := &Pod{
		k: k, namespace: pod.Namespace, name: pod.Name, uid: string(pod.UID), object: pod,
		dir:    filepath.Join(k.dir, pod.Namespace+"_"+pod.Name+"_"+string(pod.UID)[:8]),
		tokens: map[string]token{}, conditions: map[corev1.PodConditionType]corev1.PodCondition{}, begun: metav1.Now(),
		end: make(chan struct{}), gone: make(chan struct{}), news: make(chan struct{}, 1),
	}
	sysctls := map[string]string{}
	if s := pod.Spec.SecurityContext; s != nil {
		for _, one := range s.Sysctls {
			sysctls[one.Name] = one.Value
		}
	}
	var err error
	if p.net, p.ip, err = k.network.plug(k.t, sysctls); err == nil {
		err = p.files()
	}
	if err != nil {
		k.t.Errorf("start pod %s: %v", p.name, err)
		return
	}
	k.mu.Lock()
	k.pods[p.uid] = p
	k.mu.Unlock()
	k.under.Go(func() {
		p.live(k.ctx)
		k.mu.Lock()
		defer k.mu.Unlock()
		delete(k.pods, p.uid)
		if k.ctx.Err() == nil && p.latest().DeletionTimestamp == nil {
			k.past[p.uid] = p // its logs may be asked for
		} else {
			p.closeLogs()
		}
		if k.ctx.Err() == nil || p.IsReady() {
			delete(k.notes, p.namespace+"/"+p.name)
		}
		if !k.t.Failed() {
			_ = os.RemoveAll(filepath.Join(p.dir, "volumes")) // the test's folder goes anyway
		}
	})
}

func (k *Kubelet) all() map[string]*Pod {
	k.mu.Lock()
	defer k.mu.Unlock()
	out := make(map[string]*Pod, len(k.pods))
	for uid, p := range k.pods {
		out[uid] = p
	}
	return out
}

// note keeps the reason why a pod does not come up, for the log of a failed test.
func (k *Kubelet) note(p *Pod, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.notes[p.namespace+"/"+p.name] = err.Error()
}

// show logs the pods that did not start, and the last output of containers, if the test failed.
func (k *Kubelet) show() {
	if !k.t.Failed() {
		return
	}
	for pod, why := range k.notes {
		k.t.Logf("pod %s was not ready when the test ended: %s", pod, why)
	}
	logs, _ := filepath.Glob(filepath.Join(k.dir, "*", "*.log"))
	for _, file := range logs {
		if text, _ := os.ReadFile(file); len(text) > 0 {
			name, _ := filepath.Rel(k.dir, file)
			k.t.Logf("--- %s\n%s", name, text[max(0, len(text)-2000):])
		}
	}
}

// Pods are those of a namespace that run and have a label, in the order of their names.
func (k *Kubelet) Pods(namespace, label, value string) (out []*Pod) {
	for _, p := range k.all() {
		if p.namespace == namespace && p.latest().Labels[label] == value {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b *Pod) int { return compare(a.name, b.name) })
	return out
}

func compare(a, b string) int {
	if a < b {
		return -1
	}
	return 1
}

// Ready returns the pods of a namespace with a label once there are n of them that are to stay, and all are ready.
func (k *Kubelet) Ready(t testing.TB, namespace, label, value string, n int) (out []*Pod) {
	t.Helper()
	rig.Eventually(t, func() error {
		out = out[:0]
		for _, p := range k.Pods(namespace, label, value) {
			if p.latest().DeletionTimestamp != nil {
				continue
			}
			if !p.IsReady() {
				return fmt.Errorf("%s is not ready: %s", p.name, p.state())
			}
			out = append(out, p)
		}
		if len(out) != n {
			return fmt.Errorf("%d pods with %s=%s in %s, want %d", len(out), label, value, namespace, n)
		}
		return nil
	})
	return out
}

// IsReady tells whether the API server has the pod as ready.
func (p *Pod) IsReady() bool {
	return slices.ContainsFunc(p.latest().Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// Annotation is one of the pod's.
func (p *Pod) Annotation(key string) string { return p.latest().Annotations[key] }

// state describes in a line the state of each container.
func (p *Pod) state() (out string) {
	s := p.status()
	for _, c := range slices.Concat(s.InitContainerStatuses, s.ContainerStatuses) {
		out += fmt.Sprintf("%s ready=%t restarts=%d %v; ", c.Name, c.Ready, c.RestartCount, c.State)
	}
	p.k.mu.Lock()
	defer p.k.mu.Unlock()
	return out + p.k.notes[p.namespace+"/"+p.name]
}
