package gateways

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"fairway/internal/config"
	"fairway/internal/writes/follow"
	"fairway/internal/writes/work"
)

// task is the name under which reports and metrics list this task.
const task = "gateway deployment"

// Options of a Writer.
type Options struct {
	API      rest.Interface // asked by path
	Client   dynamic.Interface
	Manager  string // of the fields that are written
	Revision string // of this control plane
	// Leads reports whether this replica deploys Gateways that are for its revision only, or all others.
	Leads func(revised bool) bool
	// Wanted returns the objects that a Gateway should have.
	Wanted func(config.Key) Wanted
	// All calls add with every Gateway.
	All func(add func(config.Key))
	// Taken takes why a Gateway cannot be deployed: an object of another owner has its name, or the API server refuses one; empty: it can.
	Taken  func(k config.Key, why string)
	Report *work.Report
}

// Wanted are the objects that a Gateway should have.
type Wanted struct {
	UID         string // of the Gateway in the API server; empty: it has none
	*Deployment        // nil: its objects stay as they are
}

// kinds are those of the objects, in the order in which they are made.
func kinds() map[string]schema.GroupVersionResource {
	return map[string]schema.GroupVersionResource{
		"ServiceAccount": {Version: "v1", Resource: "serviceaccounts"},
		"Service":        {Version: "v1", Resource: "services"},
		"Deployment":     {Group: "apps", Version: "v1", Resource: "deployments"},
		autoscaler:       {Group: "autoscaling", Version: "v2", Resource: "horizontalpodautoscalers"},
		budget:           {Group: "policy", Version: "v1", Resource: "poddisruptionbudgets"},
	}
}

// part is an object of a Gateway.
type part struct {
	gateway config.Key
	kind    string
}

func (p part) String() string {
	return fmt.Sprintf("%s of Gateway %s/%s", p.kind, p.gateway.Namespace, p.gateway.Name)
}

// object names an object in the API server.
type object struct{ kind, namespace, name string }

// standing is an object as the API server has it.
type standing struct {
	uid   types.UID
	owner *metav1.OwnerReference // nil: no Gateway
	tree  map[string]any         // without status and managed fields
	ready bool                   // a Deployment has the pods that it wants
	open  bool                   // a Service of a load balancer has an address
}

// Writer deploys Gateways while Run runs.
type Writer struct {
	o         Options
	queue     *work.Queue[part]
	templates map[string]map[string]any
	followers map[string]*follow.Follower[standing] // by kind; set once
	needed    chan struct{}                         // closed once a Gateway is to be deployed
	once      sync.Once                             // closes it

	mu     sync.Mutex
	owners map[object]config.Key
	names  map[part]map[string]bool // the objects of a Gateway that are known, by name
	taken  map[config.Key]map[string]string
}

// settle is how long the queue waits before it writes: changes in quick succession are written at once.
const settle = 20 * time.Millisecond

// New returns a writer that follows nothing yet.
func New(o Options) (*Writer, error) {
	w := &Writer{
		o: o, owners: map[object]config.Key{}, names: map[part]map[string]bool{}, taken: map[config.Key]map[string]string{},
		followers: map[string]*follow.Follower[standing]{}, needed: make(chan struct{}),
	}
	var err error
	if w.templates, err = templates(); err != nil {
		return nil, err
	}
	w.queue = work.New(work.Options[part]{
		Task: task, Name: part.String, Do: w.write, Delay: settle, Report: o.Report,
		All: func(add func(part)) { o.All(func(k config.Key) { each(k, add) }) },
	})
	for kind, of := range kinds() {
		w.followers[kind] = w.follower(kind, of)
	}
	return w, nil
}

func each(k config.Key, add func(part)) {
	for kind := range kinds() {
		add(part{k, kind})
	}
}

// Changed is called when a Gateway should have other objects.
func (w *Writer) Changed(k config.Key) {
	w.need(k)
	each(k, w.queue.Add)
}

// need wakes Run if a Gateway is to be deployed.
func (w *Writer) need(k config.Key) {
	select {
	case <-w.needed:
		return
	default:
	}
	if wanted := w.o.Wanted(k); wanted.UID != "" && wanted.Deployment != nil && !wanted.Unwanted {
		w.once.Do(func() { close(w.needed) })
	}
}

// Run writes until ctx ends. It asks the API server for nothing before a Gateway is to be deployed: others need not give the rights.
func (w *Writer) Run(ctx context.Context) {
	w.o.All(w.need)
	select {
	case <-w.needed:
	case <-ctx.Done():
		return
	}
	var running sync.WaitGroup
	for _, f := range w.followers {
		running.Go(func() { f.Run(ctx) })
	}
	w.queue.Run(ctx)
	running.Wait()
}

