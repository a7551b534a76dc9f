package config

import (
	"encoding/binary"
	"hash/fnv"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"fairway/internal/mesh"
	"fairway/internal/printable"
)

// draft is one document on its way to an object. It belongs to one call of Decode.
type draft struct {
	doc       Document
	namespace string // of an object that names none
	now       func() time.Time
	tree      map[string]any

	key         Key
	ref         mesh.ObjectRef
	kind        *kind
	labels      map[string]string
	annotations map[string]string
	created     int64
	credential  *Credential // of a Secret

	problems []mesh.Problem
	more     int           // problems that were not kept
	worst    mesh.Severity // of those
	failed   bool          // an Error is among them all
	broken   bool          // and not only unknown fields, which hide nothing of the rest
	lines    *lines
}

func newDraft(doc Document) *draft {
	return &draft{doc: doc, ref: mesh.ObjectRef{Kind: "file", File: doc.File, Line: doc.Line}}
}

// say adds a problem, fit to be shown; its line is looked up in the text. What is past maxProblems is counted only.
func (w *draft) say(field, code string, severity mesh.Severity, message, fix string) {
	w.failed = w.failed || severity == mesh.Error
	w.broken = w.broken || severity == mesh.Error && code != "UnknownField"
	if w.full() {
		w.more, w.worst = w.more+1, max(w.worst, severity)
		return
	}
	if w.lines == nil {
		w.lines = indexLines(w.doc)
	}
	w.problems = append(w.problems, mesh.Problem{
		Object: w.ref, Line: w.lines.of(field), Field: printable.Text(field, printable.Long), Code: code, Severity: severity,
		Message: printable.Text(message, printable.Long), Fix: printable.Text(fix, printable.Long),
	})
}

// full tells whether a further problem would only be counted.
func (w *draft) full() bool { return len(w.problems) >= maxProblems }

func (w *draft) fail(field, code, message, fix string) {
	w.say(field, code, mesh.Error, message, fix)
}

// report is fail as the message decoder calls it.
func (w *draft) report(p path, code, message, fix string) { w.fail(p.String(), code, message, fix) }

// sorted returns the problems by line, each once: a schema and a rule may say the same.
func (w *draft) sorted() []mesh.Problem {
	slices.SortFunc(w.problems, mesh.CompareProblem)
	w.problems = slices.Compact(w.problems)
	return w.told()
}

// told is what there is to say, with how much is not said.
func (w *draft) told() []mesh.Problem {
	if w.more == 0 {
		return w.problems
	}
	return append(w.problems, mesh.Problem{
		Object:   w.ref,
		Line:     w.ref.Line,
		Code:     "TooManyProblems",
		Severity: w.worst,
		Message:  "and " + strconv.Itoa(w.more) + " more problems in this document",
	})
}

// parse reads the text. It is false when there is nothing to go on with: no content, or an error.
func (w *draft) parse() bool {
	tree, err := any(nil), w.doc.bad
	if err == nil {
		tree, err = parseTree(w.doc.Text)
	}
	if err != nil {
		w.problems = append(w.problems, mesh.Problem{
			Object: w.ref, Line: w.doc.Line + max(err.line-1, 0), Code: "Syntax", Severity: mesh.Error,
			Message: printable.Text(err.message, printable.Long), Fix: printable.Text(err.fix, printable.Long),
		})
		w.failed = true
		w.guessIdentity()
		return false
	}
	if tree == nil {
		return false
	}
	m, ok := tree.(map[string]any)
	if !ok {
		w.fail("", "NotAnObject", "the document is not a set of fields", "start with apiVersion, kind, metadata and spec")
		return false
	}
	w.tree = m
	return true
}

// apiVersion takes apiVersion apart into group and version.
func (w *draft) apiVersion() (group, version string) {
	s, _ := w.tree["apiVersion"].(string)
	if g, v, ok := strings.Cut(s, "/"); ok {
		return g, v
	}
	return "", s
}

