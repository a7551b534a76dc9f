package kube

import (
	"context"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
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
	list(context.Context, metav1.ListOptions) (runtime.Object, error)
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
}

// protobuf is what Kubernetes' own kinds are asked for in: it costs a fraction of what JSON does.
const protobuf = "application/vnd.kubernetes.protobuf"

func newClients(c *rest.Config, client *http.Client) (*clients, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, discoveryv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	codecs := serializer.NewCodecFactory(scheme).WithoutConversion()
	of := func(root string, gv schema.GroupVersion) (*rest.RESTClient, error) {
		own := rest.CopyConfig(c)
		own.APIPath, own.GroupVersion, own.NegotiatedSerializer = root, &gv, codecs
		own.ContentType, own.AcceptContentTypes = protobuf, protobuf+",application/json"
		return rest.RESTClientForConfigAndClient(own, client)
	}
	all := &clients{http: client}
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
	empty     func() runtime.Object
}

func (c typed) request(opts metav1.ListOptions) *rest.Request {
	opts.FieldSelector, opts.LabelSelector = c.fields, c.labels
	return c.client.Get().NamespaceIfScoped(c.namespace, c.namespace != "").Resource(c.resource).
		VersionedParams(&opts, metav1.ParameterCodec)
}

func (c typed) list(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
	into := c.empty()
	return into, c.request(opts).Do(ctx).Into(into)
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

// housed is that of one namespace.
type housed struct {
	untyped
	dynamic.ResourceInterface
}

func (c untyped) in(namespace string) collection { return housed{c, c.Namespace(namespace)} }

func (c housed) list(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
	return c.ResourceInterface.List(ctx, opts)
}

func (c housed) watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	return c.ResourceInterface.Watch(ctx, opts)
}

func (c untyped) list(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
	return c.List(ctx, opts)
}

func (c untyped) watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	return c.Watch(ctx, opts)
}

// named is a collection of which nothing but the metadata is asked for. It is of no namespace.
type named struct {
	metadata.ResourceInterface
	labels string // a selector
}

func (c named) in(string) collection { return c }

func (c named) list(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
	opts.LabelSelector = c.labels
	return c.List(ctx, opts)
}

func (c named) watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	opts.LabelSelector = c.labels
	return c.Watch(ctx, opts)
}
