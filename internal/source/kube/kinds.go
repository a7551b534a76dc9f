package kube

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"

	"fairway/internal/config"
	"fairway/internal/config/schemas"
	"fairway/internal/mesh"
	"fairway/internal/source"
	"fairway/internal/source/kube/translate"
)

// kind is one that is watched.
type kind struct {
	name  string // of its shard, and to people: "Pod"
	one   object // the one object that is read; zero: all there are
	group string // of its API; empty if no CRD defines it
	find  func(context.Context) (collection, error)
	read  func(before reader) reader // an empty reader, which may look at what the one before it has
	lost  func()                     // find is not to believe what it found before
	// scoped says that only objects of seen namespaces are read; otherwise those of the whole cluster, or of one
	// namespace.
	scoped bool
	// revised says that objects may be for one revision only: its names must be known before they are read.
	revised bool
	// onRead, if not nil, is called once nothing has to wait for the kind any more, after its rows have been handed over.
	onRead func()
}

// key returns the key of the one object that is read.
func (k kind) key() config.Key {
	return config.Key{Kind: config.Kind(k.name), Namespace: k.one.namespace, Name: k.one.name}
}

// reader makes rows of the objects of one kind. It is used by one goroutine.
type reader interface {
	set(o runtime.Object, to *made) []mesh.Problem
	remove(o runtime.Object, to *made)
	listed() // all that there is has been set
}

// lister is a reader that makes rows of a whole list at once. The rows of objects that are set between begin and settle
// come out by settle.
type lister interface {
	begin()
	settle(to *made)
}

// made holds the rows that were made of objects.
type made struct {
	rows source.Rows
	gone source.Keys
	left map[object]int // endpoints of slices that do not count there; of every slice that was looked at
}

// leftOut notes that so many endpoints of a slice do not count.
func (m *made) leftOut(slice object, n int) {
	if m.left == nil {
		m.left = map[object]int{}
	}
	m.left[slice] = n
}

// each is a reader that keeps nothing: an object's rows depend on that object alone.
type each[O runtime.Object] struct {
	put  func(o O, to *made) []mesh.Problem
	take func(o O, to *made)
}

func (e each[O]) set(o runtime.Object, to *made) []mesh.Problem { return e.put(o.(O), to) }
func (e each[O]) remove(o runtime.Object, to *made)             { e.take(o.(O), to) }
func (e each[O]) listed()                                       {}

// kinds lists all that a source reads.
func kinds(o Options, c *clients, r translate.Registry, seen *scope) ([]kind, error) {
	all := ownKinds(c, r, seen)
	if o.Remote {
		return all, nil
	}
	all = append(all, meshKind(o, c))
	if o.Revision != "" {
		all = append(all, tagKind(o, c, seen))
	}
	if o.Remotes != nil {
		all = append(all, remoteKind(o, c))
	}
	for _, k := range config.Kinds() {
		custom, err := customKind(o, c, k)
		if err != nil {
			return nil, err
		}
		all = append(all, custom)
	}
	all = append(all, nativeKind(o, c, config.Ingress, "ingresses", true))
	return append(all, nativeKind(o, c, config.IngressClass, "ingressclasses", false)), nil
}

// fixed returns a place that is always the same, for Kubernetes' own kinds.
func fixed(c typed) func(context.Context) (collection, error) {
	return func(context.Context) (collection, error) { return c, nil }
}

func always(r reader) func(reader) reader { return func(reader) reader { return r } }

// running selects Pods that have not ended: there may be many of the others, and they are nothing to a mesh.
const running = "status.phase!=Succeeded,status.phase!=Failed"

