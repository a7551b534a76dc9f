package input

import (
	"cmp"
	"slices"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"fairway/internal/config"
	"fairway/internal/envoy"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// Objects is an input of what users wrote, of one kind.
type Objects = table.Input[config.Key, *config.Object]

// Tables are all inputs. Any goroutine may stage into them; what is staged between two turns becomes visible together.
type Tables struct {
	VirtualServices, DestinationRules, Gateways, Sidecars *Objects
	ServiceEntries, WorkloadEntries, WorkloadGroups       *Objects
	EnvoyFilters, ProxyConfigs                            *Objects
	PeerAuthentications, RequestAuthentications           *Objects
	AuthorizationPolicies                                 *Objects
	Telemetries, WasmPlugins, TrafficExtensions           *Objects
	Secrets                                               *Objects // their rows print without what is secret
	Mesh                                                  *Objects // MeshConfig, MeshNetworks
	Others                                                *Objects // kinds that have no table of their own
	// Written is where each object is written. Nothing is computed from it: problems and pages look it up, so that a
	// comment on top of a file computes nothing.
	Written         *table.Input[config.Key, config.Written]
	Naming, Serving *table.Input[SourceKey, Source]
	Proxies         *table.Input[mesh.ProxyID, mesh.Proxy]         // connected proxies: demand
	Health          *table.Input[mesh.ProxyID, mesh.HealthReport]  // what agents say of the applications beside them
	HealthHeard     *table.Input[struct{}, bool]                   // its row is there once every agent had the time to say it
	Bundles         *table.Input[mesh.ResourceKey, *envoy.Encoded] // what workloads believe: one row, published as it is
	FileProblems    *table.Input[Place, []mesh.Problem]            // what sources said of files
	Rejections      *table.Input[Rejected, Refusal]                // what proxies refused

	settings *table.Table[string, *meshconfig.MeshConfig]
	extended *table.Table[string, *extension]
	open     []*unenforced
	objects  []*Objects
	byKind   map[config.Kind]*Objects
	store    *table.Store
	opts     Options
}

// Options are what the program's flags say and no object does.
type Options struct {
	DomainSuffix  string // of names of services inside the mesh; "" is cluster.local
	RootNamespace string // where mesh-wide objects live; "" leaves it to MeshConfig.rootNamespace, and that to istio-system
}

// SourceKey names a row of Naming or Serving: an object (Kind, Namespace, Name), a registry's service (its key) or a
// registry's endpoint (service's key and ID).
type SourceKey struct {
	Kind            config.Kind // of an object; empty for a registry's row
	Registry        string      // of a registry's row
	Namespace, Name string
	Host            mesh.Host
	ID              string
}

// CompareSourceKey orders by kind, registry, namespace, name, host, id.
func CompareSourceKey(a, b SourceKey) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Registry, b.Registry), cmp.Compare(a.Namespace, b.Namespace),
		cmp.Compare(a.Name, b.Name), cmp.Compare(a.Host, b.Host), cmp.Compare(a.ID, b.ID))
}

// Source is one row of Naming or Serving: exactly one field is set.
type Source struct {
	Object   *config.Object
	Service  *mesh.Service
	Endpoint *Endpoint
}

// Endpoint is a registry's endpoint with its key.
type Endpoint struct {
	Key mesh.EndpointKey
	mesh.Endpoint
}

func sameSource(a, b Source) bool {
	return config.Same(a.Object, b.Object) && a.Service.Equal(b.Service) &&
		(a.Endpoint == b.Endpoint || a.Endpoint != nil && b.Endpoint != nil && *a.Endpoint == *b.Endpoint)
}

// Place is where a source found problems: a file, or whatever the source reads from.
type Place struct{ Source, Name string }

// ComparePlace orders by source, then name.
func ComparePlace(a, b Place) int {
	return cmp.Or(cmp.Compare(a.Source, b.Source), cmp.Compare(a.Name, b.Name))
}

// Rejected names a resource that a proxy refused, with its type.
type Rejected struct {
	Proxy mesh.ProxyID
	Type  string // the message's name: "Cluster", "RouteConfiguration"
	Key   mesh.ResourceKey
}

