package gatewayapi

import (
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"fairway/internal/config"
	"fairway/internal/writes/work"
)

// task is the name under which reports and metrics list this task.
const task = "gateway status"

// Options of a Writer.
type Options struct {
	API     rest.Interface // asked by path
	Manager string         // of the fields that are written
	// Mine reports by an object's labels whether the object is for this control plane.
	Mine func(labels map[string]string) bool
	// Ours reports whether a controller that a status names is this control plane.
	Ours func(gatewayv1.GatewayController) bool
	// Leads reports whether this replica writes the statuses of objects that are for its revision only, or of all others.
	Leads func(revised bool) bool
	// Wanted returns what the status of an object should say.
	Wanted func(config.Key) Wanted
	Report *work.Report
}

// Wanted is what the status of an object should say. Its conditions have neither times nor generations.
type Wanted struct {
	Version config.Stored // that it says it of; zero: none is in force
	Revised bool          // the object is for one revision only, by its Gateway or its namespace
	Content
}

// Content is the part of a status that is written.
type Content struct {
	Conditions []metav1.Condition               `json:"conditions,omitempty"`
	Listeners  []gatewayv1.ListenerStatus       `json:"listeners,omitempty"`
	Parents    []gatewayv1.RouteParentStatus    `json:"parents,omitempty"`
	Ancestors  []gatewayv1.PolicyAncestorStatus `json:"ancestors,omitempty"`
	// Addresses of a Gateway, if it is Addressed; otherwise those that are there stay.
	Addressed bool                             `json:"-"`
	Addresses []gatewayv1.GatewayStatusAddress `json:"addresses,omitempty"`
	Sets      *int32                           `json:"attachedListenerSets,omitempty"` // of a Gateway; nil: none
	Features  []gatewayv1.SupportedFeature     `json:"supportedFeatures,omitempty"`    // of a GatewayClass
}

// standing is an object of an API server with the content of its status.
type standing struct {
	path         string // of the status
	uid, version string
	generation   int64
	route        bool // its status has a part for each parent: a route, or an InferencePool
	policy       bool // its status has a part for each ancestor
	revised      bool // it is for one revision only, by its own label
	is           Content
}

func (s standing) same(o standing) bool {
	return s.uid == o.uid && s.revised == o.revised && s.generation == o.generation && s.path == o.path &&
		equality.Semantic.DeepEqual(s.is, o.is)
}

// Writer writes statuses while Run runs. At other times it keeps what Observe passes to it, so that a new leader knows what to write.
type Writer struct {
	o     Options
	queue *work.Queue[config.Key]

	mu   sync.Mutex
	seen map[config.Key]standing
}

// settle is how long the queue waits before it writes a status: by then a new version has become a row, and proxies have acknowledged it.
const settle = 50 * time.Millisecond

// New returns a writer that knows no object.
func New(o Options) *Writer {
	w := &Writer{o: o, seen: map[config.Key]standing{}}
	w.queue = work.New(work.Options[config.Key]{
		Task: task, Name: config.Key.String, Do: w.write, All: w.all, Delay: settle, Report: o.Report,
	})
	return w
}

// Run writes until ctx ends.
func (w *Writer) Run(ctx context.Context) { w.queue.Run(ctx) }

func (w *Writer) all(add func(config.Key)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for k := range w.seen {
		add(k)
	}
}

// Observe takes the current state of an object in the API server; gone: it was deleted. Observe does not keep the object.
func (w *Writer) Observe(o *unstructured.Unstructured, gone bool) {
	kind, known := config.KindOf(o.GroupVersionKind().Group, o.GetKind())
	if !known || !hasStatus(kind) {
		return
	}
	k := config.Key{Kind: kind, Namespace: o.GetNamespace(), Name: o.GetName()}
	if gone || o.GetDeletionTimestamp() != nil || !w.o.Mine(o.GetLabels()) {
		w.forget(k)
		return
	}
	now := standing{
		path: work.StatusPath(o.GetAPIVersion(), o.GetKind(), o.GetNamespace(), o.GetName()),
		uid:  string(o.GetUID()), version: o.GetResourceVersion(), generation: o.GetGeneration(), route: routes(kind),
		policy: kind == config.BackendTLSPolicy,
	}
	_, now.revised = o.GetLabels()["istio.io/rev"]
	if status, _ := o.Object["status"].(map[string]any); status != nil {
		// An API server lets no other status in than one of the API's form. If one does, what cannot be read is written anew.
		_ = runtime.DefaultUnstructuredConverter.FromUnstructured(status, &now.is)
	}
	w.mu.Lock()
	before, known := w.seen[k]
	w.seen[k] = now
	w.mu.Unlock()
	if !known || !before.same(now) {
		w.queue.Add(k)
	}
}

