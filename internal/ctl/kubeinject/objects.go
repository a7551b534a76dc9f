package kubeinject

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"

	"fairway/internal/config/document"
	"fairway/internal/inject"
	"fairway/internal/inject/edit"
	"fairway/internal/printable"
)

// run is one call of the command.
type run struct {
	injector  *inject.Injector
	namespace string // of objects without one
	remarks   []string
}

// file injects all objects of a file, and returns the file that is to be applied in its place. The error lists everything that is wrong
// with the file.
func (r *run) file(name string, text []byte) ([]byte, error) {
	pieces, err := split(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	var out bytes.Buffer
	var errs []error
	for _, p := range pieces {
		doc := document.Document{File: name, Line: p.line, Text: p.body}
		tree, bad := doc.Tree()
		if bad != nil {
			errs = append(errs, fmt.Errorf("%s:%d: %s", name, p.line+max(bad.Line, 1)-1, cmp.Or(bad.Message, "this cannot be read")))
			continue
		}
		object, _ := tree.(map[string]any)
		changed, err := r.object(object)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s:%d: %w", name, p.line, err))
			continue
		}
		out.Write(p.marker)
		if !changed {
			out.Write(p.body)
			continue
		}
		if err := write(&out, p, object); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), errors.Join(errs...)
}

// write writes an object anew: JSON as JSON, anything else as YAML.
func write(out *bytes.Buffer, p piece, object map[string]any) error {
	body := bytes.TrimLeft(p.body, " \t\r\n")
	if len(body) > 0 && body[0] == '{' && json.Valid(bytes.TrimSpace(body)) {
		out.Write(p.body[:len(p.body)-len(body)])
		raw, err := json.MarshalIndent(object, "", "  ")
		out.Write(append(raw, '\n'))
		return err
	}
	if separates(body) && !alone(bytes.SplitAfterN(body, []byte("\n"), 2)[0]) {
		out.WriteString("---\n") // that line's content is written below
	}
	raw, err := yaml.Marshal(object)
	out.Write(raw)
	return err
}

// object injects the pods of an object, in place, and reports whether that changed it.
func (r *run) object(object map[string]any) (changed bool, err error) {
	kind, _ := object["kind"].(string)
	if items, ok := object["items"].([]any); ok && kind == "List" {
		return r.items(items)
	}
	meta, _ := object["metadata"].(map[string]any)
	at := place(object, kind)
	if at == nil {
		return false, nil
	}
	template := at.of()
	if template == nil {
		return false, nil
	}
	name, _ := meta["name"].(string)
	namespace, _ := meta["namespace"].(string)
	namespace = cmp.Or(namespace, r.namespace)
	shown := printable.Text(kind+" "+namespace+"/"+name, printable.Short)
	request := inject.Request{Pod: template, Namespace: namespace}
	if kind != "Pod" {
		request.Owner = inject.Owner{Kind: kind, Namespace: namespace, Name: name}
	}
	result, err := r.injector.Inject(request)
	if err != nil {
		return false, fmt.Errorf("%s: %w", shown, err)
	}
	for _, w := range result.Warnings {
		r.remarks = append(r.remarks, shown+": "+w)
	}
	if !result.Inject {
		r.remarks = append(r.remarks, shown+" is not injected: "+result.Reason)
		return false, nil
	}
	if len(edit.Patch(template, result.Pod)) == 0 {
		return false, nil
	}
	at.put(result.Pod)
	return true, nil
}

// items injects the objects of a list.
func (r *run) items(items []any) (changed bool, err error) {
	var errs []error
	for n, item := range items {
		object, _ := item.(map[string]any)
		one, err := r.object(object)
		if err != nil {
			errs = append(errs, fmt.Errorf("items[%d]: %w", n, err))
		}
		changed = changed || one
	}
	return changed, errors.Join(errs...)
}

// spot is the place of a pod in an object.
type spot struct {
	whole map[string]any // the object is the pod
	in    map[string]any // holds the template
}

func (s *spot) of() map[string]any {
	if s.whole != nil {
		return s.whole
	}
	template, _ := s.in["template"].(map[string]any)
	return template
}

func (s *spot) put(pod map[string]any) {
	if s.whole == nil {
		s.in["template"] = pod
		return
	}
	clear(s.whole)
	for k, v := range pod {
		s.whole[k] = v
	}
}

// place returns the place of the pod in an object; nil: objects of this kind have no pods.
func place(object map[string]any, kind string) *spot {
	version, _ := object["apiVersion"].(string)
	group, _, grouped := strings.Cut(version, "/")
	if !grouped {
		group = ""
	}
	spec, _ := object["spec"].(map[string]any)
	switch group + "/" + kind {
	case "/Pod":
		return &spot{whole: object}
	case "/ReplicationController",
		"apps/Deployment", "apps/StatefulSet", "apps/DaemonSet", "apps/ReplicaSet",
		"extensions/Deployment", "extensions/DaemonSet", "extensions/ReplicaSet",
		"batch/Job":
		return &spot{in: spec}
	case "batch/CronJob":
		job, _ := spec["jobTemplate"].(map[string]any)
		jobSpec, _ := job["spec"].(map[string]any)
		return &spot{in: jobSpec}
	}
	return nil
}
