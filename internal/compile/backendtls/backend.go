package backendtls

import (
	"slices"

	"google.golang.org/protobuf/proto"
	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/compile/gatewayapi"
	"fairway/internal/compile/secret"
	"fairway/internal/envoy/tls"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
)

// client is the certificate that the proxies of a Gateway show to backends. It is comparable.
type client struct {
	secret     secret.Key
	credential string         // as the proxies of the Gateway name it
	lacks      secret.Missing // why it cannot be shown
}

// clientOf looks for the client certificate of a Gateway in a namespace. It notes what is missing, unless that is still to be read.
func (t *Tables) clientOf(r *table.Reader, namespace string, c gatewayapi.Client) client {
	if c.Refused != "" {
		return client{lacks: secret.Missing{Message: c.Refused}}
	}
	out := client{secret: secret.Key{Namespace: c.Namespace, Name: c.Secret}, credential: c.Secret}
	if c.Namespace != namespace {
		out.credential = c.Namespace + "/" + c.Secret
	}
	out.lacks = t.secrets.Certificate(r, c.Namespace, c.Secret)
	if out.lacks == (secret.Missing{}) || out.lacks.Unread {
		return out
	}
	if o, ok := table.Get(r, t.in.KubernetesGateways, c.Gateway); ok {
		r.Note(o.Problem(gatewayapi.ClientCertificate, code.MissingSecret, mesh.Error,
			out.lacks.Message+": requests to backends with a BackendTLSPolicy fail",
			"add it to namespace "+c.Namespace+", of type kubernetes.io/tls with tls.crt and tls.key"))
	}
	return out
}

// Backend is how a gateway connects to a port of a service because of a policy. It is immutable.
type Backend struct {
	Policy mesh.ObjectRef
	// TLS are the settings, as a DestinationRule would have them. CredentialName has the authorities.
	TLS *networking.ClientTLSSettings
	// Certificate is the credential that is shown to the server, if the mode is MUTUAL.
	Certificate string
	// Lacks is why connections cannot be made; the zero Missing: they can.
	Lacks secret.Missing

	needs []secret.Key
}

// Equal reports whether two have the same content.
func (b *Backend) Equal(o *Backend) bool {
	return b == o || b != nil && o != nil && b.Policy == o.Policy && b.Certificate == o.Certificate && b.Lacks == o.Lacks &&
		slices.Equal(b.needs, o.needs) && proto.Equal(b.TLS, o.TLS)
}

// Of returns how a policy makes the gateways of a layer connect to a port of a host. It returns nil if no policy is for the port.
func (t *Tables) Of(r *table.Reader, l mesh.Layer, host mesh.Host, port string) *Backend {
	all, _ := table.Get(r, t.chosen, host)
	s := all[port]
	if s == nil {
		s = all[""]
	}
	if s == nil {
		return nil
	}
	b := &Backend{Policy: s.policy, TLS: s.tls, Lacks: s.lacks, needs: s.configMaps}
	label, ofGateway := mesh.Labels(l.Name).Get(gatewayapi.GatewayName)
	if !ofGateway {
		return b
	}
	c, ok := table.Get(r, t.clients, gatewayapi.ClientKey{Namespace: l.Namespace, Label: label})
	if !ok {
		return b
	}
	b.TLS, b.Certificate = proto.CloneOf(s.tls), c.credential
	b.TLS.Mode = networking.ClientTLSSettings_MUTUAL
	if b.Lacks == (secret.Missing{}) {
		b.Lacks = c.lacks
	}
	if c.credential != "" {
		b.needs = append(slices.Clip(b.needs), c.secret)
	}
	return b
}

// Asks lists the Secrets and ConfigMaps that the clusters of a layer need.
func (b *Backend) Asks(l mesh.Layer) (out []secret.Ask) {
	for _, k := range b.needs {
		out = append(out, secret.Ask{Layer: l, Secret: k})
	}
	return out
}

// Grants lists the secrets that proxies of a layer may have although they may be in other namespaces: the owner of a ConfigMap wrote the
// policy, and the owner of a Secret lets the Gateway name it.
func (b *Backend) Grants(l mesh.Layer) (out []secret.Need) {
	if b.TLS.CredentialName != "" {
		out = append(out, secret.Need{Layer: l, Name: tls.AuthoritySecret(b.TLS.CredentialName)})
	}
	if secret.NamespaceOf(b.Certificate) != "" {
		out = append(out, secret.Need{Layer: l, Name: tls.CertificateSecret(b.Certificate)})
	}
	return out
}
