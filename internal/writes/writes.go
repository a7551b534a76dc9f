package writes

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"fairway/internal/config"
	"fairway/internal/kubeclient"
	"fairway/internal/mesh"
	"fairway/internal/writes/address"
	"fairway/internal/writes/certs"
	"fairway/internal/writes/entries"
	"fairway/internal/writes/gatewayapi"
	"fairway/internal/writes/gateways"
	"fairway/internal/writes/health"
	"fairway/internal/writes/hooks"
	"fairway/internal/writes/leader"
	"fairway/internal/writes/peers"
	"fairway/internal/writes/refused"
	"fairway/internal/writes/roots"
	"fairway/internal/writes/signer"
	"fairway/internal/writes/status"
	"fairway/internal/writes/work"
)

// Manager is the field manager of everything that is written.
const Manager = "pilot-discovery"

// lease is the name of the Lease of the cluster's leader, which writes what exists once in a cluster. With the revision appended it names
// the Lease of the revision's leader, which writes what belongs to one revision.
const lease = "istio-leader"

// Options of a Writer.
type Options struct {
	Config    *rest.Config
	Namespace string // the root namespace
	Revision  string
	Tagged    func(tag string) bool // reports whether a tag is a name of the revision; nil: it has no other name
	Identity  string                // of this replica, unlike that of any other
	Log       *slog.Logger
	Registry  prometheus.Registerer
	// Status returns what the status of an object should hold.
	Status func(config.Key) status.Wanted
	// Routed returns what the status of an object of the Gateway API should say, and Controller reports whether a controller is this
	// control plane.
	Routed     func(config.Key) gatewayapi.Wanted
	Controller func(gatewayv1.GatewayController) bool
	// Deploys is set if Gateways of the Gateway API are deployed. Deployed returns the objects that one should have, AllDeployed calls add
	// with all, and OnTaken takes why one cannot have them; empty: it can.
	Deploys     bool
	Silent      bool // no statuses of the Gateway API's objects are written
	Deployed    func(config.Key) gateways.Wanted
	AllDeployed func(add func(config.Key))
	OnTaken     func(k config.Key, why string)
	// Refusals takes what proxies that are connected to a control plane refuse from now on, each time that changes; "": this one.
	Refusals func(by string, list []mesh.Problem)
	// OnReached takes what another control plane shares of objects that its proxies have; empty: it is gone. An error: it cannot be read.
	OnReached func(by, text string) error
	// OnServed is OnReached for the Gateways of the Gateway API that have proxies there.
	OnServed func(by, text string) error
	// OnProblems takes all problems about rights that a task lacks, each time they change.
	OnProblems func(task string, problems []mesh.Problem)
	// Group returns a WorkloadGroup; nil: there is none. Grace is how long an entry stays after its proxy has gone.
	Group func(config.Key) *config.Object
	Grace time.Duration
	// Authority has the mesh's roots; nil: another program's authority has them, and they are not written.
	Authority Authority
	// Bundle returns the roots with which API servers verify the webhooks, in PEM; nil: there are none.
	Bundle func() ([]byte, error)
	// Signer is the signer of Kubernetes that signs for webhooks and Secrets; empty: the authority signs. Names are those under which API
	// servers call the webhooks.
	Signer string
	Names  []string
	// Injects is set if API servers call this control plane for the injection of pods.
	Injects bool
}

// Authority signs for the mesh.
type Authority interface {
	// ServerCertificate makes a key and a certificate for DNS names.
	ServerCertificate(names []string) (*tls.Certificate, error)
	Roots() []byte            // in PEM
	Changed() <-chan struct{} // closed when there are others
}

// Writer writes into the cluster.
type Writer struct {
	o       Options
	report  *work.Report
	clients *kubeclient.Clients
	status  *status.Writer
	routed  *gatewayapi.Writer
	deploys *gateways.Writer // nil: Gateways are not deployed
	address *address.Writer
	entries *entries.Writer
	health  *health.Writer
	refused *refused.Writer
	reached *peers.Writer
	served  *peers.Writer
	roots   *roots.Writer  // nil: another program's authority has them
	certs   *certs.Writer  // nil: there is no signer
	signer  *signer.Signer // nil: the authority signs
	own     *signer.Own    // nil as signer, or without webhooks
	keys    *hooks.Keys    // nil: no pods are injected
	// Tasks of the cluster's leader, and of the revision's leader.
	ofCluster, ofRevision []func(context.Context)
	shared                shared
}

