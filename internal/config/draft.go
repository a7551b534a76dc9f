package config

import (
	"cmp"
	"encoding/binary"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"fairway/internal/config/document"
	"fairway/internal/config/report"
	"fairway/internal/config/security"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/printable"
	"fairway/internal/spelling"
)

// draft is one document on its way to an object. It belongs to one call of Decode.
type draft struct {
	report.Report
	namespace string // of an object that names none
	now       func() time.Time
	tree      map[string]any
	stored    Stored

	key         Key
	kind        *kind
	labels      map[string]string
	annotations map[string]string
	created     int64
	credential  *Credential // of a Secret
	native      any         // of a kind of Kubernetes' own, or the Gateway API's
}

func (d *Decoder) draft(doc Document) *draft {
	return &draft{Report: report.New(doc), namespace: d.namespace, now: d.now}
}

// decode takes a tree, or the reason why there is none, through all further steps.
func (w *draft) decode(d *Decoder, tree any, bad *document.Mistake) (*Object, []mesh.Problem) {
	if !w.take(tree, bad) || !w.identify(d) || w.kind == nil {
		return nil, w.Listed()
	}
	spec := w.kind.decode(w)
	if spec == nil && w.native == nil || w.Failed() {
		return nil, w.Sorted()
	}
	return w.object(spec), w.Sorted()
}

// guessIdentity has the problem of a text that does not parse name the object. It returns the mistake with a message that may be shown.
func (w *draft) guessIdentity(bad *document.Mistake) *document.Mistake {
	version, kind, namespace, name := document.Guess(w.Document.Text)
	if kind == "" || name == "" {
		return bad
	}
	group, _, _ := strings.Cut(version, "/")
	w.refer(string(unique(group, kind)), cmp.Or(namespace, w.namespace), name)
	if kind == string(Secret) { // the parser's own words may quote it
		return &document.Mistake{Line: bad.Line, Message: "the text is neither valid YAML nor JSON", Fix: bad.Fix}
	}
	return bad
}

// take returns false if the next steps are not possible: no content, or an error.
func (w *draft) take(tree any, bad *document.Mistake) bool {
	if bad != nil {
		w.Mistake(bad)
		return false
	}
	if tree == nil {
		return false
	}
	m, ok := tree.(map[string]any)
	if !ok {
		w.Fail("", code.NotAnObject, "the document is not a set of fields", "start with apiVersion, kind, metadata and spec")
		return false
	}
	w.tree = m
	return true
}

// apiVersion splits apiVersion into group and version.
func (w *draft) apiVersion() (group, version string) {
	s, _ := w.tree["apiVersion"].(string)
	if g, v, ok := strings.Cut(s, "/"); ok {
		return g, v
	}
	return "", s
}

// identify reads kind and metadata. It returns false if the document is not recognizable as any object; kind stays nil if it is not one of
// ours.
func (w *draft) identify(d *Decoder) bool {
	name, _ := w.tree["kind"].(string)
	if name == "" {
		w.Fail("kind", code.NoKind, "the document has no kind", "start with apiVersion, kind, metadata and spec")
		return false
	}
	group, _ := w.apiVersion()
	w.readNames(unique(group, name), w.tree)
	k := d.kinds[unique(group, name)]
	if k == nil || group != k.group {
		fix := w.foreign(k, group, name)
		if k == nil {
			k = d.kinds[Kind(strings.TrimSuffix(strings.TrimPrefix(fix, "did you mean "), "?"))]
		}
		if k == nil || !w.Failed() {
			return true
		}
	}
	w.readMetadata()
	w.kind = k // also if it was only meant: the other mistakes are named
	return true
}

// foreign reports that a document's kind is not one of ours: as a Warning, or as an Error if it can only be a mistake inside Istio's own
// groups. It returns the fix of a misspelt kind.
func (w *draft) foreign(k *kind, group, name string) (fix string) {
	_, items := w.tree["items"].([]any)
	switch {
	case k == nil && (name == "List" && w.tree["items"] != nil || strings.HasSuffix(name, "List") && items):
		w.Fail("items", code.BadList, "the list cannot be split into objects: nothing of it is in force",
			"write kind and items as plain fields, and items as a list of objects that are not lists themselves")
	case k != nil && (group == "" || ours(group)):
		w.Fail("apiVersion", code.UnknownVersion, name+" is not in API group "+strconv.Quote(group), "write "+k.group+"/v1")
	case k == nil && ours(group):
		near := Kinds()
		if group == groupOfGateways {
			near = GatewayKinds()
		}
		fix = spelling.DidYouMean(name, slices.Values(near), 3)
		w.Fail("kind", code.UnknownKind, "API group "+group+" has no kind "+strconv.Quote(name), fix)
	default:
		w.Add("kind", code.ForeignKind, mesh.Warning,
			name+" of API group "+strconv.Quote(group)+" is not a kind of ours and is ignored", "")
	}
	return fix
}

