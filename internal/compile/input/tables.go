package input

import (
	"cmp"
	"fmt"
	"slices"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"fairway/internal/config"
	"fairway/internal/envoy"
	"fairway/internal/jwks"
	"fairway/internal/mesh"
	"fairway/internal/mesh/alias"
	"fairway/internal/mesh/code"
	"fairway/internal/source"
	"fairway/internal/table"
	"fairway/internal/xdstype"
)

// Objects is a table of objects of one kind: those that users wrote, and those that are made from other kinds (Maker).
type Objects = table.Table[config.Key, *config.Object]

// Tables are the inputs and the tables that join them. Any goroutine may stage into the inputs, and Apply; rows that are staged between two
// turns become visible together. Derivations read the tables, never an input of objects or of a registry's rows, because only the tables
// also hold made objects.
type Tables struct {
	VirtualServices, DestinationRules, Gateways, Sidecars *Objects
	ServiceEntries, WorkloadEntries, WorkloadGroups       *Objects
	EnvoyFilters, ProxyConfigs                            *Objects
	PeerAuthentications, RequestAuthentications           *Objects
	AuthorizationPolicies                                 *Objects
	Telemetries, WasmPlugins, TrafficExtensions           *Objects
	Ingresses, IngressClasses                             *Objects
	GatewayClasses, KubernetesGateways, ListenerSets      *Objects // those of the Gateway API
	HTTPRoutes, GRPCRoutes, TLSRoutes                     *Objects
	TCPRoutes, UDPRoutes                                  *Objects
	ReferenceGrants, BackendTLSPolicies                   *Objects
	InferencePools                                        *Objects
	Secrets                                               *Objects // printed without their secret parts
	Mesh                                                  *Objects // MeshConfig, MeshNetworks
	Others                                                *Objects // kinds that have no table of their own
	// Naming is all that names hosts: ServiceEntries, InferencePools, VirtualServices, DestinationRules, registries' services.
	// Serving is all that serves them: ServiceEntries, WorkloadEntries, registries' slices and workloads.
	Naming, Serving *table.Table[SourceKey, Source]
	Machines        *table.Table[mesh.MachineKey, mesh.Machine]
	Namespaces      *table.Table[mesh.NamespaceKey, mesh.Namespace]
	Workloads       *table.Table[mesh.WorkloadKey, *mesh.Workload]
	// Written is where each object is written. Nothing is computed from it but who may have a Secret: problems and pages
	// look it up, so that a comment on top of a file computes nothing.
	Written      *table.Input[config.Key, config.Written]
	Proxies      *table.Input[mesh.ProxyID, mesh.Proxy]         // connected proxies: demand
	Health       *table.Input[mesh.ProxyID, mesh.HealthReport]  // what agents report of the applications beside them
	HealthReady  *table.Input[struct{}, bool]                   // its row is there once every agent had the time to say it
	SourcesRead  *table.Input[struct{}, bool]                   // its row is there once every source has been read
	Revised      *table.Input[struct{}, []string]               // the names of this control plane's revision; no row: all are its own
	HealthStored *table.Input[config.Key, bool]                 // what other control planes wrote of WorkloadEntries' applications
	Members      *table.Input[mesh.ProxyID, Member]             // machines with proxies that name a WorkloadGroup, outside a cluster
	Bundles      *table.Input[mesh.ResourceKey, *envoy.Encoded] // the mesh's own authority's roots and CRLs: one row
	Roots        *table.Table[mesh.ResourceKey, *envoy.Encoded] // the roots that workloads trust: one row, published
	KeySets      *table.Input[jwks.Source, jwks.Answer]         // what issuers of tokens answered
	Resolved     *table.Input[mesh.Host, Resolved]              // what name servers answered of gateways' names
	Enforced     *table.Input[config.Key, *config.Object]       // RequestAuthentications in the version that was in force last
	FileProblems *table.Input[source.Place, []mesh.Problem]     // what sources said of files
	Rejections   *table.Input[Rejected, Refusal]                // what proxies refused
	Unreadable   *table.Input[File, string]                     // files that proxies cannot read, with what they said

	services     *table.Input[mesh.ServiceKey, *mesh.Service]
	slices       *table.Input[mesh.SliceKey, *mesh.Slice]
	workloads    *table.Input[mesh.WorkloadKey, *mesh.Workload]
	machines     *table.Input[mesh.MachineKey, mesh.Machine]
	namespaces   *table.Input[mesh.NamespaceKey, mesh.Namespace]
	settings     *table.Table[string, *meshconfig.MeshConfig]
	extended     *table.Table[string, *extension]
	clusterLocal *table.Table[string, clusterLocal]
	inputs       map[config.Kind]*table.Input[config.Key, *config.Object]
	objects      []*Objects
	byKind       map[config.Kind]*Objects
	store        *table.Store
	opts         Options
}