// follower follows the objects of a kind that have the label of gateways.
func (w *Writer) follower(kind string, of schema.GroupVersionResource) *follow.Follower[standing] {
	all := w.o.Client.Resource(of)
	return follow.New(follow.Options[standing]{
		Task: task, Kind: kind + "s of gateways", Object: &unstructured.Unstructured{}, Report: w.o.Report,
		Select: metav1.ListOptions{LabelSelector: gatewayName},
		List:   func(ctx context.Context, by metav1.ListOptions) (runtime.Object, error) { return all.List(ctx, by) },
		Watch:  func(ctx context.Context, by metav1.ListOptions) (watch.Interface, error) { return all.Watch(ctx, by) },
		Keep: func(o runtime.Object) standing {
			s := standingOf(o.(*unstructured.Unstructured))
			w.note(kind, o.(*unstructured.Unstructured), s)
			return s
		},
		Changed: func(namespace, name string) { w.changed(object{kind, namespace, name}) },
	})
}

func standingOf(o *unstructured.Unstructured) standing {
	s := standing{uid: o.GetUID(), tree: map[string]any{}}
	for _, ref := range o.GetOwnerReferences() {
		if ref.Kind == "Gateway" && strings.HasPrefix(ref.APIVersion, "gateway.networking.k8s.io/") {
			s.owner = &ref
			break
		}
	}
	s.ready, s.open = available(o), len(ingress(o)) > 0
	for field, v := range o.Object {
		if field != "status" {
			s.tree[field] = v
		}
	}
	unstructured.RemoveNestedField(s.tree, "metadata", "managedFields")
	return s
}

// note remembers the Gateway of an object, so that it is known when the object is gone.
func (w *Writer) note(kind string, o *unstructured.Unstructured, s standing) {
	if s.owner == nil {
		return
	}
	k := config.Key{Kind: config.KubernetesGateway, Namespace: o.GetNamespace(), Name: s.owner.Name}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.owners[object{kind, o.GetNamespace(), o.GetName()}] = k
	p := part{k, kind}
	if w.names[p] == nil {
		w.names[p] = map[string]bool{}
	}
	w.names[p][o.GetName()] = true
}

// changed queues the parts of the Gateway that owns an object.
func (w *Writer) changed(o object) {
	_, there := w.followers[o.kind].Get(o.namespace, o.name)
	w.mu.Lock()
	k, owned := w.owners[o]
	if owned && !there {
		delete(w.owners, o)
		p := part{k, o.kind}
		if delete(w.names[p], o.name); len(w.names[p]) == 0 {
			delete(w.names, p)
		}
	}
	w.mu.Unlock()
	if owned {
		each(k, w.queue.Add) // a Deployment waits for its ServiceAccount
	}
}

// write brings one object of a Gateway up to date, and deletes those that it had under other names.
func (w *Writer) write(ctx context.Context, p part) error {
	for _, f := range w.followers {
		if !f.Synced() {
			return work.ErrWait
		}
	}
	wanted := w.o.Wanted(p.gateway)
	if wanted.UID == "" || wanted.Deployment == nil || !w.o.Leads(wanted.Revised) {
		w.take(p, "")
		return nil // the cluster deletes what a deleted Gateway had
	}
	if wanted.wants(p.kind) {
		if err := w.apply(ctx, p, wanted); err != nil {
			return err
		}
	}
	w.take(p, "")
	w.mu.Lock()
	names := slices.Collect(maps.Keys(w.names[p]))
	w.mu.Unlock()
	for _, name := range names {
		switch {
		case wanted.wants(p.kind) && name == wanted.Name:
			continue
		case !wanted.Unwanted && name != wanted.Name && !w.replaced(p.gateway.Namespace, name, wanted.Name):
			return work.ErrWait
		}
		if err := w.remove(ctx, p, name, wanted.UID); err != nil {
			return err
		}
	}
	return nil
}

// replaced reports whether the objects of one name do what those of an earlier name do: the Deployment has its pods, and the Service an
// address if the earlier one has one.
func (w *Writer) replaced(namespace, earlier, name string) bool {
	pods, _ := w.followers["Deployment"].Get(namespace, name)
	now, _ := w.followers["Service"].Get(namespace, name)
	before, _ := w.followers["Service"].Get(namespace, earlier)
	return pods.ready && (now.open || !before.open)
}

// available reports whether a Deployment has the pods that its newest generation wants.
func available(o *unstructured.Unstructured) bool {
	seen, _, _ := unstructured.NestedInt64(o.Object, "status", "observedGeneration")
	all, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	return seen >= o.GetGeneration() && slices.ContainsFunc(all, func(c any) bool {
		is, _ := c.(map[string]any)
		return is["type"] == "Available" && is["status"] == "True"
	})
}

// ingress returns the addresses of a Service's load balancer.
func ingress(o *unstructured.Unstructured) []any {
	all, _, _ := unstructured.NestedSlice(o.Object, "status", "loadBalancer", "ingress")
	return all
}

