package gatewayapi

import (
	"cmp"
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"fairway/internal/compile/gatewayapi/grants"
	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
)

// ClientKey names the proxies of a Gateway by its namespace and by their label GatewayName.
type ClientKey struct{ Namespace, Label string }

// CompareClient orders by namespace, then label.
func CompareClient(a, b ClientKey) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Label, b.Label))
}

// Client is the certificate that the proxies of a Gateway show to backends which have a BackendTLSPolicy
// (GatewayBackendTLS.clientCertificateRef). It is comparable.
type Client struct {
	Gateway           config.Key
	Namespace, Secret string
	// Refused is the reason why the Gateway may not use the Secret, as its problem says it. It is empty if the Gateway may.
	Refused string
}

// ClientCertificate is the field of a Gateway that names the certificate.
const ClientCertificate = "spec.tls.backend.clientCertificateRef"

// clientOf returns the reference of a Gateway to its client certificate; nil: it has none.
func clientOf(o *config.Object) *gatewayv1.SecretObjectReference {
	if spec := native[gatewayv1.GatewaySpec](o).TLS; spec != nil && spec.Backend != nil {
		return spec.Backend.ClientCertificateRef
	}
	return nil
}

// declareClients finds the client certificates of Gateways.
func (t *Tables) declareClients() {
	m := &t.maker
	has := func(_ config.Key, o *config.Object) bool { return clientOf(o) != nil }
	t.Clients = table.DeriveWhere(m.gateways, has, "gatewayapi/client certificates", CompareClient, table.Same[Client],
		func(r *table.Reader, k config.Key, o *config.Object, emit func(ClientKey, Client)) {
			ref := clientOf(o)
			c := Client{
				Gateway: k, Namespace: string(value(ref.Namespace, gatewayv1.Namespace(o.Namespace))), Secret: string(ref.Name),
			}
			note := func(word, message, fix string) {
				c.Refused = message
				r.Note(o.Problem(ClientCertificate, word, mesh.Error, message+": requests to backends with a BackendTLSPolicy fail", fix))
			}
			switch kind, group := value(ref.Kind, "Secret"), value(ref.Group, ""); {
			case kind != "Secret" || group != "":
				note(code.NotSupported, fmt.Sprintf("%s of group %q is not a certificate", kind, group), "name a Secret")
			case !IsName(c.Secret):
				note(code.MissingSecret, "no Secret can have this name", "write a name in small letters, with digits, dashes and dots")
			case !m.grants.Allow(r, grants.Reference{
				FromKind: o.Kind.Word(), From: o.Namespace, ToKind: "Secret", To: c.Namespace, Name: c.Secret,
			}):
				note(code.NotGranted, fmt.Sprintf("no ReferenceGrant in namespace %s lets Gateways of namespace %s name Secret %s",
					c.Namespace, o.Namespace, c.Secret), "let the Secret's owner write one, or name a Secret of the own namespace")
			}
			emit(ClientKey{o.Namespace, shortName(o.Name)}, c)
		})
}

// IsName reports whether a Secret or a ConfigMap can have a name. The API's schema lets references have any, and a credential with a slash
// or a colon means an object of another namespace, which no ReferenceGrant allows.
func IsName(name string) bool { return len(validation.IsDNS1123Subdomain(name)) == 0 }