// Options are what the program's flags say and no object does.
type Options struct {
	DomainSuffix  string // of names of services inside the mesh; "" is cluster.local
	RootNamespace string // where mesh-wide objects live, unless MeshConfig.rootNamespace names another place; "": istio-system
	Cluster       string // that rules come from: of services that several clusters have its version goes first; "": of none
	Keys          Keys
	// Resolves says that somebody resolves the names of gateways that are asked for, into Resolved.
	Resolves bool
	// ScopeGateways limits Gateways to gateways of their own namespace, as MeshConfig's strict ownership does.
	ScopeGateways bool
	// DeployGateways says that Gateways of the Gateway API are deployed in the cluster.
	DeployGateways bool
}

// DeploysGateways reports whether Gateways of the Gateway API are deployed in the cluster.
func (t *Tables) DeploysGateways() bool { return t.opts.DeployGateways }

// Maker declares tables of objects that are made from the rows that came in: from other kinds, or from a registry's rows. In t it finds the
// inputs, the settings, and the written objects of each kind.
type Maker func(t *Tables) []Made

// Made are objects of a kind that are made, not written. One that has the key of a written one gives way to it. If two makers make the same
// key, the first one's object counts.
type Made struct {
	Kind    config.Kind
	Objects *Objects
	// Instead says that each object replaces the written one with its key, which it is made from. Derivations read it; Of and All have the
	// written one.
	Instead bool
}

// SourceKey names a row of Naming or Serving: an object (Kind, Namespace, Name), a registry's service (its key), slice
// (the service's key and the slice's name) or workload.
type SourceKey struct {
	Kind            config.Kind // of an object, or one of the kinds of rows below
	Registry        string      // of a registry's row
	Namespace, Name string
	Host            mesh.Host
	Part            string // of a service: the slice's name
}

// The kinds of a registry's rows in a SourceKey. No kind of object is called so.
const (
	ofService  config.Kind = ""
	ofSlice    config.Kind = "slice"
	ofWorkload config.Kind = "workload"
)

// Object returns the object that the key names; false: it names a registry's row.
func (k SourceKey) Object() (config.Key, bool) {
	if k.Kind == ofService || k.Kind == ofSlice || k.Kind == ofWorkload {
		return config.Key{}, false
	}
	return config.Key{Kind: k.Kind, Namespace: k.Namespace, Name: k.Name}, true
}

// CompareSourceKey orders by kind, registry, namespace, name, host, part.
func CompareSourceKey(a, b SourceKey) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Registry, b.Registry), cmp.Compare(a.Namespace, b.Namespace),
		cmp.Compare(a.Name, b.Name), cmp.Compare(a.Host, b.Host), cmp.Compare(a.Part, b.Part))
}

// Source is one row of Naming or Serving: exactly one field is set.
type Source struct {
	Object   *config.Object
	Service  *mesh.Service
	Slice    *mesh.Slice
	Workload *mesh.Workload
}

func sameSource(a, b Source) bool {
	return config.Same(a.Object, b.Object) && a.Service.Equal(b.Service) && a.Slice.Equal(b.Slice) &&
		a.Workload.Equal(b.Workload)
}

// Member is a machine with a proxy that names a WorkloadGroup. It is comparable.
type Member struct {
	config.Member
	Standing mesh.Standing // the evidence for what the proxy claims
	Here     bool          // its stream comes from the control plane's own machine
	// Elsewhere: it is registered with another control plane, which shares it (app/machines).
	Elsewhere bool
}

// Rejected names a resource that a proxy refused, with its type.
type Rejected struct {
	Proxy mesh.ProxyID
	Type  xdstype.Type
	Key   mesh.ResourceKey
}

// Refusal holds the words of a proxy that refused a resource, and the resource's version. It is comparable.
type Refusal struct {
	Detail  string
	Version uint64 // envoy.Encoded.Version; once the resource has another, the refusal is history
}

