package convert

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networking "istio.io/api/networking/v1alpha3"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"fairway/internal/config"
	"fairway/internal/config/native"
	"fairway/internal/mesh"
)

// gateway is a Gateway with the listeners that it has in the Gateway API.
type gateway struct {
	from      *config.Object
	listeners []*listener
	written   bool
}

// listener is a host of a server.
type listener struct {
	name      string
	port      uint32
	protocol  mesh.Protocol // that the server names
	kind      gatewayv1.ProtocolType
	ends      bool // it ends TLS
	host      mesh.Host
	namespace string // of the rules that it takes; "*": all
	redirect  bool   // it answers requests with a redirect to HTTPS
}

// takesRequests reports whether the listener takes routes of requests.
func (l *listener) takesRequests() bool {
	return l.kind == gatewayv1.HTTPProtocolType || l.kind == gatewayv1.HTTPSProtocolType
}

// takesConnections reports whether the listener takes routes of plain connections.
func (l *listener) takesConnections() bool {
	return l.kind == gatewayv1.TCPProtocolType || l.kind == gatewayv1.TLSProtocolType && l.ends
}

// passes reports whether the listener passes TLS through.
func (l *listener) passes() bool { return l.kind == gatewayv1.TLSProtocolType && !l.ends }

// gateway converts a Gateway: each host of a server is a listener.
func (c *converter) gateway(o *config.Object) {
	w := c.work(o)
	g := &gateway{from: o}
	c.gateways[o.Key] = g
	spec := config.Spec[*networking.Gateway](o)
	out := &gatewayv1.GatewaySpec{GatewayClassName: gatewayv1.ObjectName(c.Class)}
	used := map[string]bool{}
	for i, s := range spec.GetServers() {
		for _, l := range w.server(g, index("spec.servers", i), s, used) {
			out.Listeners = append(out.Listeners, *l)
		}
	}
	if there := (config.Key{Kind: config.KubernetesGateway, Namespace: o.Namespace, Name: o.Name}); w.names[there] {
		w.bar("metadata.name", "there is a Gateway of the Gateway API with this name", "rename one of them")
	}
	if len(out.Listeners) > 0 {
		w.add(config.KubernetesGateway, o.Name, out, true)
		w.toHTTPS(g)
	}
	if g.written = c.finish(w) && len(w.made) > 0; !g.written {
		return
	}
	w.note("spec.selector", fmt.Sprintf("the proxies of the new Gateway are in namespace %s and have the label "+
		"gateway.networking.k8s.io/gateway-name: %s", o.Namespace, o.Name),
		"in a cluster the control plane deploys them, with an address of their own")
}

// toHTTPS makes the route that answers the requests of listeners with a redirect to HTTPS.
func (w *work) toHTTPS(g *gateway) {
	spec := &native.HTTPRouteSpec{Rules: []native.HTTPRouteRule{{Filters: []native.HTTPRouteFilter{{
		Type:            gatewayv1.HTTPRouteFilterRequestRedirect,
		RequestRedirect: &gatewayv1.HTTPRequestRedirectFilter{Scheme: ptr("https"), StatusCode: ptr(301)},
	}}}}}
	for _, l := range g.listeners {
		if l.redirect {
			spec.ParentRefs = append(spec.ParentRefs, gatewayv1.ParentReference{
				Name: gatewayv1.ObjectName(g.from.Name), SectionName: ptr(gatewayv1.SectionName(l.name)),
			})
		}
	}
	if len(spec.ParentRefs) > 0 {
		w.add(config.HTTPRoute, w.named(config.HTTPRoute, g.from.Namespace, g.from.Name+"-to-https"), spec, true)
	}
}

// noteShared says which Gateways have the same proxies: in the Gateway API, each Gateway has its own.
func (c *converter) noteShared(objects []*config.Object) {
	first := map[string]*config.Object{}
	for _, o := range objects {
		if g := c.gateways[o.Key]; o.Kind != config.Gateway || !g.written {
			continue
		}
		selector := fmt.Sprint(config.Spec[*networking.Gateway](o).GetSelector()) // in the order of the labels
		other := first[selector]
		if other == nil {
			first[selector] = o
			continue
		}
		c.work(o).note("spec.selector", fmt.Sprintf("it has the proxies of Gateway %s/%s; as Gateways of the Gateway API, the two have an "+
			"address each", other.Namespace, other.Name), "to share the address, write its listeners into the other one or a ListenerSet")
	}
}