// identify reads kind and metadata. It is false when the document cannot be told to be any object; kind stays nil when it is none of ours.
func (w *draft) identify(d *Decoder) bool {
	name, _ := w.tree["kind"].(string)
	if name == "" {
		w.fail("kind", "NoKind", "the document has no kind", "start with apiVersion, kind, metadata and spec")
		return false
	}
	w.readNames(name)
	group, _ := w.apiVersion()
	k := d.kinds[Kind(name)]
	if k == nil || group != k.group {
		w.foreign(k, group, name)
		return true
	}
	if !w.readMetadata() {
		return false
	}
	w.kind = k
	return true
}

// foreign says that a document is of no kind of ours: a Warning, but for what can only be a slip inside Istio's own groups.
func (w *draft) foreign(k *kind, group, name string) {
	_, items := w.tree["items"].([]any)
	switch {
	case k == nil && (name == "List" && w.tree["items"] != nil || strings.HasSuffix(name, "List") && items):
		w.fail(
			"items",
			"BadList",
			"the list cannot be taken apart: nothing of it is in force",
			"write kind and items in plain words, and items as a list of objects, none of which is a list itself",
		)
	case k != nil && (group == "" || strings.HasSuffix(group, ".istio.io")):
		w.fail("apiVersion", "UnknownVersion", name+" is not in API group "+quote(group), "write "+k.group+"/v1")
	case k == nil && strings.HasSuffix(group, ".istio.io"):
		w.fail("kind", "UnknownKind", "API group "+group+" has no kind "+quote(name), "")
	default:
		w.say("kind", "ForeignKind", mesh.Warning, name+" of API group "+quote(group)+" is not a kind of ours and is ignored", "")
	}
}

// readNames reads the object's key as far as it can be read, so that every later problem names the object.
func (w *draft) readNames(kind string) {
	meta, _ := w.tree["metadata"].(map[string]any)
	w.key = Key{Kind: Kind(kind), Namespace: w.namespace}
	w.key.Name, _ = meta["name"].(string)
	if ns, _ := meta["namespace"].(string); ns != "" {
		w.key.Namespace = ns
	}
	w.ref = mesh.ObjectRef{
		Kind:      shownName(kind),
		Namespace: shownName(w.key.Namespace),
		Name:      shownName(w.key.Name),
		File:      w.doc.File,
		Line:      w.doc.Line,
	}
}

// object makes the object of a spec that passed everything.
func (w *draft) object(spec proto.Message) *Object {
	o := &Object{
		Key:         w.key,
		Labels:      mesh.MakeLabels(w.labels),
		Annotations: w.annotations,
		Created:     w.created,
		Spec:        spec,
		Ref:         w.ref,
		Text:        w.doc.Text,
	}
	if w.credential != nil {
		o.Credential, o.Annotations, o.Text = w.credential, nil, nil // annotations may repeat the whole object
	}
	o.Hash = hash(o)
	return o
}

// readMetadata says whether something is made of the labels and annotations of a kind's objects (those of a Secret are
// read into its Credential).
func readMetadata(k Kind) bool { return k == WorkloadEntry }

// hash covers what the object says, not where it stands. It is the same in every process.
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
	buf = binary.AppendVarint(buf, o.Created)
	buf, _ = proto.MarshalOptions{Deterministic: true}.MarshalAppend(buf, o.Spec) // a message of valid UTF-8 always marshals
	if c := o.Credential; c != nil {
		for _, part := range [...][]byte{c.Chain, c.Key.PEM(), c.Staple, c.CA, c.CRL, []byte(c.Holders)} {
			put(string(part))
		}
	}
	_, _ = h.Write(buf)
	return h.Sum64()
}

// wholeNumber is the int64 that a float stands for where JSON would write it without a point: 1e3 and 8080.0 are integers to an API server.
func wholeNumber(f float64) (int64, bool) {
	if f != math.Trunc(f) || math.Abs(f) >= 1e21 || f >= math.MaxInt64 || f <= math.MinInt64 {
		return 0, false
	}
	return int64(f), true
}
