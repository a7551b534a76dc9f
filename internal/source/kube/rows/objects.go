package rows

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"fairway/internal/config"
	"fairway/internal/mesh"
)

// objectReader reads what the decoder does: custom resources, and kinds of Kubernetes' own. It knows the objects in
// force, as the sink does: a newer version that is refused does not remove the older one, and a version without changes
// is not handed on.
type objectReader struct {
	ObjectOptions

	kept     map[ID]*config.Object
	problems map[ID][]mesh.Problem // problems of the held objects that have some
	before   map[ID]*config.Object // of the reader before, as warned is
	warned   map[ID][]mesh.Problem
}

// ObjectOptions are those of a reader of objects. All fields but Revision must be set.
type ObjectOptions struct {
	Decoder  *config.Decoder
	Cluster  string
	Revision string            // empty: objects of all revisions are read
	Tagged   func(string) bool // whether a tag names the revision
	// OnObject is called with each object as the API server has it, before it is read. gone: it does not exist any more, and has only
	// its names.
	OnObject func(o *unstructured.Unstructured, gone bool)
}

// Objects returns a reader of custom resources and Ingresses, as trees. before is the reader that had the objects until they are listed
// again, or nil: what it has stays in force if a newer version is refused.
func Objects(o ObjectOptions, before Reader) Reader { return newObjectReader(o, before) }

func newObjectReader(o ObjectOptions, before Reader) *objectReader {
	r := &objectReader{
		ObjectOptions: o,
		kept:          map[ID]*config.Object{}, problems: map[ID][]mesh.Problem{},
	}
	if b, ok := before.(interface{ objects() *objectReader }); ok { // also a reader that is built on one
		r.before, r.warned = b.objects().kept, b.objects().problems
	}
	return r
}

// objects returns the reader itself, whatever is made of it.
func (r *objectReader) objects() *objectReader { return r }

func (r *objectReader) Set(o runtime.Object, to *Made) []mesh.Problem {
	u := o.(*unstructured.Unstructured)
	id := ID{u.GetNamespace(), u.GetName()}
	old, listing, refused := r.kept[id], false, false
	if old == nil {
		old, listing = r.before[id], true // a list says each object once
	}
	if old != nil && old.Stored.UID != string(u.GetUID()) {
		old = nil // it was deleted, and another was made of the same name
	}
	r.OnObject(u, false)
	if r.foreign(u) {
		if was := r.kept[id]; was != nil {
			r.drop(id, was.Key, to)
		}
		return nil
	}
	strip(u)
	if old != nil && !listing && touched(old, u) {
		return r.problems[id]
	}
	read, problems := r.Decoder.DecodeTree(r.Cluster, u.Object)
	switch {
	case read == nil && old == nil:
		if was := r.kept[id]; was != nil {
			r.drop(id, was.Key, to)
		}
		return problems
	case read == nil, old != nil && repeats(old, read):
		refused, read = read == nil, old
	}
	r.kept[id] = read
	switch { // problems of the held version
	case !refused:
		r.problems[id] = problems
	case listing:
		r.problems[id] = r.warned[id]
	}
	if len(r.problems[id]) == 0 {
		delete(r.problems, id)
	}
	if read != old || listing {
		to.Rows.Objects = append(to.Rows.Objects, read)
	}
	return problems
}

// RevisionLabel is the label with the revision that an object is for.
const RevisionLabel = "istio.io/rev"

// foreign reports whether an object is for another revision's control plane.
func (r *objectReader) foreign(u *unstructured.Unstructured) bool {
	said, has := u.GetLabels()[RevisionLabel]
	return has && r.Revision != "" && said != r.Revision && !r.Tagged(said)
}

func (r *objectReader) Remove(o runtime.Object, to *Made) {
	u := o.(*unstructured.Unstructured)
	id := ID{u.GetNamespace(), u.GetName()}
	r.OnObject(u, true)
	if was := r.kept[id]; was != nil {
		r.drop(id, was.Key, to)
	}
}

func (r *objectReader) Listed() {
	for id, was := range r.before {
		if r.kept[id] == nil { // it went while there was no watch
			r.OnObject(namesOf(was.Key), true)
		}
	}
	r.before, r.warned = nil, nil
}

