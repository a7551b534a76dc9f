package analyze

import (
	"cmp"
	"fmt"
	"maps"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"fairway/internal/compile/lacking"
	"fairway/internal/config"
	"fairway/internal/config/document"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/source"
	"fairway/internal/source/kube/translate"
)

// what is the key of one of Kubernetes' own objects.
type what struct{ kind, namespace, name string }

// reader makes rows of the documents of files.
type reader struct {
	decoder   *config.Decoder
	registry  translate.Registry
	namespace string // of objects that name none
	root      string // where the mesh configuration is
	revision  string // of the control plane; empty: any
	alone     bool   // there is no cluster that could have more pods than the files

	at       map[what]config.Document // where objects are written that are not rows of their own
	rows     source.Rows              // of the file that is being read
	problems []mesh.Problem
	services []*corev1.Service
	sliced   map[what]bool // Services that have EndpointSlices
	slices   []*discoveryv1.EndpointSlice
	pods     []*corev1.Pod
	known    bool // some of them were read, not assumed

	inventory *inventory
}

func newReader(d *config.Decoder, registry translate.Registry, namespace, root string) *reader {
	return &reader{
		decoder: d, registry: registry, namespace: namespace, root: root,
		at: map[what]config.Document{}, sliced: map[what]bool{}, inventory: newInventory(),
	}
}

// file makes the rows of one file, except those that depend on several objects.
func (r *reader) file(t text) (source.Rows, []mesh.Problem) {
	r.rows, r.problems = source.Rows{}, nil
	for _, doc := range t.docs {
		r.document(doc)
	}
	return r.rows, r.problems
}

func (r *reader) document(doc config.Document) {
	if tree, bad := doc.Tree(); bad == nil {
		object, ok := tree.(map[string]any)
		if ok && r.own(doc, object) {
			return
		}
		if ok && object["kind"] == string(config.Secret) {
			if s, err := typed[corev1.Secret](object); err == nil {
				r.inventory.secretOfClusters(s)
			}
		}
	}
	object, problems := r.decoder.Decode(doc)
	r.problems = append(r.problems, problems...)
	if object != nil {
		r.rows.Objects = append(r.rows.Objects, object)
	}
}

// own reads an object of Kubernetes' own kinds that describes services, workloads or the mesh, and leaves out other kinds of its APIs,
// which do not matter to a mesh; false: it is for the decoder.
func (r *reader) own(doc config.Document, tree map[string]any) bool {
	version, _ := tree["apiVersion"].(string)
	kind, _ := tree["kind"].(string)
	group, _, grouped := strings.Cut(version, "/")
	if !grouped {
		group = ""
	}
	read := r.readers()[group+"/"+kind]
	switch {
	case read != nil:
		read(doc, tree)
		return true
	case kind == "" || version == "" || kind == string(config.Secret) || strings.HasSuffix(kind, "List"):
		return false
	case strings.HasSuffix(group, "networking.k8s.io"):
		return kind == "NetworkPolicy"
	}
	return !strings.Contains(group, ".") || strings.HasSuffix(group, ".k8s.io")
}

