package input

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"fairway/internal/config"
	"fairway/internal/envoy/tls"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
)

// inForce are the fields of MeshConfig that something is derived from, by their proto names.
var inForce = [...]string{
	"root_namespace",
	"outbound_traffic_policy",
	"connect_timeout",
	"dns_refresh_rate",
	"protocol_detection_timeout",
	"tcp_keepalive",
	"access_log_file",
	"access_log_format",
	"access_log_encoding",
	"default_http_retry_policy",
	"default_traffic_policy",
	"h2_upgrade_policy",
	"path_normalization",
	"outbound_cluster_stat_name",
	"inbound_cluster_stat_name",
	"proxy_listen_port",
	"proxy_inbound_listen_port",
	"default_service_export_to",
	"default_virtual_service_export_to",
	"default_destination_rule_export_to",
	"enable_auto_mtls",
	"trust_domain",
	"trust_domain_aliases",
	"ingress_class",
	"ingress_controller_mode",
	"ingress_selector",
	"locality_lb_setting",
	"zone_aware_lb_setting",
	"default_providers",
	"extension_providers",
	"service_settings",
	"inbound_traffic_policy",
	"mesh_mTLS",
	"tls_defaults",
	"disable_envoy_listener_log",
	"enable_tracing",
	"proxy_http_port",
	"ca_certificates",
	"service_entry_visibility",
}

// never are fields that mean nothing to this mesh, each with the reason, and what does what they are for, if something does.
var never = map[string][2]string{
	"hbone_idle_timeout": {"this mesh has no ztunnel, which alone is spoken to by HBONE", ""},
	"service_scope_configs": {
		"they are for ztunnel and waypoints, which this mesh has none of", "set serviceSettings for services of one cluster",
	},
	"enable_envoy_access_log_service": {
		"proxies log to the services that providers name",
		"add an extensionProvider envoyHttpAls, and name it in defaultProviders.accessLogging",
	},
	"verify_certificate_at_client": {
		"proxies verify TLS servers, unless a DestinationRule says otherwise", "set tls.insecureSkipVerify in a DestinationRule",
	},
	"ca": {"the control plane's own authority signs, or the ones that agents are configured with", "see docs/identity.md"},
}

// elsewhere are fields that are read elsewhere: by the agent, by the injector, and by programs that write into a cluster.
var elsewhere = [...]string{
	"default_config", "ingress_service", "discovery_selectors", "enable_prometheus_merge", "certificates", "config_sources",
}

// declareLater notes objects and fields that are accepted and kept but have no effect yet: whole kinds, and fields of the mesh's
// configuration that differ from their default.
func (t *Tables) declareLater() {
	table.Derive(t.Others, t.Others.Name()+"/later", config.CompareKey, table.Same[struct{}],
		func(r *table.Reader, _ config.Key, o *config.Object, _ func(config.Key, struct{})) {
			r.Note(WithoutEffect(o, "", "objects of this kind"))
		})
	table.Derive(t.ProxyConfigs, "proxyconfigs/later", config.CompareKey, table.Same[struct{}],
		func(r *table.Reader, k config.Key, o *config.Object, _ func(config.Key, struct{})) {
			if t.stored(r, k) {
				return // an API server has it, and the injector uses it
			}
			r.Note(mesh.Problem{
				Object:   o.Ref,
				Code:     code.NotYet,
				Severity: mesh.Info,
				Message: "only injection uses it: an agent that was not injected reads such objects from a file of its " +
					"own (--proxyConfigs)",
			})
		})
	table.Derive(t.Mesh, "mesh/later", config.CompareKey, table.Same[struct{}],
		func(r *table.Reader, k config.Key, o *config.Object, _ func(config.Key, struct{})) {
			if k.Kind != config.MeshConfig {
				return
			}
			spec := config.Spec[*meshconfig.MeshConfig](o)
			for _, fd := range idle(spec) {
				if why, ok := never[string(fd.Name())]; ok {
					r.Note(o.Problem(fd.JSONName(), code.Unused, mesh.Info, "the field does nothing here: "+why[0], why[1]))
				} else {
					r.Note(WithoutEffect(o, fd.JSONName(), "values of this field"))
				}
			}
			_, unbelieved := config.RootsOf(spec, t.TrustDomains(r))
			noteParts(r, o, spec, unbelieved)
		})
}

// stored reports whether an API server has an object.
func (t *Tables) stored(r *table.Reader, k config.Key) bool {
	w, has := table.Get(r, t.Written.Table, k)
	return has && w.Stored.UID != ""
}