// detail is how much lower than an error client-go's other messages are logged.
const detail = 4

// New makes the parts. It sends no request yet.
func New(o Options) (*Writer, error) {
	c, err := newClients(o.Config)
	if err != nil {
		return nil, err
	}
	w := &Writer{o: o, report: work.NewReport(o.Registry, o.Log, o.OnProblems), clients: c.typed}
	w.status = status.New(status.Options{API: c.api, Manager: Manager, Mine: w.mine, Wanted: o.Status, Report: w.report})
	w.routed = gatewayapi.New(gatewayapi.Options{
		API: c.api, Manager: Manager, Mine: w.mine, Ours: o.Controller, Leads: w.shared.leads, Wanted: o.Routed, Report: w.report,
	})
	w.address = address.New(address.Options{API: c.api, Client: c.typed, Manager: Manager, Namespace: o.Namespace, Report: w.report})
	w.entries = entries.New(entries.Options{
		API: c.api, Leases: w.clients, Manager: Manager, Namespace: o.Namespace, Identity: o.Identity, Grace: o.Grace,
		Group: o.Group, Report: w.report,
	})
	w.health = health.New(health.Options{
		API: c.api, Manager: Manager, Identity: o.Identity, Lives: w.entries.Lives,
		Listener: entries.NewListener(w.clients, o.Namespace), Grace: o.Grace, Report: w.report,
	})
	w.refused = refused.New(refused.Options{
		Leases: w.clients, Namespace: o.Namespace, Identity: o.Identity, OnRefusals: o.Refusals, Report: w.report,
	})
	shared := func(what string, take func(by, text string) error) *peers.Writer {
		return peers.New(peers.Options{
			Leases: w.clients, Namespace: o.Namespace, Identity: o.Identity,
			Task: what, Prefix: "istio-" + what + "-", Marked: "fairway/" + what,
			OnText: take, Report: w.report,
		})
	}
	w.reached, w.served = shared("reached", o.OnReached), shared("served", o.OnServed)
	w.ofCluster = append(w.ofCluster, w.status.Run, w.address.Run, w.entries.Sweep, w.health.Sweep, w.refused.Listen,
		func(ctx context.Context) { w.shared.lead(ctx, &w.shared.cluster) })
	w.ofRevision = append(w.ofRevision, func(ctx context.Context) { w.shared.lead(ctx, &w.shared.revision) })
	w.shared.tasks = append(w.shared.tasks, w.reached.Listen, w.served.Listen)
	if !o.Silent {
		w.shared.tasks = append(w.shared.tasks, w.routed.Run)
	}
	if o.Deploys {
		w.deploys, err = gateways.New(gateways.Options{
			API: c.api, Client: c.dynamic, Manager: Manager, Revision: o.Revision, Leads: w.shared.leads,
			Wanted: o.Deployed, All: o.AllDeployed, Taken: o.OnTaken, Report: w.report,
		})
		if err != nil {
			return nil, err
		}
		w.shared.tasks = append(w.shared.tasks, w.deploys.Run)
	}
	if o.Authority != nil {
		w.roots = roots.New(roots.Options{
			Client: c.typed, Metadata: c.metadata, Manager: Manager,
			Roots: o.Authority.Roots, Changed: o.Authority.Changed, Report: w.report,
		})
		w.ofCluster = append(w.ofCluster, w.roots.Run)
	}
	if o.Signer != "" {
		w.signer = signer.New(signer.Options{Client: c.typed, Name: o.Signer, Manager: Manager})
		if o.Bundle != nil {
			w.own = signer.NewOwn(w.signer, o.Names, w.report)
		}
	}
	if by := w.issuer(); by != nil {
		w.certs = certs.New(certs.Options{Client: c.typed, Namespace: o.Namespace, Manager: Manager, By: by, Report: w.report})
		w.ofCluster = append(w.ofCluster, w.certs.Run)
	}
	if o.Bundle != nil {
		h := hooks.New(hooks.Options{
			Client: c.typed, API: c.api, Manager: Manager, Namespace: o.Namespace, Revision: o.Revision,
			Bundle: w.bundle, Changed: w.bundles(), Report: w.report, Metrics: o.Registry,
		})
		w.ofRevision = append(w.ofRevision, h.Run)
	}
	if o.Injects {
		w.keys = hooks.NewKeys(hooks.Options{Client: c.typed, Revision: o.Revision, Report: w.report})
	}
	return w, nil
}

