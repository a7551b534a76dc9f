package install

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"fairway/internal/kubeclient"
)

// Annotations that Helm sets on its objects, and one that it obeys.
const (
	releaseName      = "meta.helm.sh/release-name"
	releaseNamespace = "meta.helm.sh/release-namespace"
	keepPolicy       = "helm.sh/resource-policy"
)

// fieldManager is Helm's name, so that helm upgrade may change fields that pilotctl set.
const fieldManager = "helm"

// cluster makes, changes and deletes objects of any kind.
type cluster struct {
	typed   *kubeclient.Clients
	dynamic dynamic.Interface
	mapper  *restmapper.DeferredDiscoveryRESTMapper
	dry     bool // nothing is stored: the API server only validates
}

func reach(config *rest.Config) (*cluster, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1 // an installation is some forty requests
	typed, err := kubeclient.Open(config)
	if err != nil {
		return nil, err
	}
	loose, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	found, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(found))
	return &cluster{typed: typed, dynamic: loose, mapper: mapper}, nil
}

// at returns the client for an object's kind and namespace.
func (c *cluster) at(o *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	kind := o.GroupVersionKind()
	m, err := c.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", called(o), err)
	}
	if m.Scope.Name() == meta.RESTScopeNameRoot {
		return c.dynamic.Resource(m.Resource), nil
	}
	return c.dynamic.Resource(m.Resource).Namespace(o.GetNamespace()), nil
}

// finder returns the function by which the chart finds objects of the cluster.
func (c *cluster) finder(ctx context.Context) finder {
	return func(apiVersion, kind, namespace, name string) (map[string]any, error) {
		wanted := &unstructured.Unstructured{}
		wanted.SetAPIVersion(apiVersion)
		wanted.SetKind(kind)
		wanted.SetNamespace(namespace)
		wanted.SetName(name)
		at, err := c.at(wanted)
		if err != nil {
			return nil, err
		}
		there, err := at.Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return map[string]any{}, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", called(wanted), err)
		}
		return there.Object, nil
	}
}

// called returns an object's name for people.
func called(o *unstructured.Unstructured) string {
	if ns := o.GetNamespace(); ns != "" {
		return fmt.Sprintf("%s %s/%s", o.GetKind(), ns, o.GetName())
	}
	return fmt.Sprintf("%s %s", o.GetKind(), o.GetName())
}

// apply applies an object. Fields of other managers that this object does not name stay.
func (c *cluster) apply(ctx context.Context, o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	at, err := c.at(o)
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	force := true
	opts := metav1.PatchOptions{FieldManager: fieldManager, Force: &force}
	if c.dry {
		opts.DryRun = []string{metav1.DryRunAll}
	}
	out, err := at.Patch(ctx, o.GetName(), types.ApplyPatchType, body, opts)
	if apierrors.IsInvalid(err) {
		if moved, failed := moveHooks(ctx, at, o, opts); moved != nil || failed != nil {
			if failed != nil || c.dry {
				return moved, failed
			}
			out, err = at.Patch(ctx, o.GetName(), types.ApplyPatchType, body, opts)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", called(o), err)
	}
	return out, nil
}

// ours reports whether an object is free to be made, or is of this release already. An object of another owner is an error that names it.
func (c *cluster) ours(ctx context.Context, o *unstructured.Unstructured, release, namespace string) error {
	at, err := c.at(o)
	if err != nil {
		return err
	}
	there, err := at.Get(ctx, o.GetName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", called(o), err)
	}
	whose := there.GetAnnotations()
	if whose[releaseName] == release && whose[releaseNamespace] == namespace {
		return nil
	}
	owner := "was not made by Helm or pilotctl"
	if whose[releaseName] != "" {
		owner = fmt.Sprintf("belongs to the release %s/%s", whose[releaseNamespace], whose[releaseName])
	}
	return fmt.Errorf("%s is there already and %s: delete it, or install another --revision", called(o), owner)
}

// mark annotates an object with the release that owns it.
func mark(o *unstructured.Unstructured, release, namespace string) {
	a := maps.Clone(o.GetAnnotations())
	if a == nil {
		a = map[string]string{}
	}
	a[releaseName], a[releaseNamespace] = release, namespace
	o.SetAnnotations(a)
}

func kept(o *unstructured.Unstructured) bool { return o.GetAnnotations()[keepPolicy] == "keep" }

// remove deletes an object with everything that it owns, and returns once it is gone or the context ends.
func (c *cluster) remove(ctx context.Context, o *unstructured.Unstructured) error {
	at, err := c.at(o)
	if meta.IsNoMatchError(err) {
		return nil // with its kind
	}
	if err != nil {
		return err
	}
	whole := metav1.DeletePropagationForeground
	err = at.Delete(ctx, o.GetName(), metav1.DeleteOptions{PropagationPolicy: &whole})
	for err == nil {
		err = wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
			_, err := at.Get(ctx, o.GetName(), metav1.GetOptions{})
			return false, err
		})
	}
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s is not gone yet: something holds it; its metadata.finalizers name what", called(o))
	}
	return fmt.Errorf("delete %s: %w", called(o), err)
}

// key identifies an object of a cluster, in any version of its kind.
type key struct {
	kind            schema.GroupKind
	namespace, name string
}

func keyOf(o *unstructured.Unstructured) key {
	return key{o.GroupVersionKind().GroupKind(), o.GetNamespace(), o.GetName()}
}