// CompareRejected orders by proxy, type, then key.
func CompareRejected(a, b Rejected) int {
	return cmp.Or(cmp.Compare(a.Proxy, b.Proxy), cmp.Compare(a.Type, b.Type), mesh.CompareResourceKey(a.Key, b.Key))
}

// others is the input of kinds that have none of their own.
const others config.Kind = ""

// Declare declares the inputs, the settings, and the tables of objects with what makers make.
func Declare(s *table.Store, opts Options, makers ...Maker) *Tables {
	t := &Tables{
		store:  s,
		opts:   opts,
		byKind: map[config.Kind]*Objects{},
		inputs: map[config.Kind]*table.Input[config.Key, *config.Object]{},
	}
	kinds := t.declareWritten()
	t.Written = table.NewInput(s, "written", config.CompareKey, config.Written.Equal)
	t.services = table.NewInput(s, "services/registries", mesh.CompareServiceKey, (*mesh.Service).Equal)
	t.slices = table.NewInput(s, "slices", mesh.CompareSliceKey, (*mesh.Slice).Equal)
	t.workloads = table.NewInput(s, "workloads", mesh.CompareWorkloadKey, (*mesh.Workload).Equal)
	t.machines = table.NewInput(s, "machines", mesh.CompareMachineKey, table.Same[mesh.Machine])
	t.namespaces = table.NewInput(s, "namespaces", mesh.CompareNamespaceKey, table.Same[mesh.Namespace])
	t.Workloads, t.Machines, t.Namespaces = t.workloads.Table, t.machines.Table, t.namespaces.Table
	t.Proxies = table.NewInput(s, "proxies", cmp.Compare[mesh.ProxyID], table.Same[mesh.Proxy])
	t.Health = table.NewInput(s, "health", cmp.Compare[mesh.ProxyID], table.Same[mesh.HealthReport])
	t.HealthReady = table.NewInput(s, "health/heard", func(struct{}, struct{}) int { return 0 }, table.Same[bool])
	t.SourcesRead = table.NewInput(s, "sources read", func(struct{}, struct{}) int { return 0 }, table.Same[bool])
	t.Revised = table.NewInput(s, "revision", func(struct{}, struct{}) int { return 0 }, slices.Equal[[]string])
	t.HealthStored = table.NewInput(s, "health/stored", config.CompareKey, table.Same[bool])
	t.Members = table.NewInput(s, "members", cmp.Compare[mesh.ProxyID], table.Same[Member])
	t.Bundles = table.NewInput(s, "bundles", mesh.CompareResourceKey, envoy.Same)
	t.Enforced = table.NewInput(s, "enforced", config.CompareKey, config.Same)
	t.Resolved = table.NewInput(s, "resolved names", cmp.Compare[mesh.Host], table.Same[Resolved])
	t.KeySets = table.NewInput(s, "keysets", jwks.Compare, table.Same[jwks.Answer])
	t.FileProblems = table.NewInput(s, "fileproblems", source.ComparePlace, slices.Equal[[]mesh.Problem])
	t.Rejections = table.NewInput(s, "rejections", CompareRejected, table.Same[Refusal])
	t.Unreadable = table.NewInput(s, "unreadable files", CompareFile, table.Same[string])
	t.settings = declareSettings(t.Mesh)
	t.extended = declareExtensions(t.settings)
	t.clusterLocal = declareClusterLocal(t.settings)
	t.declareRoots()
	t.declareMade(kinds, makers)
	t.declareUnions()
	t.declareLater()
	t.declareFileNotes()
	return t
}

// ofKinds is a table of objects: its name, its kinds, and the field that holds it.
type ofKinds struct {
	name  string
	to    **Objects
	kinds []config.Kind
}

