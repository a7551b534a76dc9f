package kube

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
)

// collection is all objects of one kind, as an API server has them.
type collection interface {
	// list calls each for the objects of one page, and returns what the API server says of the page.
	list(ctx context.Context, opts metav1.ListOptions, each func(runtime.Object) error) (metav1.ListMeta, error)
	watch(context.Context, metav1.ListOptions) (watch.Interface, error)
	in(namespace string) collection // those of one namespace
}

// clients ask one API server, over one connection.
type clients struct {
	http     *http.Client
	core     *rest.RESTClient
	discover *rest.RESTClient // of discovery.k8s.io
	dynamic  *dynamic.DynamicClient
	metadata metadata.Interface
	catalog  *catalog
	wary     bool // the API server is not trusted
}

// protobuf is what Kubernetes' own kinds are asked for in: it costs a fraction of what JSON does.
const protobuf = "application/vnd.kubernetes.protobuf"

// newClients makes the clients. remote: the API server is not trusted.
func newClients(c *rest.Config, client *http.Client, remote bool) (*clients, error) {
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
	all := &clients{http: client, wary: remote}
	var err error
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

func (c *clients) close() { c.http.CloseIdleConnections() }

// typed is a collection of Kubernetes' own.
type typed struct {
	client    *rest.RESTClient
	resource  string
	namespace string // empty: all
	fields    string // a selector, as labels is
	labels    string
	empty     func() item
	wary      bool
}

func (c typed) request(opts metav1.ListOptions) *rest.Request {
	opts.FieldSelector, opts.LabelSelector = c.fields, c.labels
	return c.client.Get().NamespaceIfScoped(c.namespace, c.namespace != "").Resource(c.resource).
		VersionedParams(&opts, metav1.ParameterCodec)
}

func (c typed) list(ctx context.Context, opts metav1.ListOptions, each func(runtime.Object) error) (metav1.ListMeta, error) {
	answer, err := c.request(opts).Stream(ctx)
	if err != nil {
		return metav1.ListMeta{}, err
	}
	defer answer.Close()
	s := stream{from: bufio.NewReaderSize(answer, 64<<10), make: c.empty, each: each, wary: c.wary}
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

func (c typed) watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	opts.Watch = true
	return c.request(opts).Watch(ctx)
}

func (c typed) in(namespace string) collection {
	c.namespace = namespace
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

func (c untyped) in(namespace string) collection { return namespaced{c, c.Namespace(namespace)} }

func (c namespaced) list(ctx context.Context, opts metav1.ListOptions, each func(runtime.Object) error) (metav1.ListMeta, error) {
	page, err := c.ResourceInterface.List(ctx, opts)
	return eachOf(page, err, each)
}

func (c namespaced) watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	return c.ResourceInterface.Watch(ctx, opts)
}

func (c untyped) list(ctx context.Context, opts metav1.ListOptions, each func(runtime.Object) error) (metav1.ListMeta, error) {
	page, err := c.List(ctx, opts)
	return eachOf(page, err, each)
}

func (c untyped) watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	return c.Watch(ctx, opts)
}

// named is a collection that is read only for metadata. It has no namespace.
type named struct {
	metadata.ResourceInterface
	labels string // a selector
}

func (c named) in(string) collection { return c }

func (c named) list(ctx context.Context, opts metav1.ListOptions, each func(runtime.Object) error) (metav1.ListMeta, error) {
	opts.LabelSelector = c.labels
	page, err := c.List(ctx, opts)
	return eachOf(page, err, each)
}

func (c named) watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	opts.LabelSelector = c.labels
	return c.Watch(ctx, opts)
}
