package roots

import (
	"context"
	"encoding/json"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"

	"fairway/internal/config"
	"fairway/internal/kubeclient"
	"fairway/internal/writes/follow"
	"fairway/internal/writes/work"
)

// The ConfigMap, as agents and Istio's charts know it.
const (
	name  = "istio-ca-root-cert"
	key   = "root-cert.pem"
	label = "istio.io/config"
)

// task is the name under which reports and metrics list this task.
const task = "roots"

// Options of a Writer.
type Options struct {
	Client   *kubeclient.Clients
	Metadata metadata.Interface
	Manager  string        // of the fields that are written
	Roots    func() []byte // in PEM
	Changed  func() <-chan struct{}
	Report   *work.Report
}

// Writer writes the ConfigMaps while it runs.
type Writer struct {
	o          Options
	queue      *work.Queue[string]
	namespaces *follow.Follower[namespace]
	configMaps *follow.Follower[content]
	discovery  *work.Setting[*config.Discovery]
}

// namespace is the kept part of a Namespace.
type namespace struct {
	going  bool
	labels map[string]string
}

// content holds the fields of a ConfigMap that this task writes.
type content struct{ roots, labelled string }

// ignored are the namespaces that are not a part of a mesh.
func ignored() []string {
	return []string{"kube-system", "kube-public", "kube-node-lease", "local-path-storage"}
}

// New returns a writer that follows nothing yet.
func New(o Options) *Writer {
	w := &Writer{o: o, discovery: work.NewSetting((*config.Discovery).Equal)}
	w.queue = work.New(work.Options[string]{
		Task: task, Name: func(namespace string) string { return "ConfigMap " + namespace + "/" + name },
		Do: w.write, All: w.all, Report: o.Report,
	})
	return w
}

// Run writes until ctx ends.
func (w *Writer) Run(ctx context.Context) {
	all := w.o.Metadata.Resource(corev1.SchemeGroupVersion.WithResource("namespaces"))
	w.namespaces = follow.New(follow.Options[namespace]{
		Task: task, Kind: "Namespaces", Object: &metav1.PartialObjectMetadata{}, Report: w.o.Report,
		List: func(ctx context.Context, by metav1.ListOptions) (runtime.Object, error) { return all.List(ctx, by) },
		Watch: func(ctx context.Context, by metav1.ListOptions) (watch.Interface, error) {
			return all.Watch(ctx, by)
		},
		Keep: func(o runtime.Object) namespace {
			about := o.(*metav1.PartialObjectMetadata)
			return namespace{about.DeletionTimestamp != nil, about.Labels}
		},
		Changed: func(_, namespace string) { w.queue.Add(namespace) },
	})
	maps := w.o.Client.ConfigMaps(metav1.NamespaceAll)
	w.configMaps = follow.New(follow.Options[content]{
		Task: task, Kind: "ConfigMaps " + name, Object: &corev1.ConfigMap{}, Report: w.o.Report,
		Select: metav1.ListOptions{FieldSelector: "metadata.name=" + name},
		List:   func(ctx context.Context, by metav1.ListOptions) (runtime.Object, error) { return maps.List(ctx, by) },
		Watch:  maps.Watch,
		Keep: func(o runtime.Object) content {
			m := o.(*corev1.ConfigMap)
			return content{m.Data[key], m.Labels[label]}
		},
		Changed: func(namespace, _ string) { w.queue.Add(namespace) },
	})
	var running sync.WaitGroup
	running.Go(func() { w.namespaces.Run(ctx) })
	running.Go(func() { w.configMaps.Run(ctx) })
	running.Go(func() { w.queue.AddAllWhen(ctx, w.o.Changed) }) // the roots have changed
	running.Go(func() { w.queue.AddAllWhen(ctx, w.discovery.Changed) })
	w.queue.Run(ctx)
	running.Wait()
}

// Discover sets which namespaces get the ConfigMap. Those that have it already keep it.
func (w *Writer) Discover(by *config.Discovery) { w.discovery.Set(by) }

func (w *Writer) sees(name string, of namespace) bool {
	return w.discovery.Value().Sees(name, of.labels) && !slices.Contains(ignored(), name)
}

func (w *Writer) all(add func(string)) {
	w.namespaces.Each(func(_, name string, _ namespace) { add(name) })
}

// write brings the ConfigMap of one namespace up to date.
func (w *Writer) write(ctx context.Context, namespace string) error {
	if !w.namespaces.Synced() || !w.configMaps.Synced() {
		return work.ErrWait
	}
	of, there := w.namespaces.Get("", namespace)
	if !there || of.going || !w.sees(namespace, of) {
		return nil
	}
	want := content{string(w.o.Roots()), "true"}
	if want.roots == "" { // they are not known yet
		return nil
	}
	is, there := w.configMaps.Get(namespace, name)
	if there && is == want {
		return nil
	}
	if err := w.queue.Pace(ctx); err != nil {
		return err
	}
	err := w.put(ctx, namespace, want, there)
	switch {
	case err == nil:
		w.o.Report.Wrote(task)
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return nil
	case there && apierrors.IsNotFound(err), apierrors.IsAlreadyExists(err): // its watch event follows
		return work.ErrWait
	}
	return err
}

func (w *Writer) put(ctx context.Context, namespace string, want content, there bool) error {
	maps := w.o.Client.ConfigMaps(namespace)
	labels, data := map[string]string{label: want.labelled}, map[string]string{key: want.roots}
	if !there {
		_, err := maps.Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Data: data,
		}, metav1.CreateOptions{FieldManager: w.o.Manager})
		return err
	}
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": labels}, "data": data})
	if err != nil {
		return err
	}
	_, err = maps.Patch(ctx, name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: w.o.Manager})
	return err
}