// server returns the listeners of a server; none: it cannot be said.
func (w *work) server(g *gateway, field string, s *networking.Server, used map[string]bool) (out []*gatewayv1.Listener) {
	before := w.lost
	w.lost = false
	defer func() { w.lost = w.lost || before }()
	base := w.listener(field, s)
	if base == nil || w.lost {
		return nil
	}
	tls := w.serverTLS(field+".tls", base, s.GetTls())
	if w.lost {
		return nil
	}
	for j, written := range s.GetHosts() {
		l := *base
		l.namespace, l.host = "*", mesh.Host(strings.ToLower(written))
		if namespace, host, ok := strings.Cut(written, "/"); ok {
			l.namespace, l.host = namespace, mesh.Host(strings.ToLower(host))
		}
		if l.namespace == "." {
			l.namespace = w.from.Namespace
		}
		if slices.ContainsFunc(g.listeners, func(o *listener) bool { return o.port == l.port && o.host == l.host }) {
			w.lose(index(field+".hosts", j), fmt.Sprintf("another host of the Gateway is %s at port %d, and no two listeners have the "+
				"same port and hostname", l.host, l.port), "write the host once, for all namespaces: \"*/"+string(l.host)+"\"")
			continue
		}
		l.name = sectionName(s.GetPort(), used)
		g.listeners = append(g.listeners, &l)
		out = append(out, w.section(&l, tls))
	}
	return out
}

// section writes a listener.
func (w *work) section(l *listener, tls *gatewayv1.ListenerTLSConfig) *gatewayv1.Listener {
	out := &gatewayv1.Listener{
		Name: gatewayv1.SectionName(l.name), Port: gatewayv1.PortNumber(l.port), Protocol: l.kind, //nolint:gosec // the schema bounds it
		TLS: tls, AllowedRoutes: &gatewayv1.AllowedRoutes{Namespaces: &gatewayv1.RouteNamespaces{}},
	}
	if l.host != "*" && l.kind != gatewayv1.TCPProtocolType {
		out.Hostname = ptr(gatewayv1.Hostname(l.host))
	}
	switch from := out.AllowedRoutes.Namespaces; {
	case l.redirect:
		from.From = ptr(gatewayv1.NamespacesFromSame) // for toHTTPS
	case l.namespace == "*":
		from.From = ptr(gatewayv1.NamespacesFromAll)
	case l.namespace == w.from.Namespace:
		from.From = ptr(gatewayv1.NamespacesFromSame)
	default:
		from.From = ptr(gatewayv1.NamespacesFromSelector)
		from.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": l.namespace}}
	}
	return out
}

// listener reads what all listeners of a server have in common.
func (w *work) listener(field string, s *networking.Server) *listener {
	protocol, known := mesh.ParseProtocol(s.GetPort().GetProtocol())
	out := &listener{port: s.GetPort().GetNumber(), protocol: protocol, redirect: s.GetTls().GetHttpsRedirect()}
	mode := s.GetTls().GetMode()
	passed := mode == networking.ServerTLSSettings_PASSTHROUGH
	switch {
	case !known || protocol == mesh.UDP:
		w.lose(field+".port.protocol", "a gateway does not serve protocol "+s.GetPort().GetProtocol(), "")
		return nil
	case protocol.IsHTTP():
		out.kind = gatewayv1.HTTPProtocolType
	case s.GetTls() == nil && protocol.IsTLS():
		w.lose(field+".tls", "protocol "+protocol.String()+" has no tls", "set tls")
		return nil
	case s.GetTls() == nil || !protocol.IsTLS() && passed:
		out.kind = gatewayv1.TCPProtocolType
	case protocol == mesh.HTTPS && !passed:
		out.kind, out.ends = gatewayv1.HTTPSProtocolType, true
	default:
		out.kind, out.ends = gatewayv1.TLSProtocolType, !passed
	}
	if b := s.GetBind(); b != "" {
		w.lose(field+".bind", "a listener is at all addresses of its proxies", "leave it out")
	}
	if s.GetDefaultEndpoint() != "" {
		w.lose(field+".defaultEndpoint", "a listener has no endpoint of its own", "leave it out")
	}
	return out
}

// serverTLS converts the TLS settings of a server.
func (w *work) serverTLS(field string, l *listener, tls *networking.ServerTLSSettings) *gatewayv1.ListenerTLSConfig {
	if l.passes() {
		return &gatewayv1.ListenerTLSConfig{Mode: ptr(gatewayv1.TLSModePassthrough)}
	}
	if !l.ends {
		return nil
	}
	w.refuseTLS(field, tls)
	if l.redirect {
		w.lose(field+".httpsRedirect", "the server has HTTPS already", "leave it out")
	}
	out := &gatewayv1.ListenerTLSConfig{Mode: ptr(gatewayv1.TLSModeTerminate)}
	names := tls.GetCredentialNames()
	if len(names) == 0 && tls.GetCredentialName() != "" {
		names = []string{tls.GetCredentialName()}
	}
	for _, name := range names {
		out.CertificateRefs = append(out.CertificateRefs, w.certificate(field, name))
	}
	if len(names) == 0 {
		w.lose(field, "a listener has its certificate in a Secret", "put the certificate into a Secret and name it with credentialName")
	}
	return out
}