// clients are the clients of the API server, which share connections.
type clients struct {
	typed    *kubeclient.Clients
	metadata metadata.Interface
	dynamic  dynamic.Interface
	api      rest.Interface
}

func newClients(of *rest.Config) (c clients, err error) {
	own := rest.CopyConfig(of)
	own.QPS = -1 // each queue has its own rate limit
	own.UserAgent = Manager
	own.WarningHandler = rest.NoWarnings{}
	client, err := rest.HTTPClientFor(own)
	if err != nil {
		return c, fmt.Errorf("write into the cluster: %w", err)
	}
	if c.typed, err = kubeclient.New(own, client); err != nil {
		return c, err
	}
	if c.metadata, err = metadata.NewForConfigAndClient(own, client); err != nil {
		return c, err
	}
	if c.dynamic, err = dynamic.NewForConfigAndClient(own, client); err != nil {
		return c, err
	}
	plain := rest.CopyConfig(own)
	plain.APIPath, plain.GroupVersion = "/", &schema.GroupVersion{}
	scheme := runtime.NewScheme() // types of an API server's error answers
	metav1.AddToGroupVersion(scheme, metav1.Unversioned)
	plain.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	c.api, err = rest.UnversionedRESTClientForConfigAndClient(plain, client)
	return c, err
}

// authority signs at once.
type authority struct{ Authority }

// Certificate is certs.Issuer's.
func (a authority) Certificate(_ context.Context, names []string) (*tls.Certificate, error) {
	return a.ServerCertificate(names)
}

// issuer returns the signer of certificates for Secrets; nil: there is none.
func (w *Writer) issuer() certs.Issuer {
	switch {
	case w.signer != nil:
		return w.signer
	case w.o.Authority != nil:
		return authority{w.o.Authority}
	default:
		return nil
	}
}

// bundle returns the roots of the certificates that webhooks may present: this replica's, or another replica's that does not have its own
// from the signer yet.
func (w *Writer) bundle() ([]byte, error) {
	roots, err := w.o.Bundle()
	if w.signer == nil {
		return roots, err
	}
	signed := w.signer.Roots()
	switch {
	case len(signed) == 0:
		return roots, err
	case err != nil:
		return signed, nil //nolint:nilerr // what is shown meanwhile is not known to API servers
	default:
		return slices.Concat(roots, signed), nil
	}
}

// bundles returns functions that return channels, which are closed when bundle changes.
func (w *Writer) bundles() (out []func() <-chan struct{}) {
	if w.o.Authority != nil {
		out = append(out, w.o.Authority.Changed)
	}
	if w.signer != nil {
		out = append(out, w.signer.Changed)
	}
	return out
}

// Own returns the certificate that the signer made for the webhooks of this replica; nil: present the authority's.
func (w *Writer) Own() *tls.Certificate {
	if w.own == nil {
		return nil
	}
	return w.own.Certificate()
}

// Known reports whether a caller that shows a key may be an API server that asks for the injection of pods. An error: this is not known
// yet.
func (w *Writer) Known(key string) (bool, error) {
	if w.keys == nil {
		return false, nil
	}
	return w.keys.Known(key)
}

// SignerRoots sets the roots of the signer's certificates, in PEM.
func (w *Writer) SignerRoots(pem []byte) {
	if w.signer != nil {
		w.signer.Believe(pem)
	}
}

// mine reports whether objects with these labels are for this revision.
func (w *Writer) mine(labels map[string]string) bool {
	rev, said := labels["istio.io/rev"]
	return !said || rev == w.o.Revision || w.o.Tagged != nil && w.o.Tagged(rev)
}

