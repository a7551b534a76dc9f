package backendtls

import (
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"
	networking "istio.io/api/networking/v1alpha3"
	"k8s.io/apimachinery/pkg/util/validation"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"fairway/internal/compile/gatewayapi"
	"fairway/internal/compile/secret"
	"fairway/internal/config"
	"fairway/internal/envoy/tls"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
)

func spec(o *config.Object) *gatewayv1.BackendTLSPolicySpec {
	return o.Native.(*gatewayv1.BackendTLSPolicySpec)
}

// target is what one of a policy's targetRefs means.
type target struct {
	index   int
	host    mesh.Host
	section string // the name of a port; empty: all ports
}

func (of target) field() string { return fmt.Sprintf("spec.targetRefs[%d]", of.index) }

// targets lists the targets of a policy that are Services.
func (t *Tables) targets(o *config.Object) (out []target) {
	for i, ref := range spec(o).TargetRefs {
		if ref.Group != "" || ref.Kind != "Service" || len(validation.IsDNS1123Label(string(ref.Name))) > 0 {
			continue
		}
		of := target{index: i, host: mesh.FullHost(string(ref.Name), o.Namespace, t.in.DomainSuffix())}
		if ref.SectionName != nil {
			of.section = string(*ref.SectionName)
		}
		out = append(out, of)
	}
	return out
}

// checkTargets notes targets that do not exist.
func (t *Tables) checkTargets(r *table.Reader, o *config.Object) {
	for i, ref := range spec(o).TargetRefs {
		if ref.Group != "" || ref.Kind != "Service" {
			r.Note(o.Problem(target{index: i}.field()+".kind", code.NotSupported, mesh.Error,
				fmt.Sprintf("a policy for a %s of group %q has no effect", ref.Kind, ref.Group), "name a Service"))
		}
	}
	for _, of := range t.targets(o) {
		services, _ := table.Get(r, t.reg.ServicesByHost, of.host)
		if services.Len() == 0 {
			r.Note(o.Problem(of.field()+".name", code.UnknownHost, mesh.Warning, fmt.Sprintf("there is no service %s", of.host),
				"name a Service of the policy's namespace"))
			continue
		}
		named := of.section == ""
		for _, s := range services.All() {
			named = named || slices.ContainsFunc(s.Service.Ports, func(p mesh.Port) bool { return p.Name == of.section })
		}
		if !named {
			r.Note(o.Problem(of.field()+".sectionName", code.UnknownPort, mesh.Warning,
				fmt.Sprintf("%s has no port with the name %s: the policy has no effect there", of.host, of.section),
				"write the name of a port, or leave it out"))
		}
	}
}

// settings are what a policy says of the connections to its targets. They are immutable.
type settings struct {
	policy mesh.ObjectRef
	tls    *networking.ClientTLSSettings
	// configMaps are those that the policy names, whether or not they can be used.
	configMaps []secret.Key
	lacks      secret.Missing // why connections cannot be made
}

func (s *settings) equal(o *settings) bool {
	return s.policy == o.policy && s.lacks == o.lacks && slices.Equal(s.configMaps, o.configMaps) && proto.Equal(s.tls, o.tls)
}

// Row implements table.Rower.
func (s *settings) Row() []string {
	if s.lacks != (secret.Missing{}) {
		return []string{"none: " + s.lacks.Message}
	}
	return []string{fmt.Sprintf("%s %q from %s%s", s.tls.Sni, s.tls.SubjectAltNames, s.tls.CredentialName, s.tls.CaCertificates)}
}

// configMaps lists the ConfigMaps with authorities that a policy names.
func configMaps(o *config.Object) (out []secret.Key) {
	for _, ref := range spec(o).Validation.CACertificateRefs {
		if isConfigMap(ref) && gatewayapi.IsName(string(ref.Name)) {
			out = append(out, secret.Key{Namespace: o.Namespace, Name: string(ref.Name), ConfigMap: true})
		}
	}
	slices.SortFunc(out, secret.CompareKey)
	return slices.Compact(out)
}

func isConfigMap(ref gatewayv1.LocalObjectReference) bool {
	return ref.Group == "" && ref.Kind == "ConfigMap"
}

