package inject

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	template "github.com/DataDog/datadog-agent/pkg/template/text"
	"google.golang.org/protobuf/proto"
	meshconfig "istio.io/api/mesh/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fairway/internal/config/document"
	"fairway/internal/inject/edit"
	"fairway/internal/inject/form"
)

// The built-in templates. A template of the configuration with the same name replaces one.
const (
	sidecarTemplate = "sidecar"
	gatewayTemplate = "gateway"
)

// Filling is the input of a custom template. docs/injection.md lists it for its authors.
type Filling struct {
	ObjectMeta     metav1.ObjectMeta // of the pod
	Spec           corev1.PodSpec    // of the pod, as its author wrote it
	DeploymentMeta Owner
	ProxyConfig    *meshconfig.ProxyConfig
	MeshConfig     *meshconfig.MeshConfig
	Values         map[string]any
	Revision       string
	ProxyImage     string
	ProxyUID       int64
	ProxyGID       int64
	NativeSidecars bool
}

// mostOutput bounds what a template may write, in bytes.
const mostOutput = 1 << 20

// bounded is an output that ends a template when it writes too much.
type bounded struct{ bytes.Buffer }

func (b *bounded) Write(p []byte) (int, error) {
	if b.Len()+len(p) > mostOutput {
		return 0, fmt.Errorf("the template writes more than %d bytes", mostOutput)
	}
	return b.Buffer.Write(p)
}

// knows reports whether a template exists.
func (i *Injector) knows(name string) bool {
	return i.templates[name] != nil || name == sidecarTemplate || name == gatewayTemplate
}

// known lists the names of all templates.
func (i *Injector) known() string {
	names := map[string]bool{sidecarTemplate: true, gatewayTemplate: true}
	for name := range i.templates {
		names[name] = true
	}
	for name := range i.config.Aliases {
		names[name] = true
	}
	return strings.Join(slices.Sorted(maps.Keys(names)), ", ")
}

// aliased returns the names of the templates behind an alias, or the name itself. Aliases of aliases are not resolved.
func (i *Injector) aliased(name string) []string {
	if names, ok := i.config.Aliases[name]; ok {
		return names
	}
	return []string{name}
}

// checkTemplates refuses a configuration with names of templates that do not exist.
func (i *Injector) checkTemplates() error {
	var errs []error
	check := func(field string, names []string) {
		for _, name := range names {
			if !i.knows(name) {
				errs = append(errs, fmt.Errorf("%s: %s: there is no template %s; there are %s",
					i.settings.Config.Name, field, form.Quoted(name), i.known()))
			}
		}
	}
	for _, alias := range slices.Sorted(maps.Keys(i.config.Aliases)) {
		check("aliases."+alias, i.config.Aliases[alias])
	}
	for _, name := range i.config.DefaultTemplates {
		check("defaultTemplates", i.aliased(name))
	}
	return errors.Join(errs...)
}

// laid returns the result of a template, which is merged over a pod.
func (i *Injector) laid(name string, s surroundings) (map[string]any, error) {
	if t := i.templates[name]; t != nil {
		return i.custom(t, s)
	}
	built := s.sidecar
	if name == gatewayTemplate {
		built = s.gateway
	}
	over := built()
	spec, err := edit.TreeOf(over.spec)
	if err != nil {
		return nil, err
	}
	own := edit.Fields(s.tree, "metadata")
	meta := map[string]any{}
	for _, of := range []struct {
		kind  string
		words map[string]string
	}{{"labels", over.labels}, {"annotations", over.annotations}} {
		for key, value := range of.words {
			if edit.Text(edit.Fields(own, of.kind), key) == "" { // the pod's own value stays
				edit.Grown(meta, of.kind)[key] = value
			}
		}
	}
	return map[string]any{"metadata": meta, "spec": spec}, nil
}

// custom executes a template of the configuration.
func (i *Injector) custom(t *template.Template, s surroundings) (map[string]any, error) {
	var out bounded
	if err := t.Execute(&out, Filling{
		ObjectMeta: s.pod.ObjectMeta, Spec: s.pod.Spec, DeploymentMeta: s.owner,
		ProxyConfig: proto.CloneOf(s.wish.proxyConfig), MeshConfig: proto.CloneOf(s.mesh),
		Values: i.raw, Revision: i.settings.Revision, ProxyImage: s.wish.image, ProxyUID: proxyUID, ProxyGID: proxyUID,
		NativeSidecars: s.wish.native,
	}); err != nil {
		return nil, err
	}
	tree, bad := document.Document{Line: 1, Text: out.Bytes()}.Tree()
	if bad != nil {
		return nil, fmt.Errorf("its output, line %d: %s", max(bad.Line, 1), bad.Message)
	}
	over, ok := tree.(map[string]any)
	if tree != nil && !ok {
		return nil, errors.New("its output is not a set of fields: want metadata and spec, as a Pod has them")
	}
	for field := range over {
		switch field {
		case "metadata", "spec":
		case "apiVersion", "kind":
			delete(over, field)
		default:
			return nil, fmt.Errorf("its output has a field %s beside metadata and spec", form.Quoted(field))
		}
	}
	var pod corev1.Pod
	if err := edit.Typed(over, &pod); err != nil {
		return nil, fmt.Errorf("its output is not a part of a Pod: %w", err)
	}
	return over, nil
}
