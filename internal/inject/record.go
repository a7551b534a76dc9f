package inject

import (
	"encoding/json"
	"fairway/internal/inject/edit"
	"fmt"

	"istio.io/api/annotation"
)

// record lists what an injection added to a pod, so that the next one can remove it. It is the value of the annotation
// sidecar.istio.io/status; Istio's tools read its first four fields.
type record struct {
	InitContainers   []string `json:"initContainers"`
	Containers       []string `json:"containers"`
	Volumes          []string `json:"volumes"`
	ImagePullSecrets []string `json:"imagePullSecrets"`
	Revision         string   `json:"revision"`
	// Before holds the old values of labels and annotations that the injection changed; null: they were missing.
	Before struct {
		Labels      map[string]*string `json:"labels,omitempty"`
		Annotations map[string]*string `json:"annotations,omitempty"`
	} `json:"before"`
}

// overrides holds the original of each of the user's containers that templates changed: annotation proxy.istio.io/overrides.
type overrides struct {
	Containers     []any `json:"containers,omitempty"`
	InitContainers []any `json:"initContainers,omitempty"`
}

// takeBack makes a pod what it was before it was injected. A pod without a record was never injected. If a user forges a record, the pod
// loses the parts that the record names, and still gets a proxy.
func takeBack(pod map[string]any) error {
	annotations := edit.Fields(pod, "metadata", "annotations")
	written, injected := annotations[statusAnnotation()].(string)
	if !injected {
		delete(annotations, annotation.ProxyOverrides.Name)
		return nil
	}
	var was record
	if err := json.Unmarshal([]byte(written), &was); err != nil {
		return refused("annotation "+statusAnnotation(), "it is not a record of an injection (%w): remove it", err)
	}
	var own overrides
	if text := edit.Text(annotations, annotation.ProxyOverrides.Name); text != "" {
		if err := json.Unmarshal([]byte(text), &own); err != nil {
			return refused("annotation "+annotation.ProxyOverrides.Name, "it holds no containers (%w): remove it", err)
		}
	}
	spec := edit.Grown(pod, "spec")
	restoreProbes(spec)
	takeBackContainers(spec, "containers", was.Containers, own.Containers)
	takeBackContainers(spec, "initContainers", was.InitContainers, own.InitContainers)
	edit.SetList(spec, "volumes", edit.Without(edit.List(spec, "volumes"), was.Volumes...))
	edit.SetList(spec, "imagePullSecrets", edit.Without(edit.List(spec, "imagePullSecrets"), was.ImagePullSecrets...))
	takeBackWords(edit.Fields(pod, "metadata"), "annotations", was.Before.Annotations)
	takeBackWords(edit.Fields(pod, "metadata"), "labels", was.Before.Labels)
	if annotations = edit.Fields(pod, "metadata", "annotations"); annotations != nil {
		delete(annotations, statusAnnotation())
		delete(annotations, annotation.ProxyOverrides.Name)
	}
	return nil
}

// takeBackContainers removes the added containers, and restores the user's own containers that templates changed.
func takeBackContainers(spec map[string]any, kind string, added []string, own []any) {
	left := edit.Without(edit.List(spec, kind), added...)
	where := edit.Places(left)
	for _, item := range own {
		c, ok := edit.Whole(item).(map[string]any)
		if !ok {
			continue
		}
		at := where.At(edit.Text(c, "name"))
		if at < 0 {
			where[edit.Text(c, "name")] = len(left)
			left = append(left, c)
			continue
		}
		left[at] = c
	}
	edit.SetList(spec, kind, left)
}

func takeBackWords(meta map[string]any, kind string, before map[string]*string) {
	words := edit.Fields(meta, kind)
	for name, value := range before {
		switch {
		case words == nil:
		case value == nil:
			delete(words, name)
		default:
			words[name] = *value
		}
	}
	if words != nil && len(words) == 0 {
		delete(meta, kind)
	}
}

// record writes the record of the injection into the injected pod.
func (b *build) record(revision string) error {
	r := record{
		InitContainers:   addedNames(b.original, b.tree, "initContainers"),
		Containers:       addedNames(b.original, b.tree, "containers"),
		Volumes:          addedNames(b.original, b.tree, "volumes"),
		ImagePullSecrets: addedNames(b.original, b.tree, "imagePullSecrets"),
		Revision:         revision,
	}
	if err := b.keepOverrides(); err != nil {
		return err
	}
	r.Before.Labels = changedWords(b.original, b.tree, "labels")
	r.Before.Annotations = changedWords(b.original, b.tree, "annotations")
	written, err := json.Marshal(r)
	if err != nil {
		return err
	}
	edit.Grown(b.tree, "metadata", "annotations")[statusAnnotation()] = string(written)
	return nil
}

// keepOverrides writes the user's original containers that templates changed into the pod.
func (b *build) keepOverrides() error {
	if len(b.own.Containers)+len(b.own.InitContainers) == 0 {
		return nil
	}
	written, err := json.Marshal(b.own)
	if err != nil {
		return fmt.Errorf("note the user's own containers: %w", err)
	}
	edit.Grown(b.tree, "metadata", "annotations")[annotation.ProxyOverrides.Name] = string(written)
	return nil
}

// addedNames returns the names in a list of the second pod that are not in the first one's.
func addedNames(before, after map[string]any, kind string) []string {
	out := []string{}
	had := edit.Places(edit.List(edit.Fields(before, "spec"), kind))
	for _, item := range edit.List(edit.Fields(after, "spec"), kind) {
		m, _ := item.(map[string]any)
		if name := edit.Text(m, "name"); had.At(name) < 0 {
			out = append(out, name)
		}
	}
	return out
}

// changedWords returns the old values of labels or annotations that differ. The overrides' annotation is not among them: takeBack removes
// it.
func changedWords(before, after map[string]any, kind string) map[string]*string {
	out := map[string]*string{}
	was, is := edit.Fields(before, "metadata", kind), edit.Fields(after, "metadata", kind)
	for name, value := range is {
		old, there := was[name].(string)
		switch {
		case name == annotation.ProxyOverrides.Name || there && old == value:
		case there:
			out[name] = &old
		default:
			out[name] = nil
		}
	}
	return out
}
