package inject

import (
	"encoding/json"
	"errors"
	"fairway/internal/inject/edit"
	"fairway/internal/inject/form"
	"fairway/internal/inject/values"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// build is the state of one pod during one call of Inject.
type build struct {
	original map[string]any // as the user wrote it
	tree     map[string]any // as it is so far
	own      overrides      // the user's containers that templates changed
}

// lay merges a template's result over the pod, by the rules of a strategic merge patch.
func (b *build) lay(over map[string]any) error {
	spec := edit.Fields(over, "spec")
	if proxy := edit.Named(edit.List(spec, "containers"), ProxyContainer); proxy != nil &&
		edit.Named(edit.List(edit.Fields(b.tree, "spec"), "initContainers"), ProxyContainer) != nil {
		// A template that was written for ordinary sidecars means the proxy, even if that is a native sidecar.
		edit.SetList(spec, "containers", edit.Without(edit.List(spec, "containers"), ProxyContainer))
		spec["initContainers"] = append(edit.List(spec, "initContainers"), proxy)
	}
	b.keep(spec)
	if len(edit.Fields(over, "metadata")) == 0 {
		delete(over, "metadata")
	}
	return b.merge(over)
}

// merge merges a part of a pod over the pod.
func (b *build) merge(over map[string]any) error {
	edit.Settle(b.tree, over)
	merged, err := strategicpatch.StrategicMergeMapPatch(b.tree, over, corev1.Pod{})
	if err == nil {
		b.tree = merged
	}
	return err
}

// keep records which of the user's containers a template names, and removes the user's proxy if the template's is in the other list.
func (b *build) keep(spec map[string]any) {
	for _, kind := range edit.ContainerLists() {
		for _, item := range edit.List(spec, kind) {
			c, _ := item.(map[string]any)
			name := edit.Text(c, "name")
			if name == "" {
				continue
			}
			if own := edit.Named(edit.List(edit.Fields(b.original, "spec"), kind), name); own != nil {
				noted(&b.own, kind, own)
				b.forgetImage(kind, name)
				continue
			}
			// The user's proxy is in containers, but the template's is a native sidecar: the user's fields apply to the native sidecar.
			if own := edit.Named(edit.List(edit.Fields(b.original, "spec"), "containers"), name); own != nil && name == ProxyContainer {
				noted(&b.own, "containers", own)
				now := edit.Fields(b.tree, "spec")
				edit.SetList(now, "containers", edit.Without(edit.List(now, "containers"), name))
			}
		}
	}
}

func noted(o *overrides, kind string, c map[string]any) {
	to := &o.Containers
	if kind == "initContainers" {
		to = &o.InitContainers
	}
	if edit.Named(*to, edit.Text(c, "name")) == nil {
		*to = append(*to, edit.Clone(c))
	}
}

// imageOfTemplate is the value of an image that means the template's image.
const imageOfTemplate = "auto"

func (b *build) forgetImage(kind, name string) {
	if c := edit.Named(edit.List(edit.Fields(b.tree, "spec"), kind), name); edit.Text(c, "image") == imageOfTemplate {
		delete(c, "image")
	}
}

// reapply merges the user's own containers over the templates' changes: a field that the user sets wins.
func (b *build) reapply() error {
	spec, own := map[string]any{}, []placedContainer{}
	now := map[string]edit.ByName{}
	for _, kind := range edit.ContainerLists() {
		now[kind] = edit.Places(edit.List(edit.Fields(b.tree, "spec"), kind))
	}
	for _, of := range []struct {
		kind string
		list []any
	}{{"containers", b.own.Containers}, {"initContainers", b.own.InitContainers}} {
		for _, item := range of.list {
			c, err := known(item)
			if err != nil {
				return err
			}
			if edit.Text(c, "image") == imageOfTemplate {
				delete(c, "image")
			}
			to := of.kind
			if now[of.kind].At(edit.Text(c, "name")) < 0 {
				to = "initContainers"
			}
			spec[to] = append(edit.List(spec, to), c)
			own = append(own, placedContainer{to, edit.Clone(c)})
		}
	}
	if len(own) == 0 {
		return nil
	}
	// one merge for all containers: each merge walks the whole pod
	if err := b.merge(map[string]any{"spec": spec}); err != nil {
		return fmt.Errorf("the pod's own containers: %w", err)
	}
	for _, kind := range edit.ContainerLists() {
		now[kind] = edit.Places(edit.List(edit.Fields(b.tree, "spec"), kind))
	}
	for _, c := range own {
		if at := now[c.list].At(edit.Text(c.container, "name")); at >= 0 {
			into, _ := edit.List(edit.Fields(b.tree, "spec"), c.list)[at].(map[string]any)
			lastOwn(into, c.container)
		}
	}
	return nil
}

// placedContainer is one of the user's containers, and the name of its list.
type placedContainer struct {
	list      string
	container map[string]any
}

// lastOwn puts the user's variables after those of templates, because they may refer to these. Each replaces a template's variable as a
// whole: a merge field by field could leave a variable with both a value and the template's valueFrom.
func lastOwn(merged, own map[string]any) {
	var names []string
	var last []any
	for _, item := range edit.List(own, "env") {
		v, _ := item.(map[string]any)
		names = append(names, edit.Text(v, "name"))
		last = append(last, v)
	}
	edit.SetList(merged, "env", append(edit.Without(edit.List(merged, "env"), names...), last...))
}

// known returns a container with only the fields that this build knows: the pod still has the others, and the merge keeps them.
func known(container any) (map[string]any, error) {
	var c corev1.Container
	if err := edit.Typed(container, &c); err != nil {
		return nil, err
	}
	return edit.TreeOf(c)
}

// order puts the injected containers in their places. With a native sidecar all of the user's containers, init containers too, start when
// the proxy is ready. Without one no proxy runs while init containers run, so interception begins after them. Then the proxy is the last
// container, so that tools do not take it for the application, unless the application has to wait for the proxy.
func (b *build) order(w *wishes) {
	spec := edit.Fields(b.tree, "spec")
	native := edit.Named(edit.List(spec, "initContainers"), ProxyContainer) != nil
	move := func(kind, name string, first bool) {
		c := edit.Named(edit.List(spec, kind), name)
		if c == nil {
			return
		}
		rest := edit.Without(edit.List(spec, kind), name)
		if first {
			spec[kind] = append([]any{c}, rest...)
			return
		}
		spec[kind] = append(rest, c)
	}
	move("containers", ProxyContainer, w.hold)
	move("initContainers", ProxyContainer, true)
	move("initContainers", initContainer, native)
}

// addVariable adds a variable to the proxy; empty: there is nothing to say.
func (b *build) addVariable(name, value string) {
	if value == "" {
		return
	}
	for _, kind := range edit.ContainerLists() {
		if proxy := edit.Named(edit.List(edit.Fields(b.tree, "spec"), kind), ProxyContainer); proxy != nil {
			env := edit.Without(edit.List(proxy, "env"), name)
			proxy["env"] = append(env, map[string]any{"name": name, "value": literal(value)})
		}
	}
}

// addVolumes adds the volumes and mounts that annotations name to the proxy.
func (b *build) addVolumes(w *wishes) error {
	if len(w.volumes)+len(w.mounts) == 0 {
		return nil
	}
	spec := map[string]any{}
	edit.SetList(spec, "volumes", w.volumes)
	for _, kind := range edit.ContainerLists() {
		if edit.Named(edit.List(edit.Fields(b.tree, "spec"), kind), ProxyContainer) != nil && len(w.mounts) > 0 {
			spec[kind] = []any{map[string]any{"name": ProxyContainer, "volumeMounts": w.mounts}}
		}
	}
	over := map[string]any{"spec": spec}
	var pod corev1.Pod
	if err := edit.Typed(over, &pod); err != nil {
		return fmt.Errorf("annotations of the user's volumes: %w", err)
	}
	if err := b.merge(over); err != nil {
		return fmt.Errorf("annotations of the user's volumes: %w", err)
	}
	return nil
}

// rewrite points the probes of the user's containers at the agent.
func (b *build) rewrite(port int) (warnings []string, err error) {
	r := rewriting{port: port, probers: map[string]prober{}}
	r.pod(edit.Fields(b.tree, "spec"))
	if len(r.probers) == 0 {
		return r.warnings, nil
	}
	written, err := json.Marshal(r.probers)
	b.addVariable(probersVariable, string(written))
	return r.warnings, err
}

// check refuses what no API server would take. noHub reports whether templates could not complete images.
func (b *build) check(noHub bool) error {
	var errs []error
	none := false
	for _, kind := range edit.ContainerLists() {
		for _, item := range edit.List(edit.Fields(b.tree, "spec"), kind) {
			c, _ := item.(map[string]any)
			switch edit.Text(c, "image") {
			case "":
				errs = append(errs, fmt.Errorf("container %s has no image after the injection", form.Quoted(edit.Text(c, "name"))))
				none = true
			case imageOfTemplate:
				errs = append(errs, fmt.Errorf(
					"container %s asks for a template's image (auto), but no template names it: is it called %s, and does "+
						"annotation inject.istio.io/templates name the right one?",
					form.Quoted(edit.Text(c, "name")), ProxyContainer))
			}
		}
	}
	if none && noHub {
		errs = append(errs, errors.New(values.NoHub))
	}
	return errors.Join(errs...)
}