// certificate refers to the Secret of a credential.
func (w *work) certificate(field, name string) gatewayv1.SecretObjectReference {
	name = strings.TrimPrefix(name, "kubernetes://")
	ref := gatewayv1.SecretObjectReference{Name: gatewayv1.ObjectName(name)}
	namespace, short, ok := strings.Cut(name, "/")
	switch {
	case strings.Contains(name, "://"):
		w.lose(field+".credentialName", "a listener has its certificate in a Secret", "name a Secret")
	case ok:
		ref.Name, ref.Namespace = gatewayv1.ObjectName(short), ptr(gatewayv1.Namespace(namespace))
		put(w.need, grant{config.KubernetesGateway, w.from.Namespace, "Secret", namespace}, short)
	default:
		w.note(field+".credentialName", fmt.Sprintf("a listener reads Secret %s in the Gateway's namespace %s", name, w.from.Namespace),
			"if the Secret is in the namespace of the proxies, copy it, or name that namespace and write a ReferenceGrant there")
	}
	return ref
}

// refuseTLS says which TLS settings a listener does not have.
func (w *work) refuseTLS(field string, tls *networking.ServerTLSSettings) {
	switch tls.GetMode() {
	case networking.ServerTLSSettings_SIMPLE:
	case networking.ServerTLSSettings_MUTUAL, networking.ServerTLSSettings_OPTIONAL_MUTUAL:
		w.lose(field+".mode", "a Gateway verifies clients by authorities in ConfigMaps",
			"put ca.crt of the Secret into a ConfigMap and name it in spec.tls.frontend of the Gateway")
	default:
		w.lose(field+".mode", "a listener has no mode "+tls.GetMode().String(), "keep the Gateway")
	}
	has := map[string]bool{
		"serverCertificate": tls.GetServerCertificate() != "", "privateKey": tls.GetPrivateKey() != "",
		"caCertificates": tls.GetCaCertificates() != "", "tlsCertificates": len(tls.GetTlsCertificates()) > 0,
		"caCertCredentialName": tls.GetCaCertCredentialName() != "", "caCrl": tls.GetCaCrl() != "",
		"subjectAltNames":       len(tls.GetSubjectAltNames()) > 0,
		"verifyCertificateSpki": len(tls.GetVerifyCertificateSpki()) > 0, "verifyCertificateHash": len(tls.GetVerifyCertificateHash()) > 0,
	}
	for _, name := range slices.Sorted(maps.Keys(has)) {
		if has[name] {
			w.lose(field+"."+name, "a listener does not have this", "put certificates into Secrets, or keep the Gateway")
		}
	}
	if tls.GetMinProtocolVersion() != 0 || tls.GetMaxProtocolVersion() != 0 || len(tls.GetCipherSuites()) > 0 {
		w.lose(field, "a listener has no versions of TLS and no cipher suites", "leave them out: the proxy's defaults count")
	}
}

// sectionName returns a listener's name: the port's, with a number if that is taken.
func sectionName(p *networking.Port, used map[string]bool) string {
	base := strings.Trim(strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(p.GetName())), "-")
	if base == "" || len(base) > 50 {
		base = fmt.Sprint("port-", p.GetNumber())
	}
	name := base
	for i := 2; used[name]; i++ {
		name = fmt.Sprintf("%s-%d", base, i)
	}
	used[name] = true
	return name
}

// grant says which references into a namespace a ReferenceGrant allows.
type grant struct {
	fromKind config.Kind
	from     string
	toKind   string
	to       string
}

// writeGrants writes a ReferenceGrant for each kind and namespace of references into a namespace.
func (c *converter) writeGrants() {
	for g, names := range c.grants {
		spec := &gatewayv1.ReferenceGrantSpec{From: []gatewayv1.ReferenceGrantFrom{{
			Group: gatewayv1.GroupName, Kind: gatewayv1.Kind(g.fromKind.Word()), Namespace: gatewayv1.Namespace(g.from),
		}}}
		for _, name := range slices.Sorted(maps.Keys(names)) {
			spec.To = append(spec.To, gatewayv1.ReferenceGrantTo{Kind: gatewayv1.Kind(g.toKind), Name: ptr(gatewayv1.ObjectName(name))})
		}
		name := strings.ToLower(fmt.Sprintf("%ss-of-%s-to-%ss", g.fromKind.Word(), g.from, g.toKind))
		for i, part := range slices.Collect(slices.Chunk(spec.To, mostGranted)) {
			one := &gatewayv1.ReferenceGrantSpec{From: spec.From, To: part}
			k := config.Key{Kind: config.ReferenceGrant, Namespace: g.to, Name: name}
			if i > 0 {
				k.Name = fmt.Sprintf("%s-%02d", name, i+1)
			}
			c.out = append(c.out, &config.Object{Key: k, Native: one})
		}
	}
}

// mostGranted is how many names a ReferenceGrant has (ReferenceGrantSpec.to).
const mostGranted = 16
