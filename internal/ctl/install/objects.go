package install

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"fairway/internal/ctl/chart"
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
	served  map[schema.GroupVersionKind]metav1.APIResource // resources that the API server was found to serve
	dry     bool                                           // nothing is stored: the API server only validates
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
	return &cluster{typed: typed, dynamic: loose, served: map[schema.GroupVersionKind]metav1.APIResource{}}, nil
}

// at returns the client for an object's kind and namespace.
func (c *cluster) at(ctx context.Context, o *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	kind := o.GroupVersionKind()
	r, err := c.resource(ctx, kind)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", called(o), err)
	}
	all := c.dynamic.Resource(kind.GroupVersion().WithResource(r.Name))
	if !r.Namespaced {
		return all, nil
	}
	return all.Namespace(o.GetNamespace()), nil
}

// resource returns the resource of a kind. If the API server does not serve the kind, the error is a NoKindMatchError.
func (c *cluster) resource(ctx context.Context, kind schema.GroupVersionKind) (metav1.APIResource, error) {
	if known, ok := c.served[kind]; ok {
		return known, nil
	}
	all, err := c.typed.Resources(ctx, kind.GroupVersion())
	if err != nil && !apierrors.IsNotFound(err) {
		return metav1.APIResource{}, fmt.Errorf("ask the API server for the kinds of %s: %w", kind.GroupVersion(), err)
	}
	for _, r := range all {
		if !strings.Contains(r.Name, "/") { // a subresource has the name of its resource before it
			c.served[kind.GroupVersion().WithKind(r.Kind)] = r
		}
	}
	found, ok := c.served[kind]
	if !ok {
		return found, &meta.NoKindMatchError{GroupKind: kind.GroupKind(), SearchedVersions: []string{kind.Version}}
	}
	return found, nil
}

// finder returns the function by which the chart finds objects of the cluster.
func (c *cluster) finder(ctx context.Context) chart.Finder {
	return func(apiVersion, kind, namespace, name string) (map[string]any, error) {
		wanted := &unstructured.Unstructured{}
		wanted.SetAPIVersion(apiVersion)
		wanted.SetKind(kind)
		wanted.SetNamespace(namespace)
		wanted.SetName(name)
		at, err := c.at(ctx, wanted)
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
	at, err := c.at(ctx, o)
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
	at, err := c.at(ctx, o)
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
	at, err := c.at(ctx, o)
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