func ownKinds(c *clients, r translate.Registry, seen *scope) []kind {
	nothing := func() {}
	return []kind{
		{
			name: "Namespace", lost: nothing, onRead: seen.markComplete,
			read: func(before reader) reader { return newNamespaceReader(r, seen, before) },
			find: fixed(typed{client: c.core, resource: "namespaces", wary: c.wary, empty: func() item { return new(corev1.Namespace) }}),
		},
		{
			name: "Node", lost: nothing, read: func(reader) reader { return nodes(r) },
			find: fixed(typed{client: c.core, resource: "nodes", wary: c.wary, empty: func() item { return new(corev1.Node) }}),
		},
		{
			name: "Pod", lost: nothing, scoped: true, read: func(reader) reader { return pods(r) },
			find: fixed(typed{
				client: c.core, resource: "pods", fields: running, wary: c.wary, empty: func() item { return new(corev1.Pod) },
			}),
		},
		{
			name: "Service", lost: nothing, scoped: true, read: func(reader) reader { return services(r) },
			find: fixed(typed{client: c.core, resource: "services", wary: c.wary, empty: func() item { return new(corev1.Service) }}),
		},
		{
			name: "EndpointSlice", lost: nothing, scoped: true, read: func(reader) reader { return newSliceReader(r) },
			find: fixed(typed{
				client: c.discover, resource: "endpointslices", wary: c.wary, empty: func() item { return new(discoveryv1.EndpointSlice) },
			}),
		},
	}
}

func nodes(r translate.Registry) reader {
	return &once[*corev1.Node, mesh.Machine, print]{
		of: func(o *corev1.Node) (mesh.Machine, []mesh.Problem, bool) {
			row, problems := r.Machine(o)
			return row, problems, true
		},
		keep: printing[mesh.Machine](), same: samePrint, rows: map[object]print{},
		put:  func(row mesh.Machine, to *made) { to.rows.Machines = append(to.rows.Machines, row) },
		take: func(o *corev1.Node, to *made) { to.gone.Machines = append(to.gone.Machines, r.MachineKey(o.Name)) },
	}
}

func pods(r translate.Registry) reader {
	return &once[*corev1.Pod, *mesh.Workload, *mesh.Workload]{
		of: r.Workload, keep: func(row *mesh.Workload) *mesh.Workload { return row }, same: (*mesh.Workload).Equal,
		rows: map[object]*mesh.Workload{},
		put:  func(row *mesh.Workload, to *made) { to.rows.Workloads = append(to.rows.Workloads, row) },
		take: func(o *corev1.Pod, to *made) {
			to.gone.Workloads = append(to.gone.Workloads, r.WorkloadKey(o.Namespace, o.Name))
		},
	}
}

// offered holds the rows of a Service: its own, and if it is another name for a host, a slice that leads there.
type offered struct {
	service   *mesh.Service
	elsewhere *mesh.Slice // nil: it is none
}

func sameOffer(a, b offered) bool {
	return a.service.Equal(b.service) && (a.elsewhere == nil) == (b.elsewhere == nil) &&
		(a.elsewhere == nil || a.elsewhere.Equal(b.elsewhere))
}

func services(r translate.Registry) reader {
	return &once[*corev1.Service, offered, offered]{
		of: func(o *corev1.Service) (offered, []mesh.Problem, bool) {
			row, slice, problems := r.Service(o)
			return offered{row, slice}, problems, true
		},
		keep: func(row offered) offered { return row }, same: sameOffer, rows: map[object]offered{},
		put: func(row offered, to *made) {
			to.rows.Services = append(to.rows.Services, row.service)
			if row.elsewhere != nil {
				to.rows.Slices = append(to.rows.Slices, row.elsewhere)
			} else {
				to.gone.Slices = append(to.gone.Slices, translate.ElsewhereKey(row.service.Key))
			}
		},
		take: func(o *corev1.Service, to *made) {
			key := r.ServiceKey(o.Namespace, o.Name)
			to.gone.Services = append(to.gone.Services, key)
			to.gone.Slices = append(to.gone.Slices, translate.ElsewhereKey(key))
		},
	}
}