// readers returns the functions that read objects, by API group and kind.
func (r *reader) readers() map[string]func(config.Document, map[string]any) {
	readers := map[string]func(config.Document, map[string]any){
		"/Service": func(doc config.Document, tree map[string]any) {
			s, err := typed[corev1.Service](tree)
			if !r.is(doc, tree, &s.ObjectMeta, err) {
				return
			}
			row, slice, problems := r.registry.Service(s)
			r.addProblems(problems)
			r.rows.Services = append(r.rows.Services, row)
			if slice != nil {
				r.rows.Slices = append(r.rows.Slices, slice)
			}
			r.services = append(r.services, s)
			r.inventory.services = append(r.inventory.services, s)
		},
		"discovery.k8s.io/EndpointSlice": func(doc config.Document, tree map[string]any) {
			s, err := typed[discoveryv1.EndpointSlice](tree)
			if r.is(doc, tree, &s.ObjectMeta, err) {
				r.sliced[what{"Service", s.Namespace, translate.ServiceOf(s)}] = true
				r.slices = append(r.slices, s)
			}
		},
		"/Namespace": func(doc config.Document, tree map[string]any) {
			n, err := typed[corev1.Namespace](tree)
			if r.is(doc, tree, &n.ObjectMeta, err) {
				row, problems := r.registry.Namespace(n)
				r.addProblems(problems)
				r.rows.Namespaces = append(r.rows.Namespaces, row)
				r.inventory.namespaces[n.Name] = n
			}
		},
		"/ServiceAccount": func(doc config.Document, tree map[string]any) {
			a, err := typed[corev1.ServiceAccount](tree)
			if r.is(doc, tree, &a.ObjectMeta, err) {
				r.inventory.serviceAccounts = append(r.inventory.serviceAccounts, lacking.Account{Namespace: a.Namespace, Name: a.Name})
			}
		},
		"/Node": func(doc config.Document, tree map[string]any) {
			n, err := typed[corev1.Node](tree)
			if r.is(doc, tree, &n.ObjectMeta, err) {
				row, problems := r.registry.Machine(n)
				r.addProblems(problems)
				r.rows.Machines = append(r.rows.Machines, row)
			}
		},
		"/ConfigMap": r.configMap,
		"/Pod": func(doc config.Document, tree map[string]any) {
			p, err := typed[corev1.Pod](tree)
			if r.is(doc, tree, &p.ObjectMeta, err) && p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed {
				made := r.pod(p.Name, p.Namespace, &p.ObjectMeta, &p.Spec, p.Status.PodIP)
				ref := mesh.ObjectRef{Kind: "Pod", Namespace: p.Namespace, Name: p.Name}
				r.inventory.pods = append(r.inventory.pods, pod{ref: ref, Pod: made})
			}
		},
	}
	maps.Copy(readers, r.templates())
	return readers
}

// templates returns the readers of the kinds that hold a template of pods.
func (r *reader) templates() map[string]func(config.Document, map[string]any) {
	type parse = func(tree map[string]any) (*metav1.ObjectMeta, *corev1.PodTemplateSpec, error)
	below := func(at string, read parse) func(config.Document, map[string]any) {
		return func(doc config.Document, tree map[string]any) {
			meta, template, err := read(tree)
			if !r.is(doc, tree, meta, err) || template == nil {
				return
			}
			kind, _ := tree["kind"].(string)
			ref := mesh.ObjectRef{Kind: kind, Namespace: meta.Namespace, Name: meta.Name}
			made := r.pod(meta.Name, meta.Namespace, &template.ObjectMeta, &template.Spec, "")
			r.inventory.pods = append(r.inventory.pods, pod{ref: ref, at: at, Pod: made})
			r.inventory.owners = append(r.inventory.owners, owner{ref, meta.Annotations})
		}
	}
	template := func(read parse) func(config.Document, map[string]any) { return below("spec.template.", read) }
	return map[string]func(config.Document, map[string]any){
		"apps/Deployment": template(func(tree map[string]any) (*metav1.ObjectMeta, *corev1.PodTemplateSpec, error) {
			o, err := typed[appsv1.Deployment](tree)
			return &o.ObjectMeta, &o.Spec.Template, err
		}),
		"apps/StatefulSet": template(func(tree map[string]any) (*metav1.ObjectMeta, *corev1.PodTemplateSpec, error) {
			o, err := typed[appsv1.StatefulSet](tree)
			return &o.ObjectMeta, &o.Spec.Template, err
		}),
		"apps/DaemonSet": template(func(tree map[string]any) (*metav1.ObjectMeta, *corev1.PodTemplateSpec, error) {
			o, err := typed[appsv1.DaemonSet](tree)
			return &o.ObjectMeta, &o.Spec.Template, err
		}),
		"apps/ReplicaSet": template(func(tree map[string]any) (*metav1.ObjectMeta, *corev1.PodTemplateSpec, error) {
			o, err := typed[appsv1.ReplicaSet](tree)
			return &o.ObjectMeta, &o.Spec.Template, err
		}),
		"/ReplicationController": template(func(tree map[string]any) (*metav1.ObjectMeta, *corev1.PodTemplateSpec, error) {
			o, err := typed[corev1.ReplicationController](tree)
			return &o.ObjectMeta, o.Spec.Template, err
		}),
		"batch/Job": template(func(tree map[string]any) (*metav1.ObjectMeta, *corev1.PodTemplateSpec, error) {
			o, err := typed[batchv1.Job](tree)
			return &o.ObjectMeta, &o.Spec.Template, err
		}),
		"batch/CronJob": below("spec.jobTemplate.spec.template.",
			func(tree map[string]any) (*metav1.ObjectMeta, *corev1.PodTemplateSpec, error) {
				o, err := typed[batchv1.CronJob](tree)
				return &o.ObjectMeta, &o.Spec.JobTemplate.Spec.Template, err
			}),
	}
}

