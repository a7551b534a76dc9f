package kubeclient

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"sync"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/version"
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
	config *rest.Config
	client *http.Client

	mu     sync.Mutex
	groups map[schema.GroupVersion]*group
}

// group is a group of kinds. Each has a scheme of its own, so that a program links only those that it uses.
type group struct {
	rest       rest.Interface
	parameters runtime.ParameterCodec
}

// New returns the clients of an API server. It fails if the client of a group cannot be made.
func New(config *rest.Config, client *http.Client) (*Clients, error) {
	c := &Clients{config: config, client: client, groups: map[schema.GroupVersion]*group{}}
	if _, err := c.open(corev1.SchemeGroupVersion, corev1.AddToScheme); err != nil {
		return nil, err
	}
	return c, nil
}

// Open is New with a connection of its own.
func Open(config *rest.Config) (*Clients, error) {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	return New(config, client)
}

func (c *Clients) open(gv schema.GroupVersion, add func(*runtime.Scheme) error) (*group, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if made := c.groups[gv]; made != nil {
		return made, nil
	}
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, metav1.Unversioned) // the Status of an answer
	if err := add(scheme); err != nil {
		return nil, err
	}
	own := rest.CopyConfig(c.config)
	own.APIPath, own.GroupVersion = "/apis", &gv
	if gv.Group == "" {
		own.APIPath = "/api"
	}
	own.NegotiatedSerializer = rest.CodecFactoryForGeneratedClient(scheme, serializer.NewCodecFactory(scheme)).WithoutConversion()
	client, err := rest.RESTClientForConfigAndClient(own, c.client)
	if err != nil {
		return nil, err
	}
	made := &group{client, runtime.NewParameterCodec(scheme)}
	c.groups[gv] = made
	return made, nil
}

// group returns a group of kinds.
func (c *Clients) group(gv schema.GroupVersion, add func(*runtime.Scheme) error) *group {
	made, err := c.open(gv, add)
	if err != nil { // New has made one of the same configuration
		panic(fmt.Sprintf("kubeclient: %s: %v", gv, err))
	}
	return made
}

func (c *Clients) core() *group { return c.group(corev1.SchemeGroupVersion, corev1.AddToScheme) }

func (c *Clients) admission() *group {
	return c.group(admissionv1.SchemeGroupVersion, admissionv1.AddToScheme)
}

func (c *Clients) certificates() *group {
	return c.group(certificatesv1.SchemeGroupVersion, certificatesv1.AddToScheme)
}

// of returns the client of a kind; without a namespace: in all namespaces, or of a kind that has none.
func of[T object, L runtime.Object](g *group, resource, namespace string, one func() T, list func() L) *Client[T, L] {
	return gentype.NewClientWithList(resource, g.rest, g.parameters, namespace, one, list, gentype.PrefersProtobuf[T]())
}

// Generation returns metadata.generation of an object; path is the API server's. The answer has the object's metadata alone.
func (c *Clients) Generation(ctx context.Context, path string) (int64, error) {
	var out metav1.PartialObjectMetadata
	text, err := c.core().rest.Get().AbsPath(path).
		SetHeader("Accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1").Do(ctx).Raw()
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	return out.Generation, err
}

// Do sends a request in JSON; path is the API server's. The body of a PATCH is YAML that the server applies.
func (c *Clients) Do(ctx context.Context, method, path string, query url.Values, body []byte) ([]byte, error) {
	contentType := runtime.ContentTypeJSON
	if method == http.MethodPatch {
		contentType = string(types.ApplyPatchType)
	}
	r := c.core().rest.Verb(method).AbsPath(path).SetHeader("Accept", runtime.ContentTypeJSON)
	for name, values := range query {
		for _, v := range values {
			r = r.Param(name, v)
		}
	}
	if body != nil {
		r = r.SetHeader("Content-Type", contentType).Body(body)
	}
	result := r.Do(ctx)
	if err := result.Error(); err != nil { // with what the server says of it
		return nil, err
	}
	return result.Raw()
}

// Version asks the API server for its version.
func (c *Clients) Version(ctx context.Context) (version.Info, error) {
	var out version.Info
	text, err := c.core().rest.Get().AbsPath("/version").Do(ctx).Raw()
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	return out, err
}

// Resources asks the API server for the resources of a group and version. If it does not serve the group, the error is NotFound.
func (c *Clients) Resources(ctx context.Context, of schema.GroupVersion) ([]metav1.APIResource, error) {
	path := "/apis/" + of.String()
	if of.Group == "" {
		path = "/api/" + of.Version
	}
	var out metav1.APIResourceList
	text, err := c.core().rest.Get().AbsPath(path).SetHeader("Accept", runtime.ContentTypeJSON).Do(ctx).Raw()
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	return out.APIResources, err
}

// PortForward returns the URL at which the API server forwards ports of a pod.
func (c *Clients) PortForward(namespace, pod string) *url.URL {
	return c.core().rest.Post().Resource("pods").Namespace(namespace).Name(pod).SubResource("portforward").URL()
}

