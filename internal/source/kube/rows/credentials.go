package rows

import (
	"encoding/base64"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"fairway/internal/mesh"
)

// Secrets returns a reader of Secrets; before is as for Objects.
func Secrets(o ObjectOptions, before Reader) Reader {
	return secretReader{newObjectReader(o, before)}
}

// secretReader reads Secrets as the decoder knows them from files.
type secretReader struct{ *objectReader }

func (r secretReader) Set(o runtime.Object, to *Made) []mesh.Problem {
	return r.objectReader.Set(treeOf(o.(*corev1.Secret)), to)
}

func (r secretReader) Remove(o runtime.Object, to *Made) {
	from := o.(*corev1.Secret)
	r.objectReader.Remove(&unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"namespace": from.Namespace, "name": from.Name},
	}}, to)
}

// treeOf returns the parts of a Secret that the decoder looks at.
func treeOf(from *corev1.Secret) *unstructured.Unstructured {
	meta := map[string]any{
		"namespace": from.Namespace, "name": from.Name, "uid": string(from.UID), "resourceVersion": from.ResourceVersion,
		"labels": texts(from.Labels), "annotations": texts(from.Annotations),
	}
	data := map[string]any{}
	for k, v := range from.Data {
		data[k] = base64.StdEncoding.EncodeToString(v)
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": meta, "type": string(from.Type), "data": data,
	}}
}

// ConfigMaps returns a reader of ConfigMaps that hold authorities; before is as for Objects.
func ConfigMaps(o ObjectOptions, before Reader) Reader {
	return mapReader{newObjectReader(o, before)}
}

// mapReader reads ConfigMaps that hold authorities, as the decoder knows them from files.
type mapReader struct{ *objectReader }

func (r mapReader) Set(o runtime.Object, to *Made) []mesh.Problem {
	return r.objectReader.Set(treeOfMap(o.(*corev1.ConfigMap)), to)
}

func (r mapReader) Remove(o runtime.Object, to *Made) {
	r.objectReader.Remove(treeOfMap(o.(*corev1.ConfigMap)), to)
}

// treeOfMap returns the parts of a ConfigMap that the decoder looks at.
func treeOfMap(from *corev1.ConfigMap) *unstructured.Unstructured {
	meta := map[string]any{
		"namespace": from.Namespace, "name": from.Name, "uid": string(from.UID), "resourceVersion": from.ResourceVersion,
		"labels": texts(from.Labels), "annotations": texts(from.Annotations),
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": texts(from.Data),
	}}
}

func texts(from map[string]string) map[string]any {
	out := map[string]any{}
	for k, v := range from {
		out[k] = v
	}
	return out
}