// ours reports whether every kind of an API group is one that may be read.
func ours(group string) bool {
	return strings.HasSuffix(group, ".istio.io") || group == groupOfGateways
}

// readNames reads the object's key as far as it can be read, so that every later problem names the object.
func (w *draft) readNames(kind Kind, tree map[string]any) {
	meta, _ := tree["metadata"].(map[string]any)
	w.key = Key{Kind: kind, Namespace: w.namespace}
	w.key.Name, _ = meta["name"].(string)
	if ns, _ := meta["namespace"].(string); ns != "" {
		w.key.Namespace = ns
	}
	if w.key.Kind.ClusterWide() {
		w.key.Namespace = ""
	}
	w.refer(string(kind), w.key.Namespace, w.key.Name)
}

// refer sets the object of the following problems.
func (w *draft) refer(kind, namespace, name string) {
	w.Ref = mesh.ObjectRef{
		Kind:      shownName(kind),
		Namespace: shownName(namespace),
		Name:      shownName(name),
		File:      w.Document.File,
		Line:      w.Document.Line,
	}
}

// shownName returns a name in printable form. Nearly all are names as they should be, which costs one look at each byte.
func shownName(s string) string {
	for i := range len(s) {
		if c := s[i]; c != '-' && c != '.' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			return printable.Text(s, printable.Short)
		}
	}
	if len(s) > printable.Short {
		return printable.Text(s, printable.Short)
	}
	return s
}

// object makes the object of a spec that passed everything.
func (w *draft) object(spec proto.Message) *Object {
	o := &Object{
		Key:         w.key,
		Labels:      mesh.MakeLabels(w.labels),
		Annotations: w.annotations,
		Created:     w.created,
		Spec:        spec,
		Native:      w.native,
		Ref:         w.Ref,
		Text:        w.Document.Text,
		Stored:      w.stored,
	}
	if w.credential != nil {
		o.Credential, o.Annotations, o.Text = w.credential, nil, nil // annotations may repeat the whole object
	}
	o.Hash = hash(o)
	return o
}

// readMetadata reports whether labels and annotations of a kind's objects have an effect (those of a Secret are read into its Credential).
func readMetadata(k Kind) bool {
	return k == WorkloadEntry || k == Ingress || k == IngressClass || k == KubernetesGateway
}

// hash covers the object's content, not its place. It is the same in every process.
func hash(o *Object) uint64 {
	h := fnv.New64a()
	buf := make([]byte, 0, 1024)
	put := func(s string) {
		buf = binary.AppendUvarint(buf, uint64(len(s)))
		buf = append(buf, s...)
	}
	put(string(o.Kind))
	put(o.Namespace)
	put(o.Name)
	if readMetadata(o.Kind) {
		put(string(o.Labels))
		for _, k := range slices.Sorted(maps.Keys(o.Annotations)) {
			put(k)
			put(o.Annotations[k])
		}
	}
	if o.Kind == AuthorizationPolicy {
		put(o.Annotations[security.DryRun])
	}
	if o.Kind == ServiceEntry {
		put(o.Annotations[RulesFromAnnotation])
	}
	if o.Kind == EnvoyFilter {
		put(o.Annotations[ReferencedServices])
	}
	buf = binary.AppendVarint(buf, o.Created)
	if o.Native != nil {
		spec, _ := o.SpecJSON() // plain fields always marshal
		buf = append(buf, spec...)
	} else {
		buf, _ = proto.MarshalOptions{Deterministic: true}.MarshalAppend(buf, o.Spec) // a message of valid UTF-8 always marshals
	}
	put(o.Made.String())
	if o.Made != nil {
		put(o.Ref.String())
	}
	if c := o.Credential; c != nil {
		for _, part := range [...][]byte{
			c.Chain, c.Key.PEM(), c.Staple, c.CA, c.CRL, []byte(c.Holders), []byte(c.Gateways), c.Registries.PEM(),
		} {
			put(string(part))
		}
		for _, k := range slices.Sorted(maps.Keys(c.Parameters)) {
			put(k)
			put(c.Parameters[k])
		}
	}
	_, _ = h.Write(buf)
	return h.Sum64()
}