// apply applies an object unless it is as wanted.
func (w *Writer) apply(ctx context.Context, p part, wanted Wanted) error {
	o, err := w.render(p.kind, p.gateway, wanted.UID, wanted.Deployment)
	if err != nil {
		w.take(p, err.Error())
		return err
	}
	if p.kind == "Deployment" {
		if _, there := w.followers["ServiceAccount"].Get(o.GetNamespace(), o.GetName()); !there {
			return work.ErrWait // pods are refused without it
		}
	}
	is, there := w.followers[p.kind].Get(o.GetNamespace(), o.GetName())
	if !there {
		if is, there, err = w.find(ctx, p.kind, o); err != nil {
			return err
		}
	}
	if there {
		if err := w.ours(p, is, wanted.UID, o.GetName()); err != nil || contains(is.tree, o.Object) {
			return err
		}
		o.SetUID(is.uid)
	}
	body, err := json.Marshal(o.Object)
	if err != nil {
		return err
	}
	_, err = w.queue.Patch(ctx, p, work.Patch{
		API: w.o.API, Path: pathOf(p.kind, o.GetNamespace(), o.GetName()), Manager: w.o.Manager, Body: body, Says: o.GetAnnotations(),
		Apply: true, Force: there,
	})
	if apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) {
		w.take(p, fmt.Sprintf("the API server refuses %s %s: %s", p.kind, o.GetName(), err))
	}
	return err
}

// errTaken says that an object is another owner's.
var errTaken = errors.New("another owner has it")

// ours returns an error unless an object belongs to a Gateway.
func (w *Writer) ours(p part, is standing, uid, name string) error {
	switch {
	case is.owner != nil && string(is.owner.UID) == uid:
		return nil
	case is.owner != nil && is.owner.Name == p.gateway.Name:
		return work.ErrWait // it was an earlier Gateway's: the cluster deletes it
	}
	whose := "which no Gateway owns"
	if is.owner != nil {
		whose = "which Gateway " + is.owner.Name + " owns"
	}
	why := fmt.Sprintf("there is a %s %s already, %s: it is left as it is; rename one", p.kind, name, whose)
	w.take(p, why)
	return fmt.Errorf("%w: %s", errTaken, why)
}

// take reports why a part of a Gateway cannot be made; empty: it can.
func (w *Writer) take(p part, why string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.taken[p.gateway]
	if all[p.kind] == why {
		return
	}
	if all == nil {
		all = map[string]string{}
		w.taken[p.gateway] = all
	}
	if all[p.kind] = why; why == "" {
		delete(all, p.kind)
	}
	if len(all) == 0 {
		delete(w.taken, p.gateway)
	}
	text := ""
	for _, kind := range slices.Sorted(maps.Keys(all)) {
		text = all[kind]
		break
	}
	w.o.Taken(p.gateway, text)
}

// find asks the API server for an object that has no label of gateways.
func (w *Writer) find(ctx context.Context, kind string, o *unstructured.Unstructured) (is standing, there bool, err error) {
	if err := w.queue.Pace(ctx); err != nil {
		return is, false, err
	}
	got, err := w.o.Client.Resource(kinds()[kind]).Namespace(o.GetNamespace()).Get(ctx, o.GetName(), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return is, false, nil
	case err != nil:
		return is, false, err
	}
	return standingOf(got), true, nil
}

// remove deletes an object that this control plane, or one like it, made for a Gateway.
func (w *Writer) remove(ctx context.Context, p part, name, uid string) error {
	is, there := w.followers[p.kind].Get(p.gateway.Namespace, name)
	if !there || is.owner == nil || string(is.owner.UID) != uid {
		return nil
	}
	if mark, _, _ := unstructured.NestedString(is.tree, "metadata", "annotations", appliedMark); mark == "" {
		return nil // another controller made it
	}
	if err := w.queue.Pace(ctx); err != nil {
		return err
	}
	err := w.o.Client.Resource(kinds()[p.kind]).Namespace(p.gateway.Namespace).Delete(ctx, name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &is.uid}, PropagationPolicy: new(metav1.DeletePropagationBackground),
	})
	switch {
	case err == nil:
		w.o.Report.Wrote(task)
	case apierrors.IsNotFound(err), apierrors.IsConflict(err): // its watch event follows
		return nil
	}
	return err
}

func uidOf(uid string) types.UID { return types.UID(uid) }

// pathOf returns the API server's path of an object.
func pathOf(kind, namespace, name string) string {
	of := kinds()[kind]
	root := "/api/" + of.Version
	if of.Group != "" {
		root = "/apis/" + of.Group + "/" + of.Version
	}
	return root + "/namespaces/" + namespace + "/" + of.Resource + "/" + name
}