// meshKind is the ConfigMap that holds the mesh configuration.
func meshKind(o Options, c *clients) kind {
	const name = "istio"
	return kind{
		name: "ConfigMap", lost: func() {},
		find: fixed(typed{
			client: c.core, resource: "configmaps", namespace: o.Namespace, fields: "metadata.name=" + name,
			wary: c.wary, empty: func() item { return new(corev1.ConfigMap) },
		}),
		read:   func(before reader) reader { return newMeshReader(o.Decoder, o.Cluster, before) },
		onRead: o.MeshRead,
	}
}

// customKind is one of Istio's kinds, in the newest version that the API server has and the decoder knows.
func customKind(o Options, c *clients, k config.Kind) (kind, error) {
	schema, err := schemas.Load(string(k))
	if err != nil {
		return kind{}, err
	}
	group, versions := schema.Group, slices.Clone(schema.Versions)
	slices.SortFunc(versions, func(a, b string) int { return -version.CompareKubeAwareVersionStrings(a, b) })
	return kind{
		name: string(k), group: group, lost: c.catalog.forget, scoped: true, revised: true,
		find: func(ctx context.Context) (collection, error) {
			at, err := c.catalog.find(ctx, group, string(k), versions)
			if err != nil {
				return nil, err
			}
			return untyped{c.dynamic.Resource(at)}, nil
		},
		read: func(before reader) reader { return newObjectReader(o, before) },
	}, nil
}

// nativeKind is one of Kubernetes' own that the decoder reads. Every API server serves it, under a word of paths.
func nativeKind(o Options, c *clients, k config.Kind, plural string, scoped bool) kind {
	at := schema.GroupVersionResource{Group: "networking.k8s.io", Version: "v1", Resource: plural}
	o.Revision = "" // it has no such label
	return kind{
		name: string(k), lost: func() {}, scoped: scoped,
		find: func(context.Context) (collection, error) { return untyped{c.dynamic.Resource(at)}, nil },
		read: func(before reader) reader { return newObjectReader(o, before) },
	}
}

// wantedKind is one object that is read because it is wanted: a ConfigMap, or a Secret.
func wantedKind(o Options, c *clients, key config.Key) kind {
	of := object{key.Namespace, key.Name}
	unseen := o
	unseen.OnObject, unseen.Revision = func(*unstructured.Unstructured, bool) {}, ""
	if key.Kind == config.ConfigMap {
		return kind{
			name: string(config.ConfigMap), one: of, lost: func() {},
			find: fixed(typed{
				client: c.core, resource: "configmaps", namespace: of.namespace, fields: "metadata.name=" + of.name,
				wary: c.wary, empty: func() item { return new(corev1.ConfigMap) },
			}),
			read: func(before reader) reader { return mapReader{newObjectReader(unseen, before)} },
		}
	}
	return kind{
		name: string(config.Secret), one: of, lost: func() {},
		find: fixed(typed{
			client: c.core, resource: "secrets", namespace: of.namespace, fields: "metadata.name=" + of.name,
			wary: c.wary, empty: func() item { return new(corev1.Secret) },
		}),
		read: func(before reader) reader { return secretReader{newObjectReader(unseen, before)} },
	}
}

// definitions has no rows: changed is called with the group of each CRD that exists, changes, or goes.
func definitions(c *clients, changed func(group string)) kind {
	tell := func(o *metav1.PartialObjectMetadata, _ *made) {
		_, group, _ := strings.Cut(o.Name, ".")
		changed(group)
	}
	at := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	return kind{
		name: "CustomResourceDefinition", lost: func() {},
		find: func(context.Context) (collection, error) { return named{c.metadata.Resource(at), ""}, nil },
		read: always(each[*metav1.PartialObjectMetadata]{
			put:  func(o *metav1.PartialObjectMetadata, to *made) []mesh.Problem { tell(o, to); return nil },
			take: tell,
		}),
	}
}
