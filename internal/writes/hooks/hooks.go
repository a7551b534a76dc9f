package hooks

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"fairway/internal/kubeclient"
	"fairway/internal/webhook/place"
	"fairway/internal/writes/follow"
	"fairway/internal/writes/work"
)

// task is the name under which reports and metrics list this task.
const task = "webhooks"

// revisionLabel names the revision of the control plane that a configuration leads to.
const revisionLabel = "istio.io/rev"

// Options of a Writer.
type Options struct {
	Client    *kubeclient.Clients
	API       rest.Interface // asked by path
	Manager   string         // of the fields that are written
	Namespace string         // of the control plane
	Revision  string
	// Bundle returns the roots with which API servers verify the webhooks, in PEM; an error: these roots do not verify them.
	Bundle  func() ([]byte, error)
	Changed []func() <-chan struct{} // closed when Bundle gives others
	Report  *work.Report
	Metrics prometheus.Registerer
}

// Writer keeps the configurations up to date while Run runs.
type Writer struct {
	o                    Options
	queue                *work.Queue[named]
	mutating, validating *follow.Follower[[]hook]
	keys                 keyring
	meter                *meter
}

// named is one configuration.
type named struct {
	validates bool
	name      string
}

func (n named) String() string {
	if n.validates {
		return "ValidatingWebhookConfiguration " + n.name
	}
	return "MutatingWebhookConfiguration " + n.name
}

// hook holds the fields of one webhook that this task may change.
type hook struct {
	name    string
	bundle  []byte
	lenient bool   // its failurePolicy is Ignore
	path    string // of the webhook, below its Service or in its URL
	url     string // empty: it is called by its Service
}

// key returns the key that API servers show to this webhook. ok is false if it injects no pods, so that it needs none.
func (h hook) key() (key string, ok bool) {
	at, ok := place.Parse(h.path)
	if !place.IsKey(at.Key) {
		return "", ok
	}
	return at.Key, ok
}

// prefixes are the beginnings of the names of configurations that Istio's charts make with webhooks of one kind.
func prefixes(validates bool) []string {
	if validates {
		return []string{"istio-validator", "istiod-default-validator"}
	}
	return []string{"istio-sidecar-injector", "istio-revision-tag"}
}

// ours reports whether a configuration has a name that Istio's charts give.
func ours(name string, validates bool) bool {
	return slices.ContainsFunc(prefixes(validates), func(p string) bool { return strings.HasPrefix(name, p) })
}

// New returns a writer that follows nothing yet.
func New(o Options) *Writer {
	w := &Writer{o: o, keys: keyring{}, meter: newMeter(o.Metrics)}
	w.queue = work.New(work.Options[named]{Task: task, Name: named.String, Do: w.write, All: w.all, Report: o.Report})
	return w
}

// Run keeps the configurations up to date until ctx ends.
func (w *Writer) Run(ctx context.Context) {
	by := metav1.ListOptions{LabelSelector: revisionLabel + "=" + w.o.Revision}
	validating := w.o.Client.ValidatingWebhooks()
	w.mutating = follow.New(mutating(w.o, w.o.Client.MutatingWebhooks().List, func(_, name string) {
		w.queue.Add(named{false, name})
	}))
	w.validating = follow.New(follow.Options[[]hook]{
		Task: task, Kind: "ValidatingWebhookConfigurations", Object: &admissionv1.ValidatingWebhookConfiguration{}, Select: by,
		List: func(ctx context.Context, by metav1.ListOptions) (runtime.Object, error) {
			return validating.List(ctx, by)
		},
		Watch: validating.Watch,
		Keep: func(o runtime.Object) (out []hook) {
			for _, h := range o.(*admissionv1.ValidatingWebhookConfiguration).Webhooks {
				out = append(out, hookOf(h.Name, h.ClientConfig, h.FailurePolicy))
			}
			return out
		},
		Changed: func(_, name string) { w.queue.Add(named{true, name}) },
		Report:  w.o.Report,
	})
	var running sync.WaitGroup
	running.Go(func() { w.mutating.Run(ctx) })
	running.Go(func() { w.validating.Run(ctx) })
	for _, changed := range w.o.Changed {
		running.Go(func() { w.queue.AddAllWhen(ctx, changed) })
	}
	w.queue.Run(ctx)
	running.Wait()
}

// mutating returns how the configurations of injection are followed.
func mutating(
	o Options,
	list func(context.Context, metav1.ListOptions) (*admissionv1.MutatingWebhookConfigurationList, error),
	changed func(namespace, name string),
) follow.Options[[]hook] {
	return follow.Options[[]hook]{
		Task: task, Kind: "MutatingWebhookConfigurations", Object: &admissionv1.MutatingWebhookConfiguration{},
		Select: metav1.ListOptions{LabelSelector: revisionLabel + "=" + o.Revision},
		List:   func(ctx context.Context, by metav1.ListOptions) (runtime.Object, error) { return list(ctx, by) },
		Watch:  o.Client.MutatingWebhooks().Watch,
		Keep: func(o runtime.Object) (out []hook) {
			for _, h := range o.(*admissionv1.MutatingWebhookConfiguration).Webhooks {
				out = append(out, hookOf(h.Name, h.ClientConfig, h.FailurePolicy))
			}
			return out
		},
		Changed: changed,
		Report:  o.Report,
	}
}

