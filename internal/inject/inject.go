package inject

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"istio.io/api/annotation"
	meshconfig "istio.io/api/mesh/v1alpha1"
	corev1 "k8s.io/api/core/v1"

	"fairway/internal/config/document"
	"fairway/internal/inject/edit"
	"fairway/internal/inject/form"
)

// Request is one pod, with its namespace, owner, cluster and settings.
type Request struct {
	// Pod is a Pod, or the template of one: a tree with metadata and spec. It is not changed.
	Pod       map[string]any
	Namespace string
	// NamespaceLabels may be empty. Nil: they are not known, and the caller has judged by them.
	NamespaceLabels map[string]string
	// Owner is the workload that the pod belongs to. Zero: it is derived from the pod.
	Owner Owner
	// Cluster and Network are where the pod will run, instead of those in the values. Empty: those in the values.
	Cluster, Network string
	// ProxyConfigs returns the settings of ProxyConfig resources that reach pods with labels, lowest precedence first: the pod's annotation
	// overrides wide, and own overrides the annotation. Nil: there are none.
	ProxyConfigs func(labels map[string]string) (wide, own []*meshconfig.ProxyConfig)
	// Untrusted is set if any client may have sent the request; then the result has no proxyMetadata of the mesh configuration.
	Untrusted bool
}

// Result is the verdict on a pod, and the injected pod.
type Result struct {
	Verdict
	Pod      map[string]any // injected; nil: it stays as it is
	Warnings []string       // for the pod's author
}

// Bounds on one pod; API servers and kubelets have lower ones.
const (
	mostContainers = 500
	mostPorts      = 10_000
	mostVolumes    = 2_000
	mostMerged     = 2_000 // items of a list that is merged item by item: variables and mounts of a container, pull secrets
)

// Inject decides about a pod, and returns it with a proxy if it is to have one. An error says why it cannot be injected as it asks.
func (i *Injector) Inject(r Request) (Result, error) {
	tree, bad := document.Own(r.Pod)
	if bad != nil {
		return Result{}, errors.New(bad.Message)
	}
	var pod corev1.Pod
	if err := edit.Typed(tree, &pod); err != nil {
		return Result{}, fmt.Errorf("this is not a pod: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	if err := boundedPod(&pod); err != nil {
		return Result{}, err
	}
	verdict := i.decide(&pod, r)
	if !verdict.Inject {
		return Result{Verdict: verdict}, nil
	}
	if err := takeBack(tree); err != nil {
		return Result{}, err
	}
	pod = corev1.Pod{}
	if err := edit.Typed(tree, &pod); err != nil {
		return Result{}, refused("annotation "+annotation.ProxyOverrides.Name, "%w", err)
	}
	if err := boundedPod(&pod); err != nil {
		return Result{}, err
	}
	w, err := i.wish(&pod, r)
	if err != nil {
		return Result{}, err
	}
	b := &build{original: tree, tree: edit.Clone(tree)}
	owner := r.Owner
	if owner == (Owner{}) {
		owner = ownerOf(&pod)
	}
	v := i.values
	v.Global.MultiCluster.ClusterName = cmp.Or(r.Cluster, v.Global.MultiCluster.ClusterName)
	v.Global.Network = cmp.Or(r.Network, v.Global.Network)
	s := surroundings{
		pod: &pod, wish: w, owner: owner, values: &v, system: i.settings.System, mesh: i.meshFor(r), tree: tree,
		annotations: i.config.InjectedAnnotations,
	}
	warnings, err := i.build(b, s)
	if err != nil {
		return Result{}, err
	}
	return Result{verdict, b.tree, append(w.warnings, warnings...)}, nil
}

// build applies all changes to a pod.
func (i *Injector) build(b *build, s surroundings) (warnings []string, err error) {
	for _, name := range s.wish.templates {
		over, err := i.laid(name, s)
		if err == nil {
			err = b.lay(over)
		}
		if err != nil {
			return nil, fmt.Errorf("template %s: %w", form.Quoted(name), err)
		}
	}
	if err := b.addVolumes(s.wish); err != nil {
		return nil, err
	}
	if err := b.reapply(); err != nil {
		return nil, err
	}
	b.order(s.wish)
	edit.Grown(b.tree, "metadata", "annotations")[annotation.IoIstioRev.Name] = i.settings.Revision
	if s.wish.mergeMetrics {
		own, err := mergeMetrics(edit.Grown(b.tree, "metadata", "annotations"), s.wish.statusPort)
		if err != nil {
			return nil, err
		}
		b.addVariable(prometheusVariable, own)
	}
	if s.wish.rewriteProbes && s.intercepts() {
		warnings, err = b.rewrite(s.wish.statusPort)
		if err != nil {
			return nil, err
		}
	}
	warnings = append(warnings, s.graceWarning()...)
	if err := b.check(s.values.Global.Hub == ""); err != nil {
		return nil, err
	}
	return warnings, b.record(i.settings.Revision)
}

// boundedPod refuses a pod that no cluster runs, before anything else reads it.
func boundedPod(pod *corev1.Pod) error {
	containers := len(pod.Spec.Containers) + len(pod.Spec.InitContainers)
	if containers > mostContainers {
		return fmt.Errorf("spec.containers: the pod has %d containers of at most %d", containers, mostContainers)
	}
	if n := len(pod.Spec.Volumes); n > mostVolumes {
		return fmt.Errorf("spec.volumes: the pod has %d volumes of at most %d", n, mostVolumes)
	}
	if n := max(len(pod.Spec.ImagePullSecrets), len(pod.Spec.HostAliases), len(pod.Spec.Tolerations)); n > mostMerged {
		return fmt.Errorf("spec: a list of the pod (imagePullSecrets, hostAliases, tolerations) has %d items of at most %d", n, mostMerged)
	}
	ports := 0
	for _, of := range []struct {
		kind string
		list []corev1.Container
	}{{"containers", pod.Spec.Containers}, {"initContainers", pod.Spec.InitContainers}} {
		for n := range of.list {
			c := &of.list[n]
			if ports += len(c.Ports); ports > mostPorts {
				return fmt.Errorf("spec.%s: the pod has more than %d ports", of.kind, mostPorts)
			}
			if c.Name == "" {
				return fmt.Errorf("spec.%s[%d].name: the container has no name", of.kind, n)
			}
			if most := max(len(c.Env), len(c.EnvFrom), len(c.VolumeMounts), len(c.VolumeDevices)); most > mostMerged {
				return fmt.Errorf("spec.%s[%d]: a list of the container has %d items of at most %d", of.kind, n, most, mostMerged)
			}
		}
	}
	for n := range pod.Spec.Volumes {
		if pod.Spec.Volumes[n].Name == "" {
			return fmt.Errorf("spec.volumes[%d].name: the volume has no name", n)
		}
	}
	return nil
}

// refused returns an error for the author of a pod.
func refused(where, format string, args ...any) error {
	return fmt.Errorf("%s: %w", where, fmt.Errorf(format, args...))
}