// Observe takes the current state of an object in the API server, before unused parts are removed from it; gone: it was deleted. The reader
// of the cluster calls it. Observe does not keep the object.
func (w *Writer) Observe(o *unstructured.Unstructured, gone bool) {
	if o.GroupVersionKind().Group == gatewayv1.GroupName {
		w.routed.Observe(o, gone)
		return
	}
	switch o.GetKind() {
	case string(config.Ingress):
		w.address.Observe(o, gone)
	case string(config.IngressClass), string(config.Secret), string(config.ConfigMap):
	case string(config.WorkloadEntry):
		w.entries.Observe(o, gone)
		w.health.Observe(o, gone)
		w.status.Observe(o, gone)
	default:
		w.status.Observe(o, gone)
	}
}

// Changed is called when another version of an object may be in force, or when its status should say something else.
func (w *Writer) Changed(k config.Key) {
	if k.Kind.Group() == gatewayv1.GroupName {
		w.routed.Changed(k)
		if k.Kind == config.KubernetesGateway {
			w.Deploy(k)
		}
	} else {
		w.status.Changed(k)
	}
}

// Deploy is called when a Gateway of the Gateway API should have other objects.
func (w *Writer) Deploy(k config.Key) {
	if w.deploys != nil {
		w.deploys.Changed(k)
	}
}

// Refused takes the problems that proxies that are connected here have with objects from now on. It is called each time the list changes.
// One goroutine calls it.
func (w *Writer) Refused(list []mesh.Problem) {
	list = refused.Brief(list)
	w.o.Refusals("", list)
	w.refused.Set(list)
}

// Reached shares with the leader which objects the proxies that are connected here have.
func (w *Writer) Reached(text string) { w.reached.Set(text) }

// Served shares with the leader which Gateways of the Gateway API have proxies that are connected here.
func (w *Writer) Served(text string) { w.served.Set(text) }

// Ingress returns the writer that takes which Ingresses are served, and by which gateways.
func (w *Writer) Ingress() *address.Writer { return w.address }

// Discover sets which namespaces the mesh sees.
func (w *Writer) Discover(by *config.Discovery) {
	if w.roots != nil {
		w.roots.Discover(by)
	}
}

// Certificates sets for which names the writer keeps certificates.
func (w *Writer) Certificates(list []config.Certificate) {
	if w.certs != nil {
		w.certs.Want(list)
	}
}

// Entries returns the writer that takes machines when their proxies connect.
func (w *Writer) Entries() *entries.Writer { return w.entries }

// Health returns the writer that takes what agents report about the applications of WorkloadEntries.
func (w *Writer) Health() *health.Writer { return w.health }

// View returns the content of the page.
func (w *Writer) View() work.View { return w.report.View() }

// Run takes part in the elections, and runs the tasks of each that it has won, until ctx ends.
func (w *Writer) Run(ctx context.Context) {
	// The other messages of client-go, beside its errors, are logged only at a detailed level.
	ctx = klog.NewContext(ctx, logr.FromSlogHandler(w.o.Log.Handler()).V(detail))
	var running sync.WaitGroup
	take := func(name string, tasks []func(context.Context)) {
		if len(tasks) == 0 {
			return
		}
		running.Go(func() {
			leader.Run(ctx, leader.Options{
				Leases:    w.clients.Leases(w.o.Namespace),
				Namespace: w.o.Namespace, Name: name, Identity: w.o.Identity, Report: w.report,
				Lead: func(ctx context.Context) { together(ctx, tasks) },
			})
		})
	}
	running.Go(func() { w.entries.Run(ctx) })
	running.Go(func() { w.health.Run(ctx) })
	running.Go(func() { w.refused.Run(ctx) })
	running.Go(func() { w.reached.Run(ctx) })
	running.Go(func() { w.served.Run(ctx) })
	if w.own != nil {
		running.Go(func() { w.own.Run(ctx) })
	}
	if w.keys != nil {
		running.Go(func() { w.keys.Run(ctx) })
	}
	take(lease, w.ofCluster)
	take(lease+"-"+w.o.Revision, w.ofRevision)
	running.Wait()
}

func together(ctx context.Context, tasks []func(context.Context)) {
	var running sync.WaitGroup
	for _, task := range tasks {
		running.Go(func() { task(ctx) })
	}
	running.Wait()
}