// declareWritten declares the inputs of what users write.
func (t *Tables) declareWritten() []ofKinds {
	all := []ofKinds{
		{"mesh", &t.Mesh, []config.Kind{config.MeshConfig, config.MeshNetworks}},
		{"others", &t.Others, []config.Kind{others}},
		{"serviceentries", &t.ServiceEntries, []config.Kind{config.ServiceEntry}},
		{"workloadentries", &t.WorkloadEntries, []config.Kind{config.WorkloadEntry}},
		{"workloadgroups", &t.WorkloadGroups, []config.Kind{config.WorkloadGroup}},
		{"virtualservices", &t.VirtualServices, []config.Kind{config.VirtualService}},
		{"destinationrules", &t.DestinationRules, []config.Kind{config.DestinationRule}},
		{"gateways", &t.Gateways, []config.Kind{config.Gateway}},
		{"sidecars", &t.Sidecars, []config.Kind{config.Sidecar}},
		{"envoyfilters", &t.EnvoyFilters, []config.Kind{config.EnvoyFilter}},
		{"proxyconfigs", &t.ProxyConfigs, []config.Kind{config.ProxyConfig}},
		{"peerauthentications", &t.PeerAuthentications, []config.Kind{config.PeerAuthentication}},
		{"requestauthentications", &t.RequestAuthentications, []config.Kind{config.RequestAuthentication}},
		{"authorizationpolicies", &t.AuthorizationPolicies, []config.Kind{config.AuthorizationPolicy}},
		{"telemetries", &t.Telemetries, []config.Kind{config.Telemetry}},
		{"wasmplugins", &t.WasmPlugins, []config.Kind{config.WasmPlugin}},
		{"trafficextensions", &t.TrafficExtensions, []config.Kind{config.TrafficExtension}},
		{"ingresses", &t.Ingresses, []config.Kind{config.Ingress}},
		{"ingressclasses", &t.IngressClasses, []config.Kind{config.IngressClass}},
		{"gatewayclasses", &t.GatewayClasses, []config.Kind{config.GatewayClass}},
		{"gateways of the API", &t.KubernetesGateways, []config.Kind{config.KubernetesGateway}},
		{"listenersets", &t.ListenerSets, []config.Kind{config.ListenerSet}},
		{"httproutes", &t.HTTPRoutes, []config.Kind{config.HTTPRoute}},
		{"grpcroutes", &t.GRPCRoutes, []config.Kind{config.GRPCRoute}},
		{"tlsroutes", &t.TLSRoutes, []config.Kind{config.TLSRoute}},
		{"tcproutes", &t.TCPRoutes, []config.Kind{config.TCPRoute}},
		{"udproutes", &t.UDPRoutes, []config.Kind{config.UDPRoute}},
		{"referencegrants", &t.ReferenceGrants, []config.Kind{config.ReferenceGrant}},
		{"backendtlspolicies", &t.BackendTLSPolicies, []config.Kind{config.BackendTLSPolicy}},
		{"inferencepools", &t.InferencePools, []config.Kind{config.InferencePool}},
		{"secrets", &t.Secrets, []config.Kind{config.Secret, config.ConfigMap}},
	}
	for _, of := range all {
		in := table.NewInput(t.store, of.name, config.CompareKey, config.Same)
		for _, k := range of.kinds {
			t.inputs[k] = in
		}
		*of.to = in.Table
	}
	t.Mesh.SkipInOrigins()
	return all
}

// declareMade joins the objects of makers with the written ones.
func (t *Tables) declareMade(all []ofKinds, makers []Maker) {
	made := map[config.Kind][]table.Part[config.Key, *config.Object]{}
	instead := map[config.Kind][]table.Part[config.Key, *config.Object]{}
	for _, m := range makers {
		for _, o := range m(t) {
			to := made
			if o.Instead {
				to = instead
			}
			to[o.Kind] = append(to[o.Kind], table.Whole(o.Objects))
		}
	}
	for _, of := range all {
		var parts, first []table.Part[config.Key, *config.Object]
		for _, k := range of.kinds {
			parts, first = append(parts, made[k]...), append(first, instead[k]...)
		}
		if len(parts) > 0 {
			*of.to = table.Union(
				of.name+" and made",
				config.CompareKey,
				config.Same,
				givesWay,
				slices.Insert(parts, 0, table.Whole(*of.to))...)
		}
		t.objects = append(t.objects, *of.to)
		for _, k := range of.kinds {
			t.byKind[k] = *of.to
		}
		if len(first) > 0 {
			*of.to = table.Union(of.name+" made whole", config.CompareKey, config.Same, nil, append(first, table.Whole(*of.to))...)
		}
	}
}

// givesWay returns the problem of a made object if another one of its name counts.
func givesWay(k config.Key, winner, loser *config.Object) any {
	return mesh.Problem{
		Object:   loser.Ref,
		Other:    winner.Ref,
		Code:     code.DuplicateObject,
		Severity: mesh.Warning,
		Message:  fmt.Sprintf("the %s that is made of it is not in force: %s has its name, and comes first", k, winner.Ref),
		Fix:      "rename one of the two",
	}
}

