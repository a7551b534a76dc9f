package telemetry

import (
	"fmt"
	"slices"

	meshconfig "istio.io/api/mesh/v1alpha1"
	telemetryv1alpha1 "istio.io/api/telemetry/v1alpha1"

	"fairway/internal/envoy/listener"
)

// Mesh is what the mesh's configuration says of telemetry.
type Mesh struct {
	Log       listener.AccessLog // where no Telemetry says anything: MeshConfig.accessLogFile and what belongs to it
	Providers map[string]*meshconfig.MeshConfig_ExtensionProvider
	Defaults  *meshconfig.MeshConfig_DefaultProviders  // nil: metrics alone
	Spans     *meshconfig.Tracing                      // MeshConfig.defaultConfig.tracing: what spans are where no Telemetry says it
	Tracer    *meshconfig.MeshConfig_ExtensionProvider // that it names, for where nobody names a provider; nil: none
	// Cluster names the cluster of a provider's service and the host that it stands for; false: there is no such service.
	Cluster func(service string, port uint32) (cluster, host string, ok bool)
}

// Level is one Telemetry of those that hold: nil says nothing.
type Level = *telemetryv1alpha1.Telemetry

// Note is told of what a level says and nobody can do: its field, why, and what would be right.
type Note func(level int, field, message, fix string)

// Tell is what a side tells of requests and connections: of what it serves, or of what it sends. levels are those of the mesh,
// the namespace and the workload.
func Tell(m Mesh, serves bool, note Note, levels ...Level) listener.AccessLog {
	t := teller{mesh: m, serves: serves, note: note, levels: levels}
	out := m.Log
	out.Count = listener.Source
	if serves {
		out.Count = listener.Destination
	}
	told := &listener.Told{Changed: t.metrics(&out.Count)}
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
	out.Told = told
	return out
}

// teller reads the levels for one side.
type teller struct {
	full   bool // a metric has as many labels as it may get, which was noted
	mesh   Mesh
	serves bool
	note   Note
	levels []Level
}

// means says whether an entry is for the side (WorkloadMode).
func (t *teller) means(mode telemetryv1alpha1.WorkloadMode) bool {
	switch mode {
	case telemetryv1alpha1.WorkloadMode_CLIENT:
		return !t.serves
	case telemetryv1alpha1.WorkloadMode_SERVER:
		return t.serves
	}
	return true
}

// names lists providers by name.
func names(refs []*telemetryv1alpha1.ProviderRef) (out []string) {
	for _, r := range refs {
		out = append(out, r.GetName())
	}
	return out
}

// place is a field of an entry, for notes.
func place(list string, i int, field string) string {
	return fmt.Sprintf("spec.%s[%d].%s", list, i, field)
}

// known says, on an entry that names it, that the mesh has no such provider.
func (t *teller) known(level int, field, name string) (*meshconfig.MeshConfig_ExtensionProvider, bool) {
	p, ok := t.mesh.Providers[name]
	if !ok {
		t.note(level, field, fmt.Sprintf("the mesh has no provider %q: nothing is told to it", name),
			"name one of MeshConfig.extensionProviders, or add it there")
	}
	return p, ok
}

// cluster is that of a provider's service.
func (t *teller) cluster(told *listener.Told, level int, field, service string, port uint32) (name, host string, ok bool) {
	name, host, ok = t.mesh.Cluster(service, port)
	if !ok {
		t.note(level, field, fmt.Sprintf("no service %s with port %d is known, so nothing is told to the provider", service, port),
			"correct service and port of the provider in MeshConfig.extensionProviders, or declare the service")
		return "", "", false
	}
	told.Needs = append(told.Needs, name)
	return name, host, true
}
