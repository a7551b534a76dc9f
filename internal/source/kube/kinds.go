package kube

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"

	"fairway/internal/config"
	"fairway/internal/config/schemas"
	"fairway/internal/mesh"
	"fairway/internal/source/kube/answers"
	"fairway/internal/source/kube/rows"
	"fairway/internal/source/kube/translate"
)

// kind is one that is watched.
type kind struct {
	name  string  // of its shard, and to people: "Pod"
	one   rows.ID // the one object that is read; zero: all there are
	group string  // of its API; empty if no CRD defines it
	find  func(context.Context) (answers.Collection, error)
	read  func(before rows.Reader) rows.Reader // an empty reader, which may look at what the one before it has
	lost  func()                               // find is not to believe what it found before
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
	return config.Key{Kind: config.Kind(k.name), Namespace: k.one.Namespace, Name: k.one.Name}
}

// kinds lists all that a source reads.
func kinds(o Options, c *answers.Clients, r translate.Registry, seen *scope) ([]kind, error) {
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
	custom := config.Kinds()
	if !o.WithoutGatewayAPI {
		custom = slices.Concat(custom, config.GatewayKinds())
	}
	for _, k := range custom {
		one, err := customKind(o, c, k)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	all = append(all, nativeKind(o, c, config.Ingress, "ingresses", true))
	return append(all, nativeKind(o, c, config.IngressClass, "ingressclasses", false)), nil
}

// fixed returns a place that is always the same, for Kubernetes' own kinds.
func fixed(c answers.Collection) func(context.Context) (answers.Collection, error) {
	return func(context.Context) (answers.Collection, error) { return c, nil }
}

func always(r rows.Reader) func(rows.Reader) rows.Reader {
	return func(rows.Reader) rows.Reader { return r }
}

// running selects Pods that have not ended: there may be many of the others, and they are nothing to a mesh.
const running = "status.phase!=Succeeded,status.phase!=Failed"

func ownKinds(c *answers.Clients, r translate.Registry, seen *scope) []kind {
	nothing := func() {}
	return []kind{
		{
			name: "Namespace", lost: nothing, onRead: seen.markComplete,
			read: func(before rows.Reader) rows.Reader { return newNamespaceReader(r, seen, before) },
			find: fixed(c.Own(answers.Own{Resource: "namespaces", Empty: answers.Empty[corev1.Namespace]})),
		},
		{
			name: "Node", lost: nothing, read: func(rows.Reader) rows.Reader { return rows.Nodes(r) },
			find: fixed(c.Own(answers.Own{Resource: "nodes", Empty: answers.Empty[corev1.Node]})),
		},
		{
			name: "Pod", lost: nothing, scoped: true, read: func(rows.Reader) rows.Reader { return rows.Pods(r) },
			find: fixed(c.Own(answers.Own{Resource: "pods", Fields: running, Empty: answers.Empty[corev1.Pod]})),
		},
		{
			name: "Service", lost: nothing, scoped: true, read: func(rows.Reader) rows.Reader { return rows.Services(r) },
			find: fixed(c.Own(answers.Own{Resource: "services", Empty: answers.Empty[corev1.Service]})),
		},
		{
			name: "EndpointSlice", lost: nothing, scoped: true, read: func(rows.Reader) rows.Reader { return rows.Slices(r) },
			find: fixed(c.Own(answers.Own{Discovery: true, Resource: "endpointslices", Empty: answers.Empty[discoveryv1.EndpointSlice]})),
		},
	}
}

// meshKind is the ConfigMap that holds the mesh configuration.
func meshKind(o Options, c *answers.Clients) kind {
	const name = "istio"
	return kind{
		name: "ConfigMap", lost: func() {},
		find: fixed(c.Own(answers.Own{
			Resource: "configmaps", Namespace: o.Namespace, Fields: "metadata.name=" + name,
			Empty: answers.Empty[corev1.ConfigMap],
		})),
		read:   func(before rows.Reader) rows.Reader { return rows.Mesh(o.Decoder, o.Cluster, before) },
		onRead: o.MeshRead,
	}
}

// customKind is one of Istio's kinds, or of the Gateway API's, in the newest version that the API server has and the decoder knows.
func customKind(o Options, c *answers.Clients, k config.Kind) (kind, error) {
	schema, err := schemas.Load(string(k))
	if err != nil {
		return kind{}, err
	}
	group, versions := schema.Group, slices.Clone(schema.Versions)
	slices.SortFunc(versions, func(a, b string) int { return -version.CompareKubeAwareVersionStrings(a, b) })
	return kind{
		name: string(k), group: group, lost: c.Forget, scoped: !k.ClusterWide(), revised: true,
		find: func(ctx context.Context) (answers.Collection, error) {
			return c.Find(ctx, group, k.Word(), versions)
		},
		read: func(before rows.Reader) rows.Reader { return rows.Objects(o.objects(), before) },
	}, nil
}

// nativeKind is one of Kubernetes' own that the decoder reads. Every API server serves it, under a word of paths.
func nativeKind(o Options, c *answers.Clients, k config.Kind, plural string, scoped bool) kind {
	at := schema.GroupVersionResource{Group: "networking.k8s.io", Version: "v1", Resource: plural}
	o.Revision = "" // it has no such label
	return kind{
		name: string(k), lost: func() {}, scoped: scoped,
		find: func(context.Context) (answers.Collection, error) { return c.Trees(at), nil },
		read: func(before rows.Reader) rows.Reader { return rows.Objects(o.objects(), before) },
	}
}

// wantedKind is one object that is read because it is wanted: a ConfigMap, or a Secret.
func wantedKind(o Options, c *answers.Clients, key config.Key) kind {
	of := rows.ID{Namespace: key.Namespace, Name: key.Name}
	unseen := o
	unseen.OnObject, unseen.Revision = func(*unstructured.Unstructured, bool) {}, ""
	if key.Kind == config.ConfigMap {
		return kind{
			name: string(config.ConfigMap), one: of, lost: func() {},
			find: fixed(c.Own(answers.Own{
				Resource: "configmaps", Namespace: of.Namespace, Fields: "metadata.name=" + of.Name,
				Empty: answers.Empty[corev1.ConfigMap],
			})),
			read: func(before rows.Reader) rows.Reader { return rows.ConfigMaps(unseen.objects(), before) },
		}
	}
	return kind{
		name: string(config.Secret), one: of, lost: func() {},
		find: fixed(c.Own(answers.Own{
			Resource: "secrets", Namespace: of.Namespace, Fields: "metadata.name=" + of.Name,
			Empty: answers.Empty[corev1.Secret],
		})),
		read: func(before rows.Reader) rows.Reader { return rows.Secrets(unseen.objects(), before) },
	}
}

// definitions has no rows: changed is called with the group of each CRD that exists, changes, or goes.
func definitions(c *answers.Clients, changed func(group string)) kind {
	tell := func(o *metav1.PartialObjectMetadata, _ *rows.Made) {
		_, group, _ := strings.Cut(o.Name, ".")
		changed(group)
	}
	at := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	return kind{
		name: "CustomResourceDefinition", lost: func() {},
		find: func(context.Context) (answers.Collection, error) { return c.Names(at, ""), nil },
		read: always(rows.Each[*metav1.PartialObjectMetadata]{
			Put:  func(o *metav1.PartialObjectMetadata, to *rows.Made) []mesh.Problem { tell(o, to); return nil },
			Take: tell,
		}),
	}
}

// objects returns the options of a reader of objects.
func (o Options) objects() rows.ObjectOptions {
	return rows.ObjectOptions{Decoder: o.Decoder, Cluster: o.Cluster, Revision: o.Revision, Tagged: o.Tags.Has, OnObject: o.OnObject}
}
