package input

import (
	"slices"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"fairway/internal/config"
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
	"default_providers",
	"extension_providers",
}

// elsewhere are fields that others read: the agent, the injector, those who write into a cluster.
var elsewhere = [...]string{"default_config", "ingress_service"}

// declareLater notes what is accepted and kept but has no effect yet: whole kinds, and fields of the mesh's
// configuration that say something else than their default.
func (t *Tables) declareLater() {
	for _, in := range []*Objects{t.ProxyConfigs, t.Others} {
		table.Derive(in, in.Name()+"/later", config.CompareKey, table.Same[struct{}],
			func(r *table.Reader, _ config.Key, o *config.Object, _ func(config.Key, struct{})) {
				r.Note(NotYet(o, "", "objects of this kind"))
			})
	}
	table.Derive(t.WorkloadGroups, "workloadgroups/later", config.CompareKey, table.Same[struct{}],
		func(r *table.Reader, k config.Key, o *config.Object, _ func(config.Key, struct{})) {
			if w, has := table.Get(r, t.Written.Table, k); has && w.Stored.UID != "" {
				return // an API server has it, and the control plane writes WorkloadEntries beside it
			}
			r.Note(mesh.Problem{
				Object:   o.Ref,
				Code:     code.NotYet,
				Severity: mesh.Info,
				Message: "outside of a cluster no WorkloadEntry is made of the group when a machine's agent connects: write one for " +
					"each machine, as pilotctl workload config --address does; its labels are given to its service account",
			})
		})
	table.Derive(t.Mesh, "mesh/later", config.CompareKey, table.Same[struct{}],
		func(r *table.Reader, k config.Key, o *config.Object, _ func(config.Key, struct{})) {
			if k.Kind != config.MeshConfig {
				return
			}
			for _, field := range idle(config.Spec[*meshconfig.MeshConfig](o)) {
				r.Note(NotYet(o, field, "values of this field"))
			}
		})
}

// idle lists the fields of a mesh's configuration that differ from their default and do nothing yet, by their JSON names, sorted.
func idle(spec *meshconfig.MeshConfig) []string {
	var out []string
	defaults := config.DefaultMeshConfig().ProtoReflect()
	spec.ProtoReflect().Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		name := string(fd.Name())
		if !slices.Contains(inForce[:], name) && !slices.Contains(elsewhere[:], name) && !sameField(fd, v, defaults) {
			out = append(out, fd.JSONName())
		}
		return true
	})
	slices.Sort(out)
	return out
}

// sameField says whether a field has the value that it has in another message.
func sameField(fd protoreflect.FieldDescriptor, v protoreflect.Value, other protoreflect.Message) bool {
	a, b := &meshconfig.MeshConfig{}, &meshconfig.MeshConfig{}
	a.ProtoReflect().Set(fd, v)
	if other.Has(fd) {
		b.ProtoReflect().Set(fd, other.Get(fd))
	}
	return proto.Equal(a, b)
}

// NotYet is the problem that says of a field, or of a whole object where field is empty, that it is accepted and does nothing yet.
func NotYet(o *config.Object, field, what string) mesh.Problem {
	return mesh.Problem{
		Object:   o.Ref,
		Field:    field,
		Code:     code.NotYet,
		Severity: mesh.Info,
		Message:  what + " are accepted and kept, but have no effect yet",
	}
}
