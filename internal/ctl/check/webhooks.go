package check

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	admission "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"fairway/internal/ctl/cluster"
	"fairway/internal/ctl/injection"
	"fairway/internal/identity"
)

// validating is the end of the names of a control plane's webhooks that judge objects.
const validating = "validation.istio.io"

// opener connects to a port of a pod.
type opener func(ctx context.Context, namespace, pod string, port int) (net.Conn, error)

// podsOf connects to pods through the API server.
func podsOf(flags cluster.Flags) opener {
	return func(ctx context.Context, namespace, pod string, port int) (net.Conn, error) {
		r, err := cluster.Open(flags)
		if err != nil {
			return nil, err
		}
		f, err := r.Forward(ctx, cluster.Plane{Name: pod, Namespace: namespace}, port)
		if err != nil {
			return nil, err
		}
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", f.Address)
		if err != nil {
			f.Close()
			return nil, err
		}
		return forwarded{conn, f}, nil
	}
}

// forwarded closes the forwarded port with its connection.
type forwarded struct {
	net.Conn
	port *cluster.Forwarded
}

func (f forwarded) Close() error {
	err := f.Conn.Close()
	f.port.Close()
	return err
}

// hook is a webhook, without what its kind alone has.
type hook struct {
	configuration string
	client        admission.WebhookClientConfig
	fails         bool // objects are refused if it does not answer
}

func injects(h *admission.MutatingWebhookConfiguration) bool {
	return slices.ContainsFunc(h.Webhooks, injection.Injects)
}

// webhooks checks the webhooks of control planes. Those of a configuration that are called alike count once.
func (k kube) webhooks(ctx context.Context) []Result {
	r := &results{part: "webhooks", page: webhooksPage}
	asked, stop := context.WithTimeout(ctx, each)
	defer stop()
	mutating, err := k.client.MutatingWebhooks().List(asked, metav1.ListOptions{Limit: mostListed})
	if err != nil {
		r.unknown("webhooks", err, "ask as a user who may list webhook configurations")
		return r.all
	}
	judging, err := k.client.ValidatingWebhooks().List(asked, metav1.ListOptions{Limit: mostListed})
	if err != nil {
		r.unknown("webhooks", err, "ask as a user who may list webhook configurations")
		return r.all
	}
	var all []hook
	for i := range mutating.Items {
		c := &mutating.Items[i]
		for _, w := range c.Webhooks {
			if injection.Injects(w) {
				all = append(all, hook{c.Name, w.ClientConfig, w.FailurePolicy != nil && *w.FailurePolicy == admission.Fail})
			}
		}
	}
	injectors := len(all)
	for i := range judging.Items {
		c := &judging.Items[i]
		for _, w := range c.Webhooks {
			if strings.HasSuffix(w.Name, validating) {
				all = append(all, hook{c.Name, w.ClientConfig, w.FailurePolicy != nil && *w.FailurePolicy == admission.Fail})
			}
		}
	}
	if injectors == 0 {
		r.add(Warning, "injection", "no webhook injects proxies", "pilotctl install makes it; pods get no proxy until then")
	}
	done := map[string]bool{}
	for _, h := range all {
		if key := h.configuration + " " + where(h.client); !done[key] {
			done[key] = true
			k.hook(ctx, r, h)
		}
	}
	order(r, mutating.Items)
	return r.all
}

// where names the server of a webhook.
func where(c admission.WebhookClientConfig) string {
	if c.Service == nil {
		if c.URL != nil {
			return *c.URL
		}
		return "nowhere"
	}
	return c.Service.Namespace + "/" + c.Service.Name
}

// hook checks the CA bundle of a webhook, its service, and the certificate that a pod of the service shows.
func (k kube) hook(ctx context.Context, r *results, h hook) {
	state := Warning // the API server goes on without it
	if h.fails {
		state = Failed
	}
	name, fix := h.configuration, "the control plane writes the bundle: its log, and pilotctl x internal-debug writez, say why it did not"
	pool := x509.NewCertPool()
	switch {
	case len(h.client.CABundle) == 0:
		r.add(Failed, name, "it has no CA bundle: the API server cannot verify "+where(h.client), fix)
		return
	case !pool.AppendCertsFromPEM(h.client.CABundle):
		r.add(Failed, name, "its CA bundle has no certificate in PEM", fix)
		return
	}
	if h.client.Service == nil {
		r.ok(name, "it calls %s, which only the API server may reach", where(h.client))
		return
	}
	ctx, stop := context.WithTimeout(ctx, each)
	defer stop()
	shown, err := k.shown(ctx, h.client.Service)
	var gone missing
	switch {
	case errors.As(err, &gone):
		r.add(state, name, "it calls "+where(h.client)+": "+err.Error(),
			"start the control plane (pilotctl install), or remove the webhook if its control plane is gone (pilotctl uninstall)")
		return
	case err != nil:
		r.unknown(name, fmt.Errorf("reach %s: %w", where(h.client), err),
			"is the control plane's pod ready, and does it serve --httpsAddr?")
		return
	}
	served := h.client.Service.Name + "." + h.client.Service.Namespace + ".svc"
	by := x509.VerifyOptions{Roots: pool, Intermediates: identity.Intermediates(shown), DNSName: served}
	if _, err := shown[0].Verify(by); err != nil {
		r.add(Failed, name, "the API server will not believe "+where(h.client)+": "+err.Error(), fix)
		return
	}
	r.expires(name+": certificate of "+served, shown[0].NotBefore, shown[0].NotAfter, time.Now(),
		"the control plane renews it by itself: its log says why it did not")
}