// namesOf returns an object that has its names alone.
func namesOf(k config.Key) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"kind": string(k.Kind), "metadata": map[string]any{"namespace": k.Namespace, "name": k.Name},
	}}
}

func (r *objectReader) drop(id ID, key config.Key, to *Made) {
	delete(r.kept, id)
	delete(r.problems, id)
	to.Gone.Objects = append(to.Gone.Objects, key)
}

// touched reports, without decoding it, whether a version of an object says nothing new: API servers number the content of Ingresses and
// objects of CRDs (generation). Then only its status, or fields that are not read, changed.
func touched(old *config.Object, now *unstructured.Unstructured) bool {
	return now.GetGeneration() > 0 && now.GetGeneration() == old.Stored.Generation &&
		old.Labels == mesh.MakeLabels(now.GetLabels()) && maps.Equal(old.Annotations, now.GetAnnotations())
}

// repeats reports whether a version of an object says nothing new: only its status, or fields that are not read, changed.
func repeats(old, now *config.Object) bool {
	return config.Same(old, now) && old.Stored.Generation == now.Stored.Generation &&
		old.Labels == now.Labels && maps.Equal(old.Annotations, now.Annotations)
}

// strip removes fields that are not read. The tree is the source's own.
func strip(u *unstructured.Unstructured) {
	unstructured.RemoveNestedField(u.Object, "metadata", "managedFields")
	unstructured.RemoveNestedField(u.Object, "status")
	read := map[string]string{}
	for key, value := range u.GetAnnotations() {
		if config.UsedAnnotation(key) {
			read[key] = value
		}
	}
	if len(read) == 0 {
		unstructured.RemoveNestedField(u.Object, "metadata", "annotations")
	} else {
		u.SetAnnotations(read)
	}
}

// meshReader reads the one ConfigMap that holds the mesh configuration (key mesh) and the mesh's networks (meshNetworks).
type meshReader struct {
	decoder *config.Decoder
	objects map[config.Kind]*config.Object
	before  map[config.Kind]*config.Object
	where   string // the cluster
}

// Mesh returns a reader of the ConfigMap with the mesh configuration of a cluster; before is as for Objects.
func Mesh(d *config.Decoder, cluster string, before Reader) Reader {
	r := &meshReader{decoder: d, objects: map[config.Kind]*config.Object{}, where: cluster}
	if b, ok := before.(*meshReader); ok {
		r.before = b.objects
	}
	return r
}

func (r *meshReader) Set(o runtime.Object, to *Made) (problems []mesh.Problem) {
	from := o.(*corev1.ConfigMap)
	for _, part := range r.parts() {
		text, said := from.Data[part.key]
		if !said {
			r.drop(part.kind, to)
			continue
		}
		read, found := part.decode(config.Document{
			File: r.file(from, part.key), Line: 1, Text: []byte(text),
		})
		problems = append(problems, found...)
		if read == nil {
			read = r.objects[part.kind]
		}
		if read == nil {
			read = r.before[part.kind]
		}
		if read != nil {
			r.objects[part.kind] = read
			to.Rows.Objects = append(to.Rows.Objects, read)
		}
	}
	return problems
}

// file returns the name of the place of a text inside a ConfigMap.
func (r *meshReader) file(from *corev1.ConfigMap, key string) string {
	return "ConfigMap " + r.where + "/" + from.Namespace + "/" + from.Name + "/" + key
}

type meshPart struct {
	key    string
	kind   config.Kind
	decode func(config.Document) (*config.Object, []mesh.Problem)
}

func (r *meshReader) parts() [2]meshPart {
	return [2]meshPart{
		{"mesh", config.MeshConfig, r.decoder.DecodeMeshConfig},
		{"meshNetworks", config.MeshNetworks, r.decoder.DecodeMeshNetworks},
	}
}

func (r *meshReader) Remove(_ runtime.Object, to *Made) {
	for _, part := range r.parts() {
		r.drop(part.kind, to)
	}
}

func (r *meshReader) Listed() { r.before = nil }

func (r *meshReader) drop(kind config.Kind, to *Made) {
	if o := r.objects[kind]; o != nil {
		delete(r.objects, kind)
		to.Gone.Objects = append(to.Gone.Objects, o.Key)
	}
}
