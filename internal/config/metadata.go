package config

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"fairway/internal/mesh/code"
)

// UsedAnnotation reports whether an annotation of a rule may mean something to a mesh: Istio's, those of Ingresses and their classes, and
// our own. Sources drop all others: annotations of other tools are large, and change often.
func UsedAnnotation(annotation string) bool {
	domain, _, _ := strings.Cut(annotation, "/")
	switch domain {
	case "kubernetes.io", "ingressclass.kubernetes.io", "fairway":
		return true
	}
	return domain == "istio.io" || strings.HasSuffix(domain, ".istio.io")
}

// readMetadata checks the metadata as an API server does, and keeps labels, annotations and the time of creation.
func (w *draft) readMetadata() {
	meta, ok := w.tree["metadata"].(map[string]any)
	if !ok {
		w.Fail("metadata", code.NoName, "the object has no metadata", "give it a metadata.name")
		return
	}
	for _, k := range slices.Sorted(maps.Keys(meta)) {
		if !isMetaField(k) {
			w.Fail("metadata."+k, code.UnknownField, "unknown field "+strconv.Quote(k), "")
		}
	}
	w.checkName(meta)
	w.labels = w.stringMap(meta, "labels")
	w.annotations = w.stringMap(meta, "annotations")
	w.checkLabels()
	w.checkAnnotations()
	if s, ok := meta["creationTimestamp"].(string); ok {
		t, err := time.Parse(time.RFC3339, s)
		if err != nil {
			w.Fail("metadata.creationTimestamp", code.BadTime, strconv.Quote(s)+" is not a time", "write it as 2006-01-02T15:04:05Z")
		}
		w.created = t.Unix()
	}
}

func (w *draft) checkName(meta map[string]any) {
	switch name := meta["name"].(type) {
	case string:
		if strings.Contains(name, "{{") {
			w.Fail("metadata.name", code.BadName, strconv.Quote(name)+" is part of a template", "fill it in first, as helm template does")
		} else if msgs := validation.IsDNS1123Subdomain(name); len(msgs) > 0 {
			w.Fail("metadata.name", code.BadName, strconv.Quote(name)+" is not a name: "+msgs[0], "")
		}
	case nil:
		w.Fail("metadata", code.NoName, "the object has no name", "give it a metadata.name")
	default:
		w.Fail("metadata.name", code.BadName, "the name is not a string", "put it in quotes")
	}
	switch ns := meta["namespace"].(type) {
	case nil:
	case string:
		if msgs := validation.IsDNS1123Label(ns); ns != "" && len(msgs) > 0 {
			w.Fail("metadata.namespace", code.BadName, strconv.Quote(ns)+" is not a namespace: "+msgs[0], "")
		}
	default:
		w.Fail("metadata.namespace", code.BadName, "the namespace is not a string", "put it in quotes")
	}
}

func (w *draft) checkLabels() {
	for _, k := range slices.Sorted(maps.Keys(w.labels)) {
		if msgs := validation.IsQualifiedName(k); len(msgs) > 0 {
			w.Fail("metadata.labels."+k, code.BadLabel, strconv.Quote(k)+" is not a label's name: "+msgs[0], "")
		}
		if msgs := validation.IsValidLabelValue(w.labels[k]); len(msgs) > 0 {
			w.Fail("metadata.labels."+k, code.BadLabel, strconv.Quote(w.labels[k])+" is not a label's value: "+msgs[0], "")
		}
	}
}

// maxAnnotations is how many bytes names and values of annotations may have, as in an API server.
const maxAnnotations = 256 << 10

func (w *draft) checkAnnotations() {
	size := 0
	for k, v := range w.annotations {
		size += len(k) + len(v)
	}
	if size > maxAnnotations {
		w.Fail("metadata.annotations", code.TooMuch, fmt.Sprintf("the annotations hold %d bytes of at most %d", size, maxAnnotations), "")
	}
}

func (w *draft) stringMap(meta map[string]any, field string) map[string]string {
	m, ok := meta[field].(map[string]any)
	if !ok {
		if meta[field] != nil {
			w.Fail("metadata."+field, code.WrongType, field+" is not a set of fields", "")
		}
		return nil
	}
	out := make(map[string]string, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		s, ok := m[k].(string)
		if !ok && m[k] != nil {
			w.Fail("metadata."+field+"."+k, code.WrongType, "the value is not a string", "put it in quotes")
		}
		out[k] = s
	}
	return out
}

// isMetaField reports whether ObjectMeta of Kubernetes has a field; those that only an API server writes are ignored.
func isMetaField(name string) bool {
	switch name {
	case "name",
		"generateName",
		"namespace",
		"labels",
		"annotations",
		"creationTimestamp",
		"selfLink",
		"uid",
		"resourceVersion",
		"generation",
		"deletionTimestamp",
		"deletionGracePeriodSeconds",
		"ownerReferences",
		"finalizers",
		"managedFields",
		"clusterName":
		return true
	}
	return false
}