// noteParts notes values that have no effect in fields that are in force. unbelieved are those of caCertificates.
func noteParts(r *table.Reader, o *config.Object, spec *meshconfig.MeshConfig, unbelieved []config.Unmet) {
	if p := spec.GetOutboundTrafficPolicy(); p.GetTls() != nil &&
		p.GetMode() != meshconfig.MeshConfig_OutboundTrafficPolicy_ALLOW_ANY_DYNAMIC_DNS {
		r.Note(o.Problem("outboundTrafficPolicy.tls", code.Unused, mesh.Warning,
			"only requests in the mode ALLOW_ANY_DYNAMIC_DNS are sent over TLS", "leave it out, or write that mode"))
	}
	if spec.GetOutboundTrafficPolicy().GetTls().GetCredentialName() != "" {
		r.Note(o.Problem("outboundTrafficPolicy.tls.credentialName", code.Unused, mesh.Error,
			"sidecars get no Secrets for undeclared hosts: with mode MUTUAL requests to them are answered 503, with "+
				"SIMPLE the machine's roots are trusted", "name files that the workloads have"))
	}
	const suite = "ECDHE-RSA-AES128-GCM-SHA256"
	for _, f := range []struct {
		field string
		list  []string
		is    func(string) bool
		what  string
		fix   string
	}{
		{"meshMTLS.cipherSuites", spec.GetMeshMTLS().GetCipherSuites(), tls.KnownCipher, "cipher suite", suite},
		{"tlsDefaults.cipherSuites", spec.GetTlsDefaults().GetCipherSuites(), tls.KnownCipher, "cipher suite", suite},
		{"tlsDefaults.ecdhCurves", spec.GetTlsDefaults().GetEcdhCurves(), tls.KnownCurve, "curve", "P-256"},
	} {
		for i, v := range f.list {
			if !f.is(v) {
				r.Note(o.Problem(fmt.Sprintf("%s[%d]", f.field, i), code.UnknownValue, mesh.Warning,
					strconv.Quote(v)+" is no "+f.what+" that Envoy knows: it is left out", "write one as "+f.fix))
			}
		}
	}
	noteDefaultConfig(r, o, spec.GetDefaultConfig())
	noteTracing(r, o, spec.GetDefaultConfig().GetTracing(), spec.GetEnableTracing())
	_, unkept := config.CertificatesOf(spec)
	_, unread := config.ConfigSourcesOf(spec)
	for _, c := range slices.Concat(unkept, unread, unbelieved) {
		r.Note(o.Problem(c.Field, code.BadValue, mesh.Error, c.Why, c.Instead))
	}
	if len(spec.GetMeshMTLS().GetEcdhCurves()) > 0 {
		r.Note(o.Problem("meshMTLS.ecdhCurves", code.Unused, mesh.Warning,
			"mutual TLS of the mesh has Envoy's own curves, as Istio's API says", "leave it out"))
	}
}

// idle lists the fields of a mesh's configuration that differ from their default and do nothing, sorted by their JSON names.
func idle(spec *meshconfig.MeshConfig) []protoreflect.FieldDescriptor {
	var out []protoreflect.FieldDescriptor
	defaults := config.DefaultMeshConfig().ProtoReflect()
	spec.ProtoReflect().Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		name := string(fd.Name())
		if !slices.Contains(inForce[:], name) && !slices.Contains(elsewhere[:], name) && !sameField(fd, v, defaults) {
			out = append(out, fd)
		}
		return true
	})
	slices.SortFunc(out, func(a, b protoreflect.FieldDescriptor) int { return strings.Compare(a.JSONName(), b.JSONName()) })
	return out
}

// sameField reports whether a field has the same value in another message.
func sameField(fd protoreflect.FieldDescriptor, v protoreflect.Value, other protoreflect.Message) bool {
	a, b := &meshconfig.MeshConfig{}, &meshconfig.MeshConfig{}
	a.ProtoReflect().Set(fd, v)
	if other.Has(fd) {
		b.ProtoReflect().Set(fd, other.Get(fd))
	}
	return proto.Equal(a, b)
}

// WithoutEffect returns the problem of a field that is accepted and does nothing yet. If field is empty, this is so for the whole object.
func WithoutEffect(o *config.Object, field, what string) mesh.Problem {
	return mesh.Problem{
		Object:   o.Ref,
		Field:    field,
		Code:     code.NotYet,
		Severity: mesh.Info,
		Message:  what + " are accepted and kept, but have no effect yet",
	}
}