// Refusal is what a proxy said, in its words, and of which version. It is comparable.
type Refusal struct {
	Detail  string
	Version uint64 // envoy.Encoded.Version; once the resource has another, the refusal is history
}

// CompareRejected orders by proxy, type, then key.
func CompareRejected(a, b Rejected) int {
	return cmp.Or(cmp.Compare(a.Proxy, b.Proxy), cmp.Compare(a.Type, b.Type), mesh.CompareResourceKey(a.Key, b.Key))
}

// Declare declares the inputs and the settings.
func Declare(s *table.Store, opts Options) *Tables {
	t := &Tables{store: s, opts: opts, byKind: map[config.Kind]*Objects{}}
	objects := func(name string, kinds ...config.Kind) *Objects {
		in := table.NewInput(s, name, config.CompareKey, config.Same)
		for _, k := range kinds {
			t.byKind[k] = in
		}
		t.objects = append(t.objects, in)
		return in
	}
	t.Mesh = objects("mesh", "MeshConfig", "MeshNetworks")
	t.Mesh.Broad()
	t.Others = objects("others")
	t.ServiceEntries = objects("serviceentries", "ServiceEntry")
	t.WorkloadEntries = objects("workloadentries", "WorkloadEntry")
	t.WorkloadGroups = objects("workloadgroups", "WorkloadGroup")
	t.VirtualServices = objects("virtualservices", "VirtualService")
	t.DestinationRules = objects("destinationrules", "DestinationRule")
	t.Gateways = objects("gateways", "Gateway")
	t.Sidecars = objects("sidecars", "Sidecar")
	t.EnvoyFilters = objects("envoyfilters", "EnvoyFilter")
	t.ProxyConfigs = objects("proxyconfigs", "ProxyConfig")
	t.PeerAuthentications = objects("peerauthentications", "PeerAuthentication")
	t.RequestAuthentications = objects("requestauthentications", "RequestAuthentication")
	t.AuthorizationPolicies = objects("authorizationpolicies", "AuthorizationPolicy")
	t.Telemetries = objects("telemetries", "Telemetry")
	t.WasmPlugins = objects("wasmplugins", "WasmPlugin")
	t.TrafficExtensions = objects("trafficextensions", "TrafficExtension")
	t.Secrets = objects("secrets", config.Secret)
	t.Written = table.NewInput(s, "written", config.CompareKey, config.Written.Equal)
	t.Naming = table.NewInput(s, "naming", CompareSourceKey, sameSource)
	t.Serving = table.NewInput(s, "serving", CompareSourceKey, sameSource)
	t.Proxies = table.NewInput(s, "proxies", cmp.Compare[mesh.ProxyID], func(a, b mesh.Proxy) bool { return a == b })
	t.Health = table.NewInput(s, "health", cmp.Compare[mesh.ProxyID], func(a, b mesh.HealthReport) bool { return a == b })
	t.HealthHeard = table.NewInput(s, "health/heard", func(struct{}, struct{}) int { return 0 }, func(a, b bool) bool { return a == b })
	t.Bundles = table.NewInput(s, "bundles", mesh.CompareResourceKey, envoy.Same)
	t.FileProblems = table.NewInput(s, "fileproblems", ComparePlace, slices.Equal[[]mesh.Problem])
	t.Rejections = table.NewInput(s, "rejections", CompareRejected, func(a, b Refusal) bool { return a == b })
	t.settings = declareSettings(t.Mesh.Table)
	t.extended = declareExtensions(t.settings)
	t.declareLater()
	t.declareFileNotes()
	return t
}

// All lists the inputs of objects.
func (t *Tables) All() []*Objects { return t.objects }

// declareFileNotes turns what sources said of files into notes, so that all problems are found in one place.
func (t *Tables) declareFileNotes() {
	table.Derive(t.FileProblems.Table, "fileproblems/notes", ComparePlace, func(_, _ struct{}) bool { return true },
		func(r *table.Reader, _ Place, problems []mesh.Problem, _ func(Place, struct{})) {
			for _, p := range problems {
				r.Note(p)
			}
		})
}