// declareUnions declares the tables that hold rows of several kinds under the question that a derivation asks first.
// Their parts have no key in common.
func (t *Tables) declareUnions() {
	objects := func(of *Objects, kind config.Kind) table.Part[SourceKey, Source] {
		return table.Keyed(of, objectSource,
			func(k SourceKey) (config.Key, bool) {
				return config.Key{Kind: k.Kind, Namespace: k.Namespace, Name: k.Name}, k.Kind == kind
			},
			func(_ config.Key, o *config.Object) Source { return Source{Object: o} })
	}
	services := table.Keyed(t.services.Table, serviceSource,
		func(k SourceKey) (mesh.ServiceKey, bool) { return k.service(), k.Kind == ofService },
		func(_ mesh.ServiceKey, s *mesh.Service) Source { return Source{Service: s} })
	parts := table.Keyed(t.slices.Table,
		func(k mesh.SliceKey) SourceKey {
			s := serviceSource(k.Service)
			s.Kind, s.Part = ofSlice, k.Name
			return s
		},
		func(k SourceKey) (mesh.SliceKey, bool) {
			return mesh.SliceKey{Service: k.service(), Name: k.Part}, k.Kind == ofSlice
		},
		func(_ mesh.SliceKey, s *mesh.Slice) Source { return Source{Slice: s} })
	workloads := table.Keyed(t.workloads.Table,
		func(k mesh.WorkloadKey) SourceKey {
			return SourceKey{Kind: ofWorkload, Registry: k.Registry, Namespace: k.Namespace, Name: k.Name}
		},
		func(k SourceKey) (mesh.WorkloadKey, bool) {
			return mesh.WorkloadKey{Registry: k.Registry, Namespace: k.Namespace, Name: k.Name}, k.Kind == ofWorkload
		},
		func(_ mesh.WorkloadKey, w *mesh.Workload) Source { return Source{Workload: w} })
	entries := objects(t.ServiceEntries, config.ServiceEntry)
	t.Naming = table.Union("naming", CompareSourceKey, sameSource, nil,
		entries, objects(t.InferencePools, config.InferencePool), objects(t.VirtualServices, config.VirtualService),
		objects(t.DestinationRules, config.DestinationRule), services)
	t.Serving = table.Union("serving", CompareSourceKey, sameSource, nil,
		entries, objects(t.WorkloadEntries, config.WorkloadEntry), parts, workloads)
}

func objectSource(k config.Key) SourceKey {
	return SourceKey{Kind: k.Kind, Namespace: k.Namespace, Name: k.Name}
}

func serviceSource(k mesh.ServiceKey) SourceKey {
	return SourceKey{Kind: ofService, Registry: k.Registry, Namespace: k.Namespace, Name: k.Object, Host: k.Host}
}

func (k SourceKey) service() mesh.ServiceKey {
	return mesh.ServiceKey{Host: k.Host, Namespace: k.Namespace, Registry: k.Registry, Object: k.Name}
}

// Resolved holds the known addresses of a host name. It is comparable.
type Resolved struct {
	Addresses string // comma-separated; of the last good answer
	Failing   string // why they were not answered for the last time; empty: they were
}

// Resolves reports whether names that are asked for are resolved.
func (t *Tables) Resolves() bool { return t.opts.Resolves }

// AliasHost returns the host that a service is another name for, which its registry says by a slice (alias.Slice); empty: it is none.
func (t *Tables) AliasHost(r *table.Reader, k mesh.ServiceKey) mesh.Host {
	s, ok := table.Get(r, t.slices.Table, mesh.SliceKey{Service: k, Name: alias.Slice})
	if !ok || len(s.Endpoints) != 1 {
		return ""
	}
	return mesh.Host(s.Endpoints[0].Address)
}

// All lists the tables of objects.
func (t *Tables) All() []*Objects { return t.objects }

// Of returns the table of a kind.
func (t *Tables) Of(k config.Kind) *Objects {
	if of := t.byKind[k]; of != nil {
		return of
	}
	return t.byKind[others]
}

// SourceNotes is the table with the problems that sources report of files and objects, as notes.
const SourceNotes = "fileproblems/notes"

// declareFileNotes turns what sources said of files into notes, so that all problems are found in one place.
func (t *Tables) declareFileNotes() {
	table.Derive(t.FileProblems.Table, SourceNotes, source.ComparePlace, table.Same[struct{}],
		func(r *table.Reader, _ source.Place, problems []mesh.Problem, _ func(source.Place, struct{})) {
			for _, p := range problems {
				r.Note(p)
			}
		})
}
