package analyze

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fairway/internal/compile/lacking"
	"fairway/internal/kubeclient"
	"fairway/internal/mesh"
	"fairway/internal/source/kube/translate"
)

// inventory is Kubernetes' own objects: those of files, and of a cluster in addition. A control plane reads less of them.
type inventory struct {
	pods       []pod
	services   []*corev1.Service
	namespaces map[string]*corev1.Namespace
	owners     []owner
	// serviceAccounts are all that are known, in no order.
	serviceAccounts []lacking.Account
	accountsHidden  bool              // ServiceAccounts of the cluster may not be read
	injector        map[string]string // the ConfigMap of injection: its keys config and values; nil: there is none
	remotes         map[string]bool   // clusters that Secrets say how to reach; nil: the Secrets may not be read
}

// pod is a pod, or the pod of a template.
type pod struct {
	ref  mesh.ObjectRef // the written object
	at   string         // where the pod is in that object: "", or "spec.template."
	runs bool           // it is in a cluster, as it runs
	*corev1.Pod
}

// owner is an object that holds the template of pods.
type owner struct {
	ref         mesh.ObjectRef
	annotations map[string]string
}

func newInventory() *inventory {
	return &inventory{namespaces: map[string]*corev1.Namespace{}, remotes: map[string]bool{}}
}

// multiCluster is the label of Secrets that say how to reach other clusters, each under its name.
const multiCluster = "istio/multiCluster"

// injectorMap is the name of the ConfigMap of injection; a revision's own has its name behind it.
func injectorMap(revision string) string {
	if revision == "" || revision == "default" {
		return "istio-sidecar-injector"
	}
	return "istio-sidecar-injector-" + revision
}

// mostListed is how many objects of a kind are read from a cluster; pageSize is how many at once.
const (
	mostListed = 200_000
	pageSize   = 500
)