// hasStatus reports whether the status of a kind is written.
func hasStatus(kind config.Kind) bool {
	switch kind {
	case config.GatewayClass, config.KubernetesGateway, config.ListenerSet, config.BackendTLSPolicy:
		return true
	}
	return routes(kind)
}

// routes reports whether the status of a kind has a part for each parent: a route, or an InferencePool, which has the same form of status.
func routes(kind config.Kind) bool {
	switch kind {
	case config.HTTPRoute, config.GRPCRoute, config.TLSRoute, config.TCPRoute, config.UDPRoute, config.InferencePool:
		return true
	}
	return false
}

func (w *Writer) forget(k config.Key) {
	w.queue.Forget(k)
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.seen, k)
}

// Changed is called when another version of an object may be in force, or when its status should say something else.
func (w *Writer) Changed(k config.Key) { w.queue.Add(k) }

// write patches the status of an object unless it is up to date.
func (w *Writer) write(ctx context.Context, k config.Key) error {
	w.mu.Lock()
	stands, known := w.seen[k]
	w.mu.Unlock()
	if !known {
		return nil
	}
	wanted := w.o.Wanted(k)
	if !w.o.Leads(stands.revised || wanted.Revised) {
		return nil
	}
	body, err := w.change(k.Kind, stands, wanted)
	if err != nil || body == nil {
		return err
	}
	gone, err := w.queue.Patch(ctx, k, work.Patch{
		API: w.o.API, Path: stands.path, Manager: w.o.Manager, Body: body, Says: wanted.Content, Generation: stands.generation,
	})
	if gone {
		w.forget(k)
	}
	return err
}

// change returns the patch that a status needs; nil: none.
func (w *Writer) change(kind config.Kind, stands standing, wanted Wanted) ([]byte, error) {
	if wanted.Version.UID != stands.uid {
		return nil, nil // its row is of another object, or still to come
	}
	now := metav1.NewTime(time.Now().Truncate(time.Second))
	next := stands.is
	switch {
	case stands.route:
		next.Parents = w.parents(stands.is.Parents, wanted.Parents, wanted.Version.Generation, now, mostParents)
	case stands.policy:
		next.Ancestors = ancestors(w.parents(
			parts(stands.is.Ancestors), parts(wanted.Ancestors), wanted.Version.Generation, now, mostAncestors))
	case len(wanted.Conditions) > 0:
		next.Conditions = merged(lapsed(stands.is.Conditions, wanted.Conditions), wanted.Conditions, wanted.Version.Generation, now)
		next.Listeners = listeners(stands.is.Listeners, wanted.Listeners, wanted.Version.Generation, now)
		next.Sets, next.Features = wanted.Sets, wanted.Features
		if wanted.Addressed {
			next.Addresses = wanted.Addresses
		}
	}
	if equality.Semantic.DeepEqual(next, stands.is) {
		return nil, nil
	}
	status := map[string]any{}
	switch {
	case stands.route:
		status["parents"] = append([]gatewayv1.RouteParentStatus{}, next.Parents...) // a list even if it is empty
	case stands.policy:
		status["ancestors"] = append([]gatewayv1.PolicyAncestorStatus{}, next.Ancestors...)
	default:
		status["conditions"] = next.Conditions
		if kind == config.GatewayClass {
			status["supportedFeatures"] = next.Features
		} else {
			status["listeners"] = append([]gatewayv1.ListenerStatus{}, next.Listeners...)
		}
		if kind == config.KubernetesGateway {
			status["attachedListenerSets"] = next.Sets // null removes it
			if wanted.Addressed {
				status["addresses"] = append([]gatewayv1.GatewayStatusAddress{}, next.Addresses...)
			}
		}
	}
	return work.StatusPatch(stands.version, stands.uid, status)
}

