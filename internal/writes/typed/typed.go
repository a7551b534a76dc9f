package typed

import (
	"context"
	"net/http"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/rest"
)

// Client reads and writes the objects of one kind.
type Client[T object, L runtime.Object] = gentype.ClientWithList[T, L]

type object interface {
	runtime.Object
	metav1.Object
}

// Clients returns clients of kinds, which share one connection.
type Clients struct {
	core, admission, certificates, coordination rest.Interface
	parameters                                  runtime.ParameterCodec
}

// New returns the clients of an API server.
func New(config *rest.Config, client *http.Client) (*Clients, error) {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, metav1.Unversioned) // the Status of an answer
	for _, add := range []func(*runtime.Scheme) error{
		admissionv1.AddToScheme, certificatesv1.AddToScheme, coordinationv1.AddToScheme, corev1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	codecs := rest.CodecFactoryForGeneratedClient(scheme, serializer.NewCodecFactory(scheme)).WithoutConversion()
	c := &Clients{parameters: runtime.NewParameterCodec(scheme)}
	for _, group := range []struct {
		to   *rest.Interface
		path string
		gv   schema.GroupVersion
	}{
		{&c.core, "/api", corev1.SchemeGroupVersion},
		{&c.admission, "/apis", admissionv1.SchemeGroupVersion},
		{&c.certificates, "/apis", certificatesv1.SchemeGroupVersion},
		{&c.coordination, "/apis", coordinationv1.SchemeGroupVersion},
	} {
		own := rest.CopyConfig(config)
		own.APIPath, own.GroupVersion, own.NegotiatedSerializer = group.path, &group.gv, codecs
		made, err := rest.RESTClientForConfigAndClient(own, client)
		if err != nil {
			return nil, err
		}
		*group.to = made
	}
	return c, nil
}

// of returns the client of a kind; without a namespace: in all namespaces, or of a kind that has none.
func of[T object, L runtime.Object](
	c *Clients, group rest.Interface, resource, namespace string, one func() T, list func() L,
) *Client[T, L] {
	return gentype.NewClientWithList(resource, group, c.parameters, namespace, one, list, gentype.PrefersProtobuf[T]())
}

// Leases returns the client of a namespace's Leases.
func (c *Clients) Leases(namespace string) *Client[*coordinationv1.Lease, *coordinationv1.LeaseList] {
	return of(c, c.coordination, "leases", namespace, empty[coordinationv1.Lease], empty[coordinationv1.LeaseList])
}

// ConfigMaps returns the client of a namespace's ConfigMaps.
func (c *Clients) ConfigMaps(namespace string) *Client[*corev1.ConfigMap, *corev1.ConfigMapList] {
	return of(c, c.core, "configmaps", namespace, empty[corev1.ConfigMap], empty[corev1.ConfigMapList])
}

// Secrets returns the client of a namespace's Secrets.
func (c *Clients) Secrets(namespace string) *Client[*corev1.Secret, *corev1.SecretList] {
	return of(c, c.core, "secrets", namespace, empty[corev1.Secret], empty[corev1.SecretList])
}

// Services returns the client of a namespace's Services.
func (c *Clients) Services(namespace string) *Client[*corev1.Service, *corev1.ServiceList] {
	return of(c, c.core, "services", namespace, empty[corev1.Service], empty[corev1.ServiceList])
}

// Pods returns the client of a namespace's Pods.
func (c *Clients) Pods(namespace string) *Client[*corev1.Pod, *corev1.PodList] {
	return of(c, c.core, "pods", namespace, empty[corev1.Pod], empty[corev1.PodList])
}

// Nodes returns the client of Nodes.
func (c *Clients) Nodes() *Client[*corev1.Node, *corev1.NodeList] {
	return of(c, c.core, "nodes", "", empty[corev1.Node], empty[corev1.NodeList])
}

// MutatingWebhooks returns the client of MutatingWebhookConfigurations.
func (c *Clients) MutatingWebhooks() *Client[*admissionv1.MutatingWebhookConfiguration, *admissionv1.MutatingWebhookConfigurationList] {
	return of(c, c.admission, "mutatingwebhookconfigurations", "",
		empty[admissionv1.MutatingWebhookConfiguration], empty[admissionv1.MutatingWebhookConfigurationList])
}

// ValidatingWebhooks returns the client of ValidatingWebhookConfigurations.
func (c *Clients) ValidatingWebhooks() *Client[
	*admissionv1.ValidatingWebhookConfiguration, *admissionv1.ValidatingWebhookConfigurationList,
] {
	return of(c, c.admission, "validatingwebhookconfigurations", "",
		empty[admissionv1.ValidatingWebhookConfiguration], empty[admissionv1.ValidatingWebhookConfigurationList])
}

const signingRequests = "certificatesigningrequests"

// SigningRequests returns the client of CertificateSigningRequests.
func (c *Clients) SigningRequests() *Client[*certificatesv1.CertificateSigningRequest, *certificatesv1.CertificateSigningRequestList] {
	return of(c, c.certificates, signingRequests, "",
		empty[certificatesv1.CertificateSigningRequest], empty[certificatesv1.CertificateSigningRequestList])
}

// Approve writes the conditions of a CertificateSigningRequest that say whether it is approved.
func (c *Clients) Approve(ctx context.Context, r *certificatesv1.CertificateSigningRequest, opts metav1.UpdateOptions) error {
	return c.certificates.Put().UseProtobufAsDefault().Resource(signingRequests).Name(r.Name).SubResource("approval").
		VersionedParams(&opts, c.parameters).Body(r).Do(ctx).Error()
}

// empty returns a new object or list.
func empty[O any]() *O { return new(O) }