// missing is a part of a webhook that is not there.
type missing struct{ text string }

func (m missing) Error() string { return m.text }

// shown returns the certificates that a pod of a service shows.
func (k kube) shown(ctx context.Context, of *admission.ServiceReference) ([]*x509.Certificate, error) {
	services, err := k.client.Services(of.Namespace).List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + of.Name})
	if err != nil {
		return nil, err
	}
	if len(services.Items) == 0 {
		return nil, missing{"there is no such Service"}
	}
	port := int32(443)
	if of.Port != nil {
		port = *of.Port
	}
	i := slices.IndexFunc(services.Items[0].Spec.Ports, func(p corev1.ServicePort) bool { return p.Port == port })
	if i < 0 {
		return nil, missing{fmt.Sprintf("the Service has no port %d", port)}
	}
	selector := labels.SelectorFromSet(services.Items[0].Spec.Selector).String()
	pods, err := k.client.Pods(of.Namespace).List(ctx, metav1.ListOptions{LabelSelector: selector, Limit: mostListed})
	if err != nil {
		return nil, err
	}
	p := slices.IndexFunc(pods.Items, func(p corev1.Pod) bool { return isReady(&p) })
	if p < 0 {
		return nil, missing{"no pod of it is ready"}
	}
	to := target(services.Items[0].Spec.Ports[i], &pods.Items[p])
	conn, err := k.open(ctx, of.Namespace, pods.Items[p].Name, to)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	// The chain is verified by the caller, with the webhook's own bundle.
	secure := tls.Client(conn, &tls.Config{InsecureSkipVerify: true, ServerName: of.Name + "." + of.Namespace + ".svc"}) //nolint:gosec
	if err := secure.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	return secure.ConnectionState().PeerCertificates, nil
}

// target returns the port of a pod that a port of a service goes to.
func target(p corev1.ServicePort, pod *corev1.Pod) int {
	if p.TargetPort.Type == intstr.String {
		for _, c := range pod.Spec.Containers {
			for _, of := range c.Ports {
				if of.Name == p.TargetPort.StrVal {
					return int(of.ContainerPort)
				}
			}
		}
	}
	if n := p.TargetPort.IntValue(); n > 0 {
		return n
	}
	return int(p.Port)
}

// order looks for webhooks that change pods after the injecting one, which would not see their containers. The API server calls
// configurations in order of their names.
func order(r *results, all []admission.MutatingWebhookConfiguration) {
	slices.SortFunc(all, func(a, b admission.MutatingWebhookConfiguration) int { return strings.Compare(a.Name, b.Name) })
	first := slices.IndexFunc(all, func(c admission.MutatingWebhookConfiguration) bool { return injects(&c) })
	if first < 0 {
		return
	}
	again := !slices.ContainsFunc(all[first].Webhooks, func(w admission.MutatingWebhook) bool {
		return w.ReinvocationPolicy == nil || *w.ReinvocationPolicy != admission.IfNeededReinvocationPolicy
	})
	var later []string
	for i := range all[first+1:] {
		if c := &all[first+1+i]; !injects(c) && changesPods(c) {
			later = append(later, c.Name)
		}
	}
	switch {
	case len(later) == 0:
		r.ok("order", "no other webhook changes pods after %s", all[first].Name)
	case again:
		r.ok("order", "%s changes pods after %s, which is asked again then (reinvocationPolicy)", some(later), all[first].Name)
	default:
		r.add(Warning, "order", some(later)+" change pods after "+all[first].Name+", which does not see what they add",
			"set sidecarInjectorWebhook.reinvocationPolicy=IfNeeded")
	}
}

func changesPods(c *admission.MutatingWebhookConfiguration) bool {
	return slices.ContainsFunc(c.Webhooks, func(w admission.MutatingWebhook) bool {
		return slices.ContainsFunc(w.Rules, func(rule admission.RuleWithOperations) bool {
			return slices.ContainsFunc(rule.Resources, func(of string) bool { return of == "pods" || of == "*" || of == "*/*" })
		})
	})
}