// merged returns conditions with the wanted ones in the place of those of their types. A status that says the same keeps its time.
func merged(is, wanted []metav1.Condition, generation int64, now metav1.Time) []metav1.Condition {
	out := slices.Clone(is)
	for _, c := range wanted {
		c.ObservedGeneration, c.LastTransitionTime = generation, now
		at := slices.IndexFunc(out, func(o metav1.Condition) bool { return o.Type == c.Type })
		switch {
		case at < 0:
			out = append(out, c)
			continue
		case out[at].Status == c.Status && !out[at].LastTransitionTime.IsZero():
			c.LastTransitionTime = out[at].LastTransitionTime
		}
		out[at] = c
	}
	return out
}

// listeners returns the wanted listeners with the times of those that are there.
func listeners(is, wanted []gatewayv1.ListenerStatus, generation int64, now metav1.Time) []gatewayv1.ListenerStatus {
	out := slices.Clone(wanted)
	for i, l := range out {
		at := slices.IndexFunc(is, func(o gatewayv1.ListenerStatus) bool { return o.Name == l.Name })
		var before []metav1.Condition
		if at >= 0 {
			before = is[at].Conditions
		}
		out[i].Conditions = merged(before, l.Conditions, generation, now)
	}
	return out
}

// These are how many parents and ancestors the API lets a status have.
const (
	mostParents   = 32
	mostAncestors = 16
)

// parts returns the parts of a policy's status in the form of those of a route's.
func parts(all []gatewayv1.PolicyAncestorStatus) (out []gatewayv1.RouteParentStatus) {
	for _, a := range all {
		out = append(out, gatewayv1.RouteParentStatus{
			ParentRef: a.AncestorRef, ControllerName: a.ControllerName, Conditions: a.Conditions,
		})
	}
	return out
}

// ancestors is the reverse of parts.
func ancestors(all []gatewayv1.RouteParentStatus) (out []gatewayv1.PolicyAncestorStatus) {
	for _, p := range all {
		out = append(out, gatewayv1.PolicyAncestorStatus{
			AncestorRef: p.ParentRef, ControllerName: p.ControllerName, Conditions: p.Conditions,
		})
	}
	return out
}

// parents returns the parts of a route's status, at most so many: those of other controllers as they are, and ours as wanted.
func (w *Writer) parents(
	is, wanted []gatewayv1.RouteParentStatus, generation int64, now metav1.Time, most int,
) (out []gatewayv1.RouteParentStatus) {
	rest := slices.Clone(wanted)
	for _, p := range is {
		if !w.o.Ours(p.ControllerName) {
			out = append(out, p)
			continue
		}
		at := slices.IndexFunc(rest, func(o gatewayv1.RouteParentStatus) bool {
			return o.ControllerName == p.ControllerName && equality.Semantic.DeepEqual(o.ParentRef, p.ParentRef)
		})
		if at < 0 {
			continue // it is not bound there any more
		}
		p.Conditions = only(merged(p.Conditions, rest[at].Conditions, generation, now), rest[at].Conditions)
		out = append(out, p)
		rest = slices.Delete(rest, at, at+1)
	}
	for _, p := range rest {
		p.Conditions = merged(nil, p.Conditions, generation, now)
		out = append(out, p)
	}
	return out[:min(len(out), most)]
}

// lapsed leaves out conditions that are not wanted, of the types that a status does not have when there is nothing to say.
func lapsed(is, wanted []metav1.Condition) []metav1.Condition {
	return slices.DeleteFunc(slices.Clone(is), func(c metav1.Condition) bool {
		return (c.Type == string(gatewayv1.GatewayConditionInsecureFrontendValidationMode) ||
			c.Type == string(gatewayv1.GatewayConditionResolvedRefs)) && meta.FindStatusCondition(wanted, c.Type) == nil
	})
}

// only leaves out conditions of types that are not wanted: the part is this control plane's alone.
func only(all, wanted []metav1.Condition) []metav1.Condition {
	return slices.DeleteFunc(all, func(c metav1.Condition) bool {
		return !slices.ContainsFunc(wanted, func(o metav1.Condition) bool { return o.Type == c.Type })
	})
}
