package gatewayapi

import (
	"fmt"
	"strconv"

	"google.golang.org/protobuf/types/known/wrapperspb"
	networking "istio.io/api/networking/v1alpha3"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"fairway/internal/compile/gatewayapi/grants"
	"fairway/internal/compile/secret"
	"fairway/internal/config"
	"fairway/internal/envoy/tls"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
)

// verification holds a Gateway's settings for the verification of clients (FrontendTLSValidation), and their field.
type verification struct {
	gateway *config.Object
	field   string
	spec    *gatewayv1.FrontendTLSValidation
}

// verifications returns those of a Gateway: the default one, and those of ports.
func verifications(gateway *config.Object) (out []verification) {
	spec := native[gatewayv1.GatewaySpec](gateway).TLS
	if spec == nil || spec.Frontend == nil {
		return nil
	}
	add := func(field string, v *gatewayv1.FrontendTLSValidation) {
		if v != nil {
			out = append(out, verification{gateway, field + ".validation", v})
		}
	}
	add("spec.tls.frontend.default", spec.Frontend.Default.Validation)
	for i, p := range spec.Frontend.PerPort {
		add(index("spec.tls.frontend.perPort", i)+".tls", p.TLS.Validation)
	}
	return out
}

// verification returns how clients of a listener are to be verified; nil: not at all. It holds for HTTPS alone (GatewayTLSConfig.frontend).
func (m *maker) verification(r *table.Reader, l *listener) *verification {
	if l.spec.Protocol != gatewayv1.HTTPSProtocolType || !ends(l.key(), l) {
		return nil
	}
	gateway, ok := table.Get(r, m.gateways, l.gateway)
	if !ok {
		return nil
	}
	spec := native[gatewayv1.GatewaySpec](gateway).TLS
	if spec == nil || spec.Frontend == nil {
		return nil
	}
	out := verification{gateway, "spec.tls.frontend.default.validation", spec.Frontend.Default.Validation}
	for i, p := range spec.Frontend.PerPort {
		if p.Port == l.spec.Port {
			out.field, out.spec = index("spec.tls.frontend.perPort", i)+".tls.validation", p.TLS.Validation
		}
	}
	if out.spec == nil {
		return nil
	}
	return &out
}

// refs is the field with the references to authorities.
func (v *verification) refs() string { return v.field + ".caCertificateRefs" }

// authority returns the credential with the authorities that one reference names. wrong says why there is none; nil: it may be named.
func (m *maker) authority(r *table.Reader, v *verification, i int) (credential string, wrong *mesh.Problem) {
	ref, from := v.spec.CACertificateRefs[i], v.gateway
	problem := func(field, word, message, fix string) (string, *mesh.Problem) {
		p := from.Problem(index(v.refs(), i)+field, word, mesh.Error, message+": HTTPS listeners that need it are not served", fix)
		return "", &p
	}
	name, namespace := string(ref.Name), string(value(ref.Namespace, gatewayv1.Namespace(from.Namespace)))
	switch {
	case ref.Group != "" || ref.Kind != "ConfigMap":
		return problem(".kind", code.NotSupported,
			fmt.Sprintf("%s of group %q holds no authorities", ref.Kind, ref.Group), "name a ConfigMap")
	case !IsName(name):
		return problem(".name", code.BadName, strconv.Quote(name)+" is not the name of a ConfigMap",
			"write the name alone; namespace has a field of its own")
	case !m.grants.Allow(r, grants.Reference{
		FromKind: from.Kind.Word(), From: from.Namespace, ToKind: "ConfigMap", To: namespace, Name: name,
	}):
		return problem("", code.NotGranted, fmt.Sprintf("no ReferenceGrant in namespace %s lets Gateways of namespace %s name ConfigMap %s",
			namespace, from.Namespace, name), "let the ConfigMap's owner write one, or name a ConfigMap of the own namespace")
	}
	return tls.InConfigMap(namespace, name), nil
}

// authorities returns the credential with all authorities that clients of a listener are verified by. It returns false if one of them may
// not be named, because a listener must not verify its clients by a part of them.
func (m *maker) authorities(r *table.Reader, v *verification) (credential string, ok bool) {
	var all []string
	for i := range v.spec.CACertificateRefs {
		name, wrong := m.authority(r, v, i)
		if wrong != nil {
			return "", false
		}
		all = append(all, name)
	}
	return secret.Together(all), len(all) > 0
}

// verify adds to the TLS settings of a listener how its clients are verified. It returns false if they cannot be: the listener is not
// served. The Gateway's own problems say why.
func (m *maker) verify(r *table.Reader, l *listener, to *networking.ServerTLSSettings, made *config.Made) bool {
	v := m.verification(r, l)
	if v == nil {
		return true
	}
	name, ok := m.authorities(r, v)
	if !ok {
		return false
	}
	to.Mode, to.CaCertCredentialName = networking.ServerTLSSettings_MUTUAL, name
	if v.spec.Mode == gatewayv1.AllowInsecureFallback {
		to.Mode, to.InsecureSkipVerify = networking.ServerTLSSettings_OPTIONAL_MUTUAL, wrapperspb.Bool(true)
	}
	made.Granted = append(made.Granted, name)
	of := v.refs()
	switch {
	case l.owner.Kind == config.ListenerSet:
		of = l.field() + ".tls" // the Gateway is another object
	case len(v.spec.CACertificateRefs) == 1:
		of = index(of, 0)
	}
	made.Fields = append(made.Fields, config.MadeOf{Field: "spec.servers[0].tls.caCertCredentialName", Of: of})
	return true
}

// noteVerifications notes the references of a Gateway to authorities that it may not name.
func (m *maker) noteVerifications(r *table.Reader, gateway *config.Object) {
	for _, v := range verifications(gateway) {
		for i := range v.spec.CACertificateRefs {
			if _, wrong := m.authority(r, &v, i); wrong != nil {
				r.Note(*wrong)
			}
		}
	}
}

// fallsBack reports whether clients of some listener of a Gateway are let in without a valid certificate
// (GatewayConditionInsecureFrontendValidationMode).
func fallsBack(gateway *config.Object) bool {
	for _, v := range verifications(gateway) {
		if v.spec.Mode == gatewayv1.AllowInsecureFallback {
			return true
		}
	}
	return false
}

// unverified says why clients of a listener cannot be verified. The zero unverified: they can be, or are not to be.
type unverified struct {
	reason  gatewayv1.ListenerConditionReason
	message string // of the first reference that is wrong
	all     bool   // every reference is wrong
}

// lackingAuthority returns why the authorities that clients of a listener are verified by cannot be used. One that has not been looked for
// yet is usable.
func (j judge) lackingAuthority(r *table.Reader, l *listener) (out unverified) {
	v := j.verification(r, l)
	if v == nil {
		return unverified{}
	}
	out.all = true
	for i := range v.spec.CACertificateRefs {
		reason, message := gatewayv1.ListenerReasonInvalidCACertificateRef, ""
		name, wrong := j.authority(r, v, i)
		switch {
		case wrong == nil:
			if _, why := j.secrets.Trusted(r, homeOf(l, name), name); !why.Unread {
				message = why.Message
			}
		case wrong.Code == code.NotSupported:
			reason, message = gatewayv1.ListenerReasonInvalidCACertificateKind, wrong.Message
		case wrong.Code == code.NotGranted:
			reason, message = gatewayv1.ListenerReasonRefNotPermitted, wrong.Message
		default:
			message = wrong.Message
		}
		switch {
		case message == "":
			out.all = false
		case out.message == "":
			out.reason, out.message = reason, message
		}
	}
	return out
}