// look adds the objects of a cluster. If a kind may not be read, the source of objects reports that, and the other kinds are still read.
func (i *inventory) look(ctx context.Context, o Options, held func(kind, namespace, name string) bool) error {
	client, err := kubeclient.Open(o.Cluster)
	if err != nil {
		return err
	}
	var errs []error
	list := func(what string, page func(metav1.ListOptions) (string, int, error)) {
		options, n := metav1.ListOptions{Limit: pageSize}, 0
		for {
			next, got, err := page(options)
			if apierrors.IsForbidden(err) {
				return // the source of objects, which reads them too, reports this
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("%s are not looked at: %w", what, err))
				return
			}
			if n += got; next == "" {
				return
			}
			if n >= mostListed {
				errs = append(errs, fmt.Errorf("%s: the cluster has more than %d, and no more are looked at", what, mostListed))
				return
			}
			options.Continue = next
		}
	}
	list("Namespaces", func(lo metav1.ListOptions) (string, int, error) {
		all, err := client.Namespaces().List(ctx, lo)
		if err != nil {
			return "", 0, err
		}
		for n := range all.Items {
			if one := &all.Items[n]; !held("Namespace", "", one.Name) {
				i.namespaces[one.Name] = one
			}
		}
		return all.Continue, len(all.Items), nil
	})
	list("Services", func(lo metav1.ListOptions) (string, int, error) {
		all, err := client.Services(metav1.NamespaceAll).List(ctx, lo)
		if err != nil {
			return "", 0, err
		}
		for n := range all.Items {
			if one := &all.Items[n]; !held("Service", one.Namespace, one.Name) {
				i.services = append(i.services, one)
			}
		}
		return all.Continue, len(all.Items), nil
	})
	i.lookAtAccounts(ctx, client, list)
	seen := map[string]bool{}
	list("Pods", func(lo metav1.ListOptions) (string, int, error) {
		all, err := client.Pods(metav1.NamespaceAll).List(ctx, lo)
		if err != nil {
			return "", 0, err
		}
		for n := range all.Items {
			i.running(&all.Items[n], seen, held)
		}
		return all.Continue, len(all.Items), nil
	})
	if i.injector == nil {
		of, err := client.ConfigMaps(o.RootNamespace).Get(ctx, injectorMap(o.Revision), metav1.GetOptions{})
		if err == nil {
			i.injector = of.Data
		} else if !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) { // without it the defaults count
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// lookAtAccounts adds the ServiceAccounts of a cluster.
func (i *inventory) lookAtAccounts(
	ctx context.Context, client *kubeclient.Clients, list func(string, func(metav1.ListOptions) (string, int, error)),
) {
	list("ServiceAccounts", func(lo metav1.ListOptions) (string, int, error) {
		all, err := client.ServiceAccounts(metav1.NamespaceAll).List(ctx, lo)
		if err != nil {
			i.accountsHidden = true
			return "", 0, err
		}
		for n := range all.Items {
			i.serviceAccounts = append(i.serviceAccounts, lacking.Account{Namespace: all.Items[n].Namespace, Name: all.Items[n].Name})
		}
		return all.Continue, len(all.Items), nil
	})
}

// running keeps a pod of a cluster. Of several equal pods of one owner it keeps only the first.
func (i *inventory) running(p *corev1.Pod, seen map[string]bool, held func(kind, namespace, name string) bool) {
	if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed || p.DeletionTimestamp != nil {
		return
	}
	ref := mesh.ObjectRef{Kind: "Pod", Namespace: p.Namespace, Name: p.Name}
	if by := metav1.GetControllerOf(p); by != nil {
		ref.Kind, ref.Name = by.Kind, by.Name
		if hash := p.Labels["pod-template-hash"]; by.Kind == "ReplicaSet" && hash != "" {
			if name, cut := strings.CutSuffix(by.Name, "-"+hash); cut {
				ref.Kind, ref.Name = "Deployment", name
			}
		}
	}
	image, has := proxyImage(p)
	alike := fmt.Sprint(ref, "|", has, image, "|", mesh.MakeLabels(withoutPerPod(p.Labels)))
	if held(ref.Kind, ref.Namespace, ref.Name) || held("Pod", p.Namespace, p.Name) || seen[alike] {
		return
	}
	seen[alike] = true
	out := pod{ref: ref, runs: true, Pod: p}
	if ref.Kind != "Pod" {
		out.at = "spec.template."
	}
	i.pods = append(i.pods, out)
}

// withoutPerPod removes the labels that differ between pods of one set.
func withoutPerPod(labels map[string]string) map[string]string {
	labels = maps.Clone(labels)
	for _, one := range append(perPod(), mesh.TLSModeLabel, "pod-template-hash", "controller-revision-hash") {
		delete(labels, one)
	}
	return labels
}

// proxyContainer is the name of the proxy's container in injection.
const proxyContainer = "istio-proxy"

func isProxy(c corev1.Container) bool { return c.Name == proxyContainer }

// proxyImage returns the image of a pod's proxy; false: it has no proxy.
func proxyImage(p *corev1.Pod) (string, bool) {
	for _, list := range [...][]corev1.Container{p.Spec.Containers, p.Spec.InitContainers} {
		if at := slices.IndexFunc(list, isProxy); at >= 0 {
			return list[at].Image, true
		}
	}
	return "", false
}

// secretOfClusters keeps the names of the clusters in a Secret.
func (i *inventory) secretOfClusters(s *corev1.Secret) {
	if s.Labels[multiCluster] != "true" {
		return
	}
	for name := range s.Data {
		i.remotes[name] = true
	}
	for name := range s.StringData {
		i.remotes[name] = true
	}
}

// remoteSecrets adds the clusters that Secrets of a cluster name.
func (i *inventory) remoteSecrets(ctx context.Context, o Options) error {
	client, err := kubeclient.Open(o.Cluster)
	if err != nil {
		return err
	}
	by := metav1.ListOptions{LabelSelector: multiCluster + "=true", Limit: pageSize}
	all, err := client.Secrets(o.RootNamespace).List(ctx, by)
	if apierrors.IsForbidden(err) {
		i.remotes = nil
		return nil
	}
	if err != nil {
		return fmt.Errorf("Secrets with the label %s=true are not looked at: %w", multiCluster, err)
	}
	for n := range all.Items {
		i.secretOfClusters(&all.Items[n])
	}
	return nil
}

// serviceRef names a Service.
func serviceRef(s *corev1.Service) mesh.ObjectRef {
	return mesh.ObjectRef{Kind: "Service", Namespace: s.Namespace, Name: s.Name}
}

// group is the pods of one namespace that have the same labels, apart from labels of single pods.
type group struct {
	namespace string
	labels    map[string]string
	pod       pod // one of them
}

// groups lists the pods by their labels, each set once.
func (i *inventory) groups() (out []group) {
	seen := map[proxyKey]bool{}
	for _, p := range i.pods {
		labels := withoutPerPod(p.Labels)
		w := proxyKey{namespace: p.Namespace, labels: mesh.MakeLabels(labels)}
		if !seen[w] {
			seen[w] = true
			out = append(out, group{p.Namespace, labels, p})
		}
	}
	return out
}

// selecting lists the Services that lead to a group, by name.
func (i *inventory) selecting(g group) (out []*corev1.Service) {
	for _, s := range i.services {
		if s.Namespace == g.namespace && len(s.Spec.Selector) > 0 && s.Spec.Type != corev1.ServiceTypeExternalName &&
			has(g.labels, s.Spec.Selector) {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b *corev1.Service) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// portsOf returns a Service's ports as proxies use them, by number.
func portsOf(registry translate.Registry, s *corev1.Service) map[uint32]mesh.Port {
	row, _, _ := registry.Service(s)
	out := map[uint32]mesh.Port{}
	for _, p := range row.Ports {
		out[p.Number] = p
	}
	return out
}