// settingsOf reads a policy (BackendTLSPolicyValidation), and notes what cannot be carried out.
func (t *Tables) settingsOf(r *table.Reader, o *config.Object) *settings {
	v := spec(o).Validation
	out := &settings{policy: o.Ref, configMaps: configMaps(o), tls: &networking.ClientTLSSettings{
		Mode: networking.ClientTLSSettings_SIMPLE, Sni: string(v.Hostname), SubjectAltNames: namesOf(v),
	}}
	if len(spec(o).Options) > 0 {
		r.Note(o.Problem("spec.options", code.NotSupported, mesh.Warning, "no option is known: they have no effect", "leave them out"))
	}
	if known := v.WellKnownCACertificates; known != nil {
		out.tls.CaCertificates = tls.System
		if *known != gatewayv1.WellKnownCACertificatesSystem {
			out.lacks.Message = fmt.Sprintf("wellKnownCACertificates %q are not known", *known)
			r.Note(o.Problem("spec.validation.wellKnownCACertificates", code.UnknownValue, mesh.Error,
				out.lacks.Message+": requests to the backend fail", "write System, or name a ConfigMap in caCertificateRefs"))
		}
		return out
	}
	var names []string
	for i, ref := range v.CACertificateRefs {
		why := t.authorities(r, o, i, ref)
		switch {
		case why == (secret.Missing{}):
			names = append(names, tls.InConfigMap(o.Namespace, string(ref.Name)))
		case out.lacks == (secret.Missing{}) || why.Unread:
			out.lacks = why
		}
	}
	if len(names) > 0 && !out.lacks.Unread {
		slices.Sort(names)
		out.lacks, out.tls.CredentialName = secret.Missing{}, secret.Together(slices.Compact(names))
	}
	return out
}

// authorities returns why a reference to authorities cannot be used. It notes that unless they are still to be read.
func (t *Tables) authorities(r *table.Reader, o *config.Object, i int, ref gatewayv1.LocalObjectReference) (why secret.Missing) {
	field := fmt.Sprintf("spec.validation.caCertificateRefs[%d]", i)
	const then = ": certificates of its authorities are not accepted"
	switch {
	case !isConfigMap(ref):
		why.Message = fmt.Sprintf("%s of group %q cannot hold authorities", ref.Kind, ref.Group)
		r.Note(o.Problem(field+".kind", code.NotSupported, mesh.Error, why.Message+then, "name a ConfigMap"))
		return why
	case !gatewayapi.IsName(string(ref.Name)):
		why.Message, why.Fix = "no ConfigMap can have this name", "write a name in small letters, with digits, dashes and dots"
	default:
		why = t.secrets.Authorities(r, o.Namespace, tls.InConfigMap(o.Namespace, string(ref.Name)))
		why.Fix = "create ConfigMap " + string(ref.Name) + " in namespace " + o.Namespace + ", with certificates in PEM under ca.crt"
		if why.Message == "" {
			return secret.Missing{}
		}
	}
	if !why.Unread {
		r.Note(o.Problem(field, code.MissingSecret, mesh.Error, why.Message+then, why.Fix))
	}
	return why
}

// namesOf returns the names of which a backend's certificate must have one.
func namesOf(v gatewayv1.BackendTLSPolicyValidation) (out []string) {
	for _, n := range v.SubjectAltNames {
		if n.Type == gatewayv1.URISubjectAltNameType {
			out = append(out, string(n.URI))
		} else {
			out = append(out, string(n.Hostname))
		}
	}
	if out == nil {
		out = []string{string(v.Hostname)}
	}
	return out
}

// choice is the policies in force for the ports of a host, by the name of the port; the one under "" is for all others.
type choice map[string]*settings

func (c choice) equal(o choice) bool { return maps.EqualFunc(c, o, (*settings).equal) }

// choose finds the policies in force for a host: the oldest for a port, and the oldest for all ports
// (BackendTLSPolicySpec.targetRefs). Others are noted.
func (t *Tables) choose(r *table.Reader, host mesh.Host, rows table.Rows[config.Key, *config.Object]) choice {
	var all []*config.Object
	for _, o := range rows.All() {
		all = append(all, o)
	}
	slices.SortFunc(all, config.Older)
	out := choice{}
	for _, o := range all {
		for _, of := range t.targets(o) {
			if of.host != host {
				continue
			}
			if first := out[of.section]; first != nil {
				p := o.Problem(of.field(), code.Shadowed, mesh.Error,
					fmt.Sprintf("%s is older and has the same target: this policy has no effect there", first.policy),
					"remove one of the two, or name another port in sectionName")
				p.Other = first.policy
				r.Note(p)
				continue
			}
			if s, ok := table.Get(r, t.settings, o.Key); ok {
				out[of.section] = s
			}
		}
	}
	return out
}
