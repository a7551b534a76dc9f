package gatewayapi

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"fairway/internal/compile/gatewayapi/grants"
	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
)

// GatewayName is the label of proxies that names the Gateway which they serve, as the Gateway API says of the workloads of a Gateway.
const GatewayName = "gateway.networking.k8s.io/gateway-name"

// longestLabel is how many bytes the value of a label may have.
const longestLabel = 63

// shortName returns a name of at most 63 bytes for a name of any length: a longer one ends with a hash of the whole.
func shortName(name string) string {
	if len(name) <= longestLabel {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	hash := "-" + hex.EncodeToString(sum[:4])
	return name[:longestLabel-len(hash)] + hash
}

// nameOf returns the name of the objects that are made of a listener. Users cannot write a name with such a character.
func (l *listener) nameOf() string {
	if l.owner.Kind == config.ListenerSet {
		return l.gateway.Name + "~" + l.owner.Namespace + "~" + l.owner.Name + "~" + string(l.spec.Name)
	}
	return l.gateway.Name + "~" + string(l.spec.Name)
}

// madeKey is the key of the Gateway that is made of a listener.
func (l *listener) madeKey() config.Key {
	return config.Key{Kind: config.Gateway, Namespace: l.gateway.Namespace, Name: l.nameOf()}
}

// gateway makes the Gateway of a listener; nil: it is not served, and a problem says why.
func (m *maker) gateway(r *table.Reader, l *listener) *config.Object {
	server := &networking.Server{
		Port: &networking.Port{
			Number: uint32(l.spec.Port), //nolint:gosec // the schema bounds it
			Name:   string(l.spec.Name), Protocol: string(l.spec.Protocol),
		},
		Hosts: []string{"*/" + string(l.host())},
	}
	made := &config.Made{
		Alone: true,
		Fields: []config.MadeOf{
			{Field: "spec", Of: l.field()},
			{Field: "spec.servers[0]", Of: l.field(), Moved: true},
			{Field: "spec.servers[0].hosts", Of: l.field() + ".hostname"},
			{Field: "spec.servers[0].port.number", Of: l.field() + ".port"},
			{Field: "spec.servers[0].port.protocol", Of: l.field() + ".protocol"},
		},
	}
	switch l.spec.Protocol {
	case gatewayv1.HTTPProtocolType, gatewayv1.TCPProtocolType:
	case gatewayv1.UDPProtocolType:
		made.Datagrams = true
	case gatewayv1.HTTPSProtocolType, gatewayv1.TLSProtocolType:
		if server.Tls = m.tls(r, l, made); server.Tls == nil {
			return nil
		}
	default:
		r.Note(l.owner.Problem(l.field()+".protocol", code.NotSupported, mesh.Error,
			"listeners of protocol "+strconv.Quote(string(l.spec.Protocol))+" are not served", "write HTTP, HTTPS, TLS, TCP or UDP"))
		return nil
	}
	spec := &networking.Gateway{
		Selector: map[string]string{GatewayName: shortName(l.gateway.Name)}, Servers: []*networking.Server{server},
	}
	return config.NewMade(l.madeKey(), l.owner, spec, made)
}

// tls returns the TLS settings of a listener (ListenerTLSConfig); nil: it cannot be served. It adds to made what the settings are made of.
func (m *maker) tls(r *table.Reader, l *listener, made *config.Made) *networking.ServerTLSSettings {
	at := l.field() + ".tls"
	if l.spec.TLS == nil {
		r.Note(l.owner.Problem(at, code.Missing, mesh.Error, "a listener of protocol "+string(l.spec.Protocol)+" has no tls", "set tls"))
		return nil
	}
	if value(l.spec.TLS.Mode, gatewayv1.TLSModeTerminate) == gatewayv1.TLSModePassthrough {
		return &networking.ServerTLSSettings{Mode: networking.ServerTLSSettings_PASSTHROUGH}
	}
	out := &networking.ServerTLSSettings{Mode: networking.ServerTLSSettings_SIMPLE}
	verified := m.verify(r, l, out, made)
	for i, ref := range l.spec.TLS.CertificateRefs {
		of := index(at+".certificateRefs", i)
		name, wrong := m.certificate(r, l, of, ref)
		if wrong != nil {
			r.Note(*wrong)
			continue
		}
		own := index("spec.servers[0].tls.credentialNames", len(out.CredentialNames))
		made.Fields = append(made.Fields, config.MadeOf{Field: own, Of: of})
		out.CredentialNames = append(out.CredentialNames, name)
		if strings.Contains(name, "/") {
			made.Granted = append(made.Granted, name)
		}
	}
	if len(out.CredentialNames) == 0 || !verified {
		return nil // notes say why
	}
	return out
}

// certificate returns the credential with a certificate that a listener refers to. wrong says why there is none; nil: there is one.
func (m *maker) certificate(r *table.Reader, l *listener, field string, ref gatewayv1.SecretObjectReference) (
	credential string, wrong *mesh.Problem,
) {
	problem := func(word, message, fix string) (string, *mesh.Problem) {
		p := l.owner.Problem(field, word, mesh.Error, message+": it is not shown to clients", fix)
		return "", &p
	}
	name := string(ref.Name)
	if value(ref.Group, "") != "" || value(ref.Kind, "Secret") != "Secret" {
		return problem(code.NotSupported,
			fmt.Sprintf("%s of group %q is not a certificate", value(ref.Kind, "Secret"), value(ref.Group, "")), "name a Secret")
	}
	if !IsName(name) {
		return problem(code.BadName, strconv.Quote(name)+" is not the name of a Secret",
			"write the name alone; namespace has a field of its own")
	}
	namespace := string(value(ref.Namespace, gatewayv1.Namespace(l.owner.Namespace)))
	if !m.grants.Allow(r, grants.Reference{
		FromKind: l.owner.Kind.Word(), From: l.owner.Namespace, ToKind: "Secret", To: namespace, Name: name,
	}) {
		return problem(code.NotGranted, fmt.Sprintf("no ReferenceGrant in namespace %s lets %ss of namespace %s name Secret %s",
			namespace, l.owner.Kind.Word(), l.owner.Namespace, name),
			"let the Secret's owner write one, or name a Secret of the own namespace")
	}
	if namespace != l.gateway.Namespace {
		return namespace + "/" + name, nil
	}
	return name, nil
}

// index is the path of an element of a list.
func index(field string, i int) string { return field + "[" + strconv.Itoa(i) + "]" }
