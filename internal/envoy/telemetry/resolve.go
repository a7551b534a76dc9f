package telemetry

import (
	"fmt"
	"slices"

	meshconfig "istio.io/api/mesh/v1alpha1"
	telemetryv1alpha1 "istio.io/api/telemetry/v1alpha1"

	"fairway/internal/envoy/listener"
)

// Mesh holds the telemetry settings of the mesh's configuration.
type Mesh struct {
	Log       listener.AccessLog // if no Telemetry has settings: MeshConfig.accessLogFile and related fields
	Providers map[string]*meshconfig.MeshConfig_ExtensionProvider
	Defaults  *meshconfig.MeshConfig_DefaultProviders  // nil: metrics alone
	Spans     *meshconfig.Tracing                      // MeshConfig.defaultConfig.tracing: settings of spans that no Telemetry has
	Tracer    *meshconfig.MeshConfig_ExtensionProvider // that Spans names, used if nothing else names a provider; nil: none
	// Cluster returns the cluster of a provider's service, and the host that it leads to; false: there is no such service.
	Cluster func(service string, port uint32) (cluster, host string, ok bool)
}

// Level is one of the Telemetries that apply; nil has no settings.
type Level = *telemetryv1alpha1.Telemetry

// Note receives settings of a level that cannot be applied: the field, the reason, and what would be right.
type Note func(level int, field, message, fix string)

// Resolve returns the telemetry of one side of a workload: for the requests and connections that it serves, or for those that it sends.
// levels are the Telemetries of the mesh, the namespace and the workload.
func Resolve(m Mesh, serves bool, note Note, levels ...Level) listener.AccessLog {
	t := resolver{mesh: m, serves: serves, note: note, levels: levels}
	out := m.Log
	out.Count = listener.Source
	if serves {
		out.Count = listener.Destination
	}
	told := &listener.Telemetry{Changed: t.metrics(&out.Count)}
	logged := t.logs(told)
	spans := t.spans(told)
	if !logged {
		told.Loggers = fromMesh(m.Log)
	}
	if !logged && !spans && len(told.Changed) == 0 {
		return out
	}
	slices.Sort(told.Needs)
	told.Needs = slices.Compact(told.Needs)
	out.Telemetry = told
	return out
}

// resolver applies the levels to one side.
type resolver struct {
	full   bool // a metric has the maximum number of labels, which was noted
	mesh   Mesh
	serves bool
	note   Note
	levels []Level
}

// means reports whether an entry is for the side (WorkloadMode).
func (t *resolver) means(mode telemetryv1alpha1.WorkloadMode) bool {
	switch mode {
	case telemetryv1alpha1.WorkloadMode_CLIENT:
		return !t.serves
	case telemetryv1alpha1.WorkloadMode_SERVER:
		return t.serves
	}
	return true
}

// names returns the names of providers.
func names(refs []*telemetryv1alpha1.ProviderRef) (out []string) {
	for _, r := range refs {
		out = append(out, r.GetName())
	}
	return out
}

// place returns the path of a field of an entry, for notes.
func place(list string, i int, field string) string {
	return fmt.Sprintf("spec.%s[%d].%s", list, i, field)
}

// known returns a provider of the mesh. If there is none, it notes that at the entry that names it.
func (t *resolver) known(level int, field, name string) (*meshconfig.MeshConfig_ExtensionProvider, bool) {
	p, ok := t.mesh.Providers[name]
	if !ok {
		t.note(level, field, fmt.Sprintf("the mesh has no provider %q: no data is sent to it", name),
			"name one of MeshConfig.extensionProviders, or add it there")
	}
	return p, ok
}

// cluster returns the cluster of a provider's service, and adds it to the clusters that told needs.
func (t *resolver) cluster(told *listener.Telemetry, level int, field, service string, port uint32) (name, host string, ok bool) {
	name, host, ok = t.mesh.Cluster(service, port)
	if !ok {
		t.note(level, field, fmt.Sprintf("no service %s with port %d is known, so the provider gets no data", service, port),
			"correct service and port of the provider in MeshConfig.extensionProviders, or declare the service")
		return "", "", false
	}
	told.Needs = append(told.Needs, name)
	return name, host, true
}