// typed reads a tree as a type of Kubernetes' own. It returns an object even with an error.
func typed[T any](tree map[string]any) (*T, error) {
	o := new(T)
	return o, runtime.DefaultUnstructuredConverter.FromUnstructured(tree, o)
}

// is gives an object its namespace and remembers where it is written; false: it cannot be read, or has no valid name.
func (r *reader) is(doc config.Document, tree map[string]any, meta *metav1.ObjectMeta, err error) bool {
	kind, _ := tree["kind"].(string)
	if kind != "Namespace" && kind != "Node" {
		meta.Namespace = cmp.Or(meta.Namespace, r.namespace)
	}
	at := what{kind, meta.Namespace, meta.Name}
	p := mesh.Problem{Object: mesh.ObjectRef{Kind: kind, Namespace: meta.Namespace, Name: meta.Name, File: doc.File, Line: doc.Line},
		Severity: mesh.Error}
	_, twice := r.at[at]
	switch {
	case err != nil:
		p.Code, p.Message = code.WrongType, "this cannot be read as a "+kind+": "+err.Error()
	case !translate.Named(meta.Namespace, meta.Name):
		p.Code, p.Field, p.Message, p.Fix = code.NoName, "metadata", "the object has no name that can be one", "give it a metadata.name"
	case twice:
		other := r.at[at]
		p.Code, p.Fix = code.DuplicateObject, "keep one of the two"
		p.Message = fmt.Sprintf("%s:%d holds the object too: this one is left out", other.File, other.Line)
	default:
		r.at[at] = doc
		return true
	}
	r.problems = append(r.problems, p)
	return false
}

// addProblems keeps problems of Kubernetes' own objects, with their places.
func (r *reader) addProblems(problems []mesh.Problem) {
	for _, p := range problems {
		r.problems = append(r.problems, r.placed(p))
	}
}

// placed returns a problem of one of Kubernetes' own objects with the place of the object.
func (r *reader) placed(p mesh.Problem) mesh.Problem {
	doc, known := r.at[what{p.Object.Kind, p.Object.Namespace, p.Object.Name}]
	if !known || p.Object.File != "" {
		return p
	}
	p.Object.File, p.Object.Line = doc.File, doc.Line
	if p.Line == 0 && p.Field != "" {
		p.Line = document.IndexLines(doc).Of(p.Field)
	}
	return p
}

// configMap reads the ConfigMap with the mesh configuration and the mesh's networks, and that of injection.
func (r *reader) configMap(doc config.Document, tree map[string]any) {
	o, err := typed[corev1.ConfigMap](tree)
	if o.Name == injectorMap(r.revision) && cmp.Or(o.Namespace, r.namespace) == r.root && r.is(doc, tree, &o.ObjectMeta, err) {
		r.inventory.injector = o.Data
		return
	}
	if o.Name != "istio" || cmp.Or(o.Namespace, r.namespace) != r.root || !r.is(doc, tree, &o.ObjectMeta, err) {
		return
	}
	lines := document.IndexLines(doc)
	for _, part := range []struct {
		key    string
		decode func(config.Document) (*config.Object, []mesh.Problem)
	}{{"mesh", r.decoder.DecodeMeshConfig}, {"meshNetworks", r.decoder.DecodeMeshNetworks}} {
		said, has := o.Data[part.key]
		if !has {
			continue
		}
		object, problems := part.decode(config.Document{File: doc.File, Line: lines.Of("data."+part.key) + 1, Text: []byte(said)})
		r.problems = append(r.problems, problems...)
		if object != nil {
			r.rows.Objects = append(r.rows.Objects, object)
		}
	}
}
