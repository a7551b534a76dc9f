package gateway

import (
	"cmp"
	"fmt"

	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/compile/secret"
	"fairway/internal/config"
	"fairway/internal/envoy/tls"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
)

// This file says what Gateways of other namespaces may do with a gateway: use its files and Secrets, and take hosts.

// selects reports whether a Gateway may select the proxies of a layer. If Gateways are scoped, it may select only proxies of its own
// namespace.
func (t *Tables) selects(r *table.Reader, gateway *config.Object, l mesh.Layer) bool {
	if gateway.Namespace == l.Namespace || gateway.Made != nil && gateway.Made.Alone {
		return gateway.Namespace == l.Namespace
	}
	return !t.in.ScopesGateways(r) || t.in.SharesGateways(r, gateway.Namespace, l.Namespace)
}

// noteScoped notes a Gateway that would select gateways of another namespace.
func noteScoped(r *table.Reader, o *config.Object, namespace string) {
	r.Note(o.Problem("spec.selector", code.NotGranted, mesh.Warning,
		fmt.Sprintf("gateways of namespace %s have these labels, and Gateways of namespace %s do not count for them",
			namespace, o.Namespace),
		fmt.Sprintf("write the Gateway in namespace %s; or let the mesh's administrator add %s to defaultConfig.proxyMetadata.%s",
			namespace, o.Namespace, config.GatewayNamespacesKey)))
}

// refused finds what a Gateway of another namespace names but may not use: a file of the gateway's machine, or a Secret of its namespace.
// It returns the zero value if the Gateway may use everything that it names.
func (t *Tables) refused(r *table.Reader, l mesh.Layer, gateway *config.Object, s *networking.ServerTLSSettings) lacking {
	own := gateway.Namespace
	if s == nil || own == l.Namespace || s.GetMode() == networking.ServerTLSSettings_ISTIO_MUTUAL {
		return lacking{}
	}
	if files := tls.Files(s); len(files) > 0 && !t.in.SharesGateways(r, own, l.Namespace) {
		return lacking{fileField(s), secret.Missing{
			Message: fmt.Sprintf("files of gateways of namespace %s are not for Gateways of namespace %s", l.Namespace, own),
			Fix: fmt.Sprintf("write the Gateway in namespace %s; or let the mesh's administrator add %s to defaultConfig.proxyMetadata.%s",
				l.Namespace, own, config.GatewayNamespacesKey),
		}}
	}
	for i, name := range tls.Credentials(s) {
		if why := t.secrets.Shared(r, l.Namespace, name, own); why != (secret.Missing{}) {
			field := "credentialName"
			if s.GetCredentialName() == "" {
				field = index("credentialNames", i)
			}
			return lacking{field, why}
		}
	}
	return lacking{}
}

// fileField returns the first field that names a file.
func fileField(s *networking.ServerTLSSettings) string {
	switch {
	case s.GetServerCertificate() != "":
		return "serverCertificate"
	case s.GetPrivateKey() != "":
		return "privateKey"
	case s.GetCaCertificates() != "":
		return "caCertificates"
	case s.GetCaCrl() != "":
		return "caCrl"
	}
	return "tlsCertificates"
}

// namedAt is a host, or a wildcard, that servers of a port name.
type namedAt struct {
	port PortKey
	host mesh.Host
}

func compareNamedAt(a, b namedAt) int {
	return cmp.Or(comparePort(a.port, b.port), cmp.Compare(a.host, b.host))
}

// declareNamed indexes the servers of gateways by port and host.
func (t *Tables) declareNamed() {
	t.named = table.Index(t.Servers, "gateway/servers by host", compareNamedAt, func(k ServerKey, s *Server) (out []namedAt) {
		for _, h := range s.names() {
			if h != "*" {
				out = append(out, namedAt{k.Port, h})
			}
		}
		return out
	})
}

// others notes the hosts of a server, of a Gateway of another namespace than the gateway's, that another namespace's Gateway serves at
// the port too, or has a wildcard above. Both Gateways get the problem.
func (c checker) others(l mesh.Layer, s *networking.Server) {
	own := c.gateway.Namespace
	if own == l.Namespace || own == c.t.in.RootNamespace(c.r) {
		return
	}
	at := portOf(l, s)
	for _, h := range (&Server{Gateway: c.gateway, Spec: s}).names() {
		if h == "*" {
			continue
		}
		for _, above := range append([]mesh.Host{h}, h.Wildcards()...) {
			if above == "*" {
				continue
			}
			rows, _ := table.Get(c.r, c.t.named, namedAt{at, above})
			for k := range rows.All() {
				if k.Gateway.Namespace != own {
					c.takes(h, k, above)
					break
				}
			}
		}
	}
}

// takes notes that the Gateway has a host that is another's, or below its wildcard, on both.
func (c checker) takes(host mesh.Host, other ServerKey, above mesh.Host) {
	theirs, ok := table.Get(c.r, c.t.gateways, other.Gateway)
	if !ok {
		return
	}
	fix := fmt.Sprintf("nothing, if that is meant; %s: %s in MeshConfig (defaultConfig.proxyMetadata) keeps Gateways to gateways of "+
		"their own namespace", config.OwnershipKey, config.OwnershipStrict)
	what := fmt.Sprintf("%s, below your %s", host, above)
	if above == host {
		what = string(host) + " too"
	}
	c.r.Note(theirs.Problem(field(other.Index)+".hosts", code.ForeignRule, mesh.Info,
		fmt.Sprintf("Gateway %s/%s of another namespace serves %s, by the same gateways", c.gateway.Namespace, c.gateway.Name, what), fix))
	c.note(mesh.Info, code.ForeignRule, ".hosts",
		fmt.Sprintf("Gateway %s/%s of another namespace serves %s by the same gateways: clients of that host are routed by this one, "+
			"where it has precedence", theirs.Namespace, theirs.Name, above), fix)
}