func hookOf(name string, c admissionv1.WebhookClientConfig, p *admissionv1.FailurePolicyType) hook {
	h := hook{name: name, bundle: c.CABundle, lenient: p != nil && *p == admissionv1.Ignore}
	switch {
	case c.URL != nil:
		h.url, h.path = *c.URL, place.OfURL(*c.URL)
	case c.Service != nil && c.Service.Path != nil:
		h.path = *c.Service.Path
	}
	return h
}

func (w *Writer) all(add func(named)) {
	w.mutating.Each(func(_, name string, _ []hook) { add(named{false, name}) })
	w.validating.Each(func(_, name string, _ []hook) { add(named{true, name}) })
}

// write brings one configuration up to date.
func (w *Writer) write(ctx context.Context, n named) error {
	if !ours(n.name, n.validates) {
		return nil
	}
	of := w.mutating
	if n.validates {
		of = w.validating
	}
	all, there := of.Get("", n.name)
	if !there {
		if !n.validates {
			delete(w.keys, n.name)
		}
		return nil
	}
	bundle, unknown := w.o.Bundle()
	clients := make([]client, len(all))
	for i, h := range all {
		if unknown == nil && !bytes.Equal(h.bundle, bundle) {
			clients[i].Bundle = bundle
		}
	}
	late := unknown
	if !n.validates {
		late = errors.Join(unknown, w.keys.fill(n.name, all, clients))
	}
	var wrong []patched
	for i, h := range all {
		if c := clients[i]; c.Bundle != nil || c.Service != nil || c.URL != "" {
			wrong = append(wrong, patched{Name: h.name, Client: &c})
		}
	}
	if len(wrong) > 0 {
		err := w.patch(ctx, n, wrong) // then it is checked again
		if err == nil {
			w.keys.spend(n.name, clients)
		}
		return errors.Join(err, late)
	}
	if n.validates && late == nil {
		return w.harden(ctx, n, all)
	}
	return late
}

// patched is a webhook in a patch; the API server finds it by its name.
type patched struct {
	Name   string                         `json:"name"`
	Client *client                        `json:"clientConfig,omitempty"`
	Policy *admissionv1.FailurePolicyType `json:"failurePolicy,omitempty"`
}

type client struct {
	Bundle  []byte   `json:"caBundle,omitempty"`
	Service *service `json:"service,omitempty"`
	URL     string   `json:"url,omitempty"`
}

type service struct {
	Path string `json:"path"`
}

func (w *Writer) patch(ctx context.Context, n named, hooks []patched) error {
	if err := w.queue.Pace(ctx); err != nil {
		return err
	}
	body, err := json.Marshal(map[string]any{"webhooks": hooks})
	if err != nil {
		return err
	}
	opts := metav1.PatchOptions{FieldManager: w.o.Manager}
	if n.validates {
		_, err = w.o.Client.ValidatingWebhooks().Patch(ctx, n.name, types.StrategicMergePatchType, body, opts)
	} else {
		_, err = w.o.Client.MutatingWebhooks().Patch(ctx, n.name, types.StrategicMergePatchType, body, opts)
	}
	if apierrors.IsNotFound(err) {
		return nil
	}
	w.meter.patched(n, err)
	if err == nil {
		w.o.Report.Wrote(task)
	}
	return err
}

// harden sets failurePolicy Fail once it is known that the API server reaches the webhooks. A chart sets Ignore, so that it can be
// installed before a webhook answers.
func (w *Writer) harden(ctx context.Context, n named, all []hook) error {
	var lenient []patched
	fail := admissionv1.Fail
	for _, h := range all {
		if h.lenient {
			lenient = append(lenient, patched{Name: h.name, Policy: &fail})
		}
	}
	if len(lenient) == 0 {
		return nil
	}
	answers, err := w.answers(ctx, all)
	if err != nil {
		return err
	}
	if !answers {
		return work.ErrWait
	}
	return w.patch(ctx, n, lenient)
}

// wrong is a Gateway that its schema accepts and a webhook refuses.
const wrong = `{"apiVersion":"networking.istio.io/v1","kind":"Gateway","metadata":{"name":"webhook-probe"},"spec":{}}`

// answers tries whether an API server calls one of some webhooks, with an object that they refuse. It is a dry run: nothing is stored.
func (w *Writer) answers(ctx context.Context, all []hook) (bool, error) {
	if err := w.queue.Pace(ctx); err != nil {
		return false, err
	}
	err := w.o.API.Post().AbsPath("/apis/networking.istio.io/v1/namespaces/"+w.o.Namespace+"/gateways").
		Param("dryRun", metav1.DryRunAll).SetHeader("Content-Type", "application/json").Body([]byte(wrong)).Do(ctx).Error()
	if err == nil || apierrors.IsNotFound(err) {
		return false, nil // no webhook was asked
	}
	for _, h := range all {
		if strings.Contains(err.Error(), `admission webhook "`+h.name+`" denied`) {
			return true, nil
		}
	}
	return false, err
}
