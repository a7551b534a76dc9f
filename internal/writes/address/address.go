package address

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"fairway/internal/kubeclient"
	"fairway/internal/writes/work"
)

// task is the name under which reports and metrics list this task.
const task = "ingress"

// Options of a Writer.
type Options struct {
	API       rest.Interface // asked by path
	Client    *kubeclient.Clients
	Manager   string // of the fields that are written
	Namespace string // of the gateways' Service
	Report    *work.Report
}

// Name of an Ingress.
type Name struct{ Namespace, Name string }

func (n Name) String() string { return "Ingress " + n.Namespace + "/" + n.Name }

// Gateways describe the gateways that serve Ingresses.
type Gateways struct {
	Service  string // MeshConfig.ingressService; empty: they have none
	Selector string // their label istio (MeshConfig.ingressSelector)
}

// point is one address: the IP or the host name.
type point struct {
	IP       string `json:"ip,omitempty"`
	Hostname string `json:"hostname,omitempty"`
}

// ingressState is an Ingress with the addresses in its status.
type ingressState struct {
	version, uid string
	points       []point
	written      bool // by this control plane, or one like it
}

func (s ingressState) same(o ingressState) bool {
	return s.uid == o.uid && s.written == o.written && slices.Equal(s.points, o.points)
}

// Writer writes addresses while Run runs. It also keeps what Observe, Ours and By pass to it at other times.
type Writer struct {
	o     Options
	queue *work.Queue[Name]
	by    *work.Setting[Gateways]

	mu        sync.Mutex
	ingresses map[Name]ingressState
	ours      map[Name]struct{}
	points    []point // of the gateways
	known     bool    // points are known
}

// settle is how long the queue waits before it writes a status: Ours may be called after Observe.
const settle = 300 * time.Millisecond

// New returns a writer that knows no Ingress.
func New(o Options) *Writer {
	w := &Writer{o: o, ingresses: map[Name]ingressState{}, ours: map[Name]struct{}{}}
	w.by = work.NewSetting(func(a, b Gateways) bool { return a == b })
	w.queue = work.New(work.Options[Name]{
		Task: task, Name: Name.String, Do: w.write, All: w.all, Delay: settle, Report: o.Report,
	})
	return w
}

// Observe takes the current state of an Ingress in the API server; gone: it was deleted. Observe does not keep the object.
func (w *Writer) Observe(o *unstructured.Unstructured, gone bool) {
	n := Name{o.GetNamespace(), o.GetName()}
	w.mu.Lock()
	defer w.mu.Unlock()
	if gone || o.GetDeletionTimestamp() != nil {
		w.queue.Forget(n)
		delete(w.ingresses, n)
		return
	}
	now := ingressState{version: o.GetResourceVersion(), uid: string(o.GetUID()), written: w.writtenHere(o)}
	list, _, _ := unstructured.NestedSlice(o.Object, "status", "loadBalancer", "ingress")
	for _, p := range list {
		tree, _ := p.(map[string]any)
		ip, _ := tree["ip"].(string)
		host, _ := tree["hostname"].(string)
		now.points = append(now.points, point{ip, host})
	}
	before, known := w.ingresses[n]
	w.ingresses[n] = now
	if !known || !before.same(now) {
		w.queue.Add(n)
	}
}

// writtenHere reports whether a control plane like this one wrote the addresses: the API server knows the manager of each field.
func (w *Writer) writtenHere(o *unstructured.Unstructured) bool {
	return slices.ContainsFunc(o.GetManagedFields(), func(m metav1.ManagedFieldsEntry) bool {
		return m.Manager == w.o.Manager && m.Subresource == "status" && m.FieldsV1 != nil &&
			strings.Contains(m.FieldsV1.GetRawString(), `"f:ingress"`)
	})
}

// Ours sets whether gateways of this control plane serve an Ingress.
func (w *Writer) Ours(n Name, is bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if is {
		w.ours[n] = struct{}{}
	} else {
		delete(w.ours, n)
	}
	w.queue.Add(n)
}

// By sets the gateways that serve Ingresses.
func (w *Writer) By(g Gateways) { w.by.Set(g) }

// Run writes until ctx ends.
func (w *Writer) Run(ctx context.Context) {
	var running sync.WaitGroup
	running.Go(func() { w.follow(ctx) })
	w.queue.Run(ctx)
	running.Wait()
}

func (w *Writer) all(add func(Name)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for n := range w.ingresses {
		add(n)
	}
}

// reached sets the addresses of the gateways.
func (w *Writer) reached(points []point) {
	w.mu.Lock()
	same := w.known && slices.Equal(points, w.points)
	w.points, w.known = points, true
	w.mu.Unlock()
	if !same {
		w.all(w.queue.Add)
	}
}

// write patches the status of one Ingress unless it is up to date.
func (w *Writer) write(ctx context.Context, n Name) error {
	stands, want, err := w.wants(n)
	if err != nil || slices.Equal(stands.points, want) {
		return err
	}
	if want == nil {
		want = []point{}
	}
	body, err := work.StatusPatch(stands.version, stands.uid, map[string]any{"loadBalancer": map[string]any{"ingress": want}})
	if err != nil {
		return err
	}
	_, err = w.queue.Patch(ctx, n, work.Patch{
		API: w.o.API, Path: work.StatusPath("networking.k8s.io/v1", "Ingress", n.Namespace, n.Name),
		Manager: w.o.Manager, Body: body, Says: want,
	})
	return err
}

// wants returns the last known state of an Ingress, and the addresses that it should have.
func (w *Writer) wants(n Name) (ingressState, []point, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	stands, known := w.ingresses[n]
	_, ours := w.ours[n]
	switch {
	case !known, !ours && !stands.written: // another controller writes this status
		return stands, stands.points, nil
	case !ours:
		return stands, nil, nil
	case !w.known:
		return stands, nil, work.ErrWait
	}
	return stands, w.points, nil
}