// Exec returns where a program is run in a container, with its output and without input.
func (c *Clients) Exec(namespace, pod, container string, command []string) *url.URL {
	request := c.core().rest.Post().Resource("pods").Namespace(namespace).Name(pod).SubResource("exec")
	request.Param("container", container).Param("stdout", "true").Param("stderr", "true")
	for _, word := range command {
		request.Param("command", word)
	}
	return request.URL()
}

// Namespaces returns the client of Namespaces.
func (c *Clients) Namespaces() *Client[*corev1.Namespace, *corev1.NamespaceList] {
	return of(c.core(), "namespaces", "", empty[corev1.Namespace], empty[corev1.NamespaceList])
}

// Deployments returns the client of a namespace's Deployments.
func (c *Clients) Deployments(namespace string) *Client[*appsv1.Deployment, *appsv1.DeploymentList] {
	apps := c.group(appsv1.SchemeGroupVersion, appsv1.AddToScheme)
	return of(apps, "deployments", namespace, empty[appsv1.Deployment], empty[appsv1.DeploymentList])
}

// Leases returns the client of a namespace's Leases.
func (c *Clients) Leases(namespace string) *Client[*coordinationv1.Lease, *coordinationv1.LeaseList] {
	leases := c.group(coordinationv1.SchemeGroupVersion, coordinationv1.AddToScheme)
	return of(leases, "leases", namespace, empty[coordinationv1.Lease], empty[coordinationv1.LeaseList])
}

// ConfigMaps returns the client of a namespace's ConfigMaps.
func (c *Clients) ConfigMaps(namespace string) *Client[*corev1.ConfigMap, *corev1.ConfigMapList] {
	return of(c.core(), "configmaps", namespace, empty[corev1.ConfigMap], empty[corev1.ConfigMapList])
}

// Secrets returns the client of a namespace's Secrets.
func (c *Clients) Secrets(namespace string) *Client[*corev1.Secret, *corev1.SecretList] {
	return of(c.core(), "secrets", namespace, empty[corev1.Secret], empty[corev1.SecretList])
}

// Services returns the client of a namespace's Services.
func (c *Clients) Services(namespace string) *Client[*corev1.Service, *corev1.ServiceList] {
	return of(c.core(), "services", namespace, empty[corev1.Service], empty[corev1.ServiceList])
}

// Pods returns the client of a namespace's Pods.
func (c *Clients) Pods(namespace string) *Client[*corev1.Pod, *corev1.PodList] {
	return of(c.core(), "pods", namespace, empty[corev1.Pod], empty[corev1.PodList])
}

// ServiceAccounts returns the client of ServiceAccounts of a namespace.
func (c *Clients) ServiceAccounts(namespace string) *Client[*corev1.ServiceAccount, *corev1.ServiceAccountList] {
	return of(c.core(), "serviceaccounts", namespace, empty[corev1.ServiceAccount], empty[corev1.ServiceAccountList])
}

// Nodes returns the client of Nodes.
func (c *Clients) Nodes() *Client[*corev1.Node, *corev1.NodeList] {
	return of(c.core(), "nodes", "", empty[corev1.Node], empty[corev1.NodeList])
}

// MutatingWebhooks returns the client of MutatingWebhookConfigurations.
func (c *Clients) MutatingWebhooks() *Client[*admissionv1.MutatingWebhookConfiguration, *admissionv1.MutatingWebhookConfigurationList] {
	return of(c.admission(), "mutatingwebhookconfigurations", "",
		empty[admissionv1.MutatingWebhookConfiguration], empty[admissionv1.MutatingWebhookConfigurationList])
}

// ValidatingWebhooks returns the client of ValidatingWebhookConfigurations.
func (c *Clients) ValidatingWebhooks() *Client[
	*admissionv1.ValidatingWebhookConfiguration, *admissionv1.ValidatingWebhookConfigurationList,
] {
	return of(c.admission(), "validatingwebhookconfigurations", "",
		empty[admissionv1.ValidatingWebhookConfiguration], empty[admissionv1.ValidatingWebhookConfigurationList])
}

const signingRequests = "certificatesigningrequests"

// SigningRequests returns the client of CertificateSigningRequests.
func (c *Clients) SigningRequests() *Client[*certificatesv1.CertificateSigningRequest, *certificatesv1.CertificateSigningRequestList] {
	return of(c.certificates(), signingRequests, "",
		empty[certificatesv1.CertificateSigningRequest], empty[certificatesv1.CertificateSigningRequestList])
}

// Approve writes the conditions of a CertificateSigningRequest that say whether it is approved.
func (c *Clients) Approve(ctx context.Context, r *certificatesv1.CertificateSigningRequest, opts metav1.UpdateOptions) error {
	g := c.certificates()
	return g.rest.Put().UseProtobufAsDefault().Resource(signingRequests).Name(r.Name).SubResource("approval").
		VersionedParams(&opts, g.parameters).Body(r).Do(ctx).Error()
}

// empty returns a new object or list.
func empty[O any]() *O { return new(O) }
