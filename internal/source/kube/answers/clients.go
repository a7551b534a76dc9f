package answers

import (
	"bufio"
	"context"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"fairway/internal/printable"
	"fairway/internal/reading"
)

// Collection is all objects of one kind, as an API server has them.
type Collection interface {
	// Page calls each for the objects of one page of a list, and returns the metadata of the page. An error of each ends it.
	Page(ctx context.Context, opts metav1.ListOptions, each func(runtime.Object) error) (metav1.ListMeta, error)
	// Follow opens a watch.
	Follow(context.Context, metav1.ListOptions) (watch.Interface, error)
	// In returns the objects of one namespace.
	In(namespace string) Collection
}

// Clients ask one API server, over one connection. Any goroutine may use them.
type Clients struct {
	http     *http.Client
	core     *rest.RESTClient
	discover *rest.RESTClient // of discovery.k8s.io
	dynamic  *dynamic.DynamicClient
	metadata metadata.Interface
	catalog  *catalog
	wary     bool               // the API server is not trusted
	secrets  *printable.Secrets // that the API server was shown
}

// protobuf is what Kubernetes' own kinds are asked for in: it costs a fraction of what JSON does.
const protobuf = "application/vnd.kubernetes.protobuf"

// Connect makes the clients of an API server, without a call. If lane is not nil, the API server is not trusted: its answers are
// bounded, large ones take turns in the lane, and redirects are not followed.
func Connect(config *rest.Config, lane *reading.Lane) (*Clients, error) {
	c := rest.CopyConfig(config)
	secrets, remote := secretsOf(c), lane != nil
	c.QPS = -1 // callers pause by themselves
	c.UserAgent = "pilot-discovery"
	c.WarningHandler = rest.NoWarnings{}
	if remote {
		bound(c, lane)
	}
	client, err := rest.HTTPClientFor(c)
	if err != nil {
		return nil, err
	}
	if remote {
		client = staying(client)
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, discoveryv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	codecs := serializer.NewCodecFactory(scheme).WithoutConversion()
	if remote {
		codecs = waryCodecs{codecs}
	}
	of := func(root string, gv schema.GroupVersion) (*rest.RESTClient, error) {
		own := rest.CopyConfig(c)
		own.APIPath, own.GroupVersion, own.NegotiatedSerializer = root, &gv, codecs
		own.ContentType, own.AcceptContentTypes = protobuf, protobuf+",application/json"
		return rest.RESTClientForConfigAndClient(own, client)
	}
	all := &Clients{http: client, wary: remote, secrets: secrets}
	if all.core, err = of("/api", corev1.SchemeGroupVersion); err != nil {
		return nil, err
	}
	if all.discover, err = of("/apis", discoveryv1.SchemeGroupVersion); err != nil {
		return nil, err
	}
	if all.dynamic, err = dynamic.NewForConfigAndClient(c, client); err != nil {
		return nil, err
	}
	all.catalog = &catalog{client: all.core}
	all.metadata, err = metadata.NewForConfigAndClient(c, client)
	return all, err
}

// Close closes connections that are not in use.
func (c *Clients) Close() { c.http.CloseIdleConnections() }

// Secrets returns the secrets that the API server was shown, which its answers may repeat.
func (c *Clients) Secrets() *printable.Secrets { return c.secrets }

// Find returns the collection of a kind of custom resources, in the first of some versions that is served. If none is, it returns
// ErrNotServed, and asks again the next time.
func (c *Clients) Find(ctx context.Context, group, kind string, versions []string) (Collection, error) {
	at, err := c.catalog.find(ctx, group, kind, versions)
	if err != nil {
		return nil, err
	}
	return c.Trees(at), nil
}

// Forget makes Find ask again which kinds are served.
func (c *Clients) Forget() { c.catalog.forget() }

// Trees returns a collection of objects that are read as trees (unstructured.Unstructured).
func (c *Clients) Trees(at schema.GroupVersionResource) Collection {
	return untyped{c.dynamic.Resource(at)}
}

// Names returns a collection of objects that are read for their metadata only (metav1.PartialObjectMetadata). The objects have no
// namespace; labels is a selector, or empty.
func (c *Clients) Names(at schema.GroupVersionResource, labels string) Collection {
	return named{c.metadata.Resource(at), labels}
}

// Own says which objects of a kind of Kubernetes' own are read.
type Own struct {
	Discovery bool   // it is of discovery.k8s.io; otherwise of the core
	Resource  string // the kind's word in paths
	Namespace string // empty: all
	Fields    string // a selector; empty: all, as of labels
	Labels    string
	Empty     func() Item // makes an object to read into
}

// Empty returns an empty object of a type of Kubernetes' own: Own.Empty is Empty[corev1.Pod], for example.
func Empty[O any, P interface {
	*O
	Item
}]() Item {
	return P(new(O))
}

// Own returns a collection of Kubernetes' own.
func (c *Clients) Own(k Own) Collection {
	client := c.core
	if k.Discovery {
		client = c.discover
	}
	return typed{Own: k, client: client, wary: c.wary}
}

// typed is a collection of Kubernetes' own.
type typed struct {
	Own

	client *rest.RESTClient
	wary   bool
}

func (c typed) request(opts metav1.ListOptions) *rest.Request {
	opts.FieldSelector, opts.LabelSelector = c.Fields, c.Labels
	return c.client.Get().NamespaceIfScoped(c.Namespace, c.Namespace != "").Resource(c.Resource).
		VersionedParams(&opts, metav1.ParameterCodec)
}

func (c typed) Page(ctx context.Context, opts metav1.ListOptions, each func(runtime.Object) error) (metav1.ListMeta, error) {
	answer, err := c.request(opts).Stream(ctx)
	if err != nil {
		return metav1.ListMeta{}, err
	}
	defer answer.Close()
	s := stream{from: bufio.NewReaderSize(answer, 64<<10), make: c.Empty, each: each, wary: c.wary}
	if err := s.read(); err != nil {
		return metav1.ListMeta{}, err
	}
	return s.meta, nil
}

// eachOf calls each for the objects of a page that has been decoded.
func eachOf(page runtime.Object, err error, each func(runtime.Object) error) (meta metav1.ListMeta, _ error) {
	if err != nil {
		return meta, err
	}
	if err := apimeta.EachListItem(page, each); err != nil {
		return meta, err
	}
	about, err := apimeta.ListAccessor(page)
	if err != nil {
		return meta, err
	}
	return metav1.ListMeta{ResourceVersion: about.GetResourceVersion(), Continue: about.GetContinue()}, nil
}

func (c typed) Follow(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	opts.Watch = true
	return c.request(opts).Watch(ctx)
}

func (c typed) In(namespace string) Collection {
	c.Namespace = namespace
	return c
}

// untyped is a collection of custom resources, as trees.
type untyped struct {
	dynamic.NamespaceableResourceInterface
}

// namespaced is that of one namespace.
type namespaced struct {
	untyped
	dynamic.ResourceInterface
}

func (c untyped) In(namespace string) Collection { return namespaced{c, c.Namespace(namespace)} }

func (c namespaced) Page(ctx context.Context, opts metav1.ListOptions, each func(runtime.Object) error) (metav1.ListMeta, error) {
	page, err := c.ResourceInterface.List(ctx, opts)
	return eachOf(page, err, each)
}

func (c namespaced) Follow(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	return c.ResourceInterface.Watch(ctx, opts)
}

func (c untyped) Page(ctx context.Context, opts metav1.ListOptions, each func(runtime.Object) error) (metav1.ListMeta, error) {
	page, err := c.List(ctx, opts)
	return eachOf(page, err, each)
}

func (c untyped) Follow(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	return c.Watch(ctx, opts)
}

// named is a collection that is read only for metadata. It has no namespace.
type named struct {
	metadata.ResourceInterface
	labels string // a selector
}

func (c named) In(string) Collection { return c }

func (c named) Page(ctx context.Context, opts metav1.ListOptions, each func(runtime.Object) error) (metav1.ListMeta, error) {
	opts.LabelSelector = c.labels
	page, err := c.List(ctx, opts)
	return eachOf(page, err, each)
}

func (c named) Follow(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	opts.LabelSelector = c.labels
	return c.Watch(ctx, opts)
}
