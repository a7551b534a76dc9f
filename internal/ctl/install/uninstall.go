package install

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// rootConfigMap is the ConfigMap that control planes write into namespaces: the root that workloads trust.
const rootConfigMap = "istio-ca-root-cert"

// Uninstall deletes the objects that Install made. CRDs (and with them all users' rules), the root of the mesh and the namespace stay
// unless purge is set: then they are deleted with the last control plane.
func Uninstall(ctx context.Context, o Options, purge bool) error {
	c, err := reach(o.Config)
	if err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(ctx, o.Wait)
	defer stop()
	recorded := c.records(o)
	was, err := recorded.last(ctx)
	if err != nil {
		return err
	}
	if was == nil && !purge {
		return fmt.Errorf("%s is not installed in namespace %s: pilotctl version lists the installed "+
			"revisions", ReleaseOf(o.Revision), o.Namespace)
	}
	if was != nil {
		made, err := objects(was.Manifest)
		if err != nil {
			return fmt.Errorf("read the installation: %w", err)
		}
		if err := c.takeBack(ctx, o, made); err != nil {
			return err
		}
		if err := recorded.drop(ctx); err != nil {
			return err
		}
	}
	others, err := c.others(ctx)
	if err != nil {
		return err
	}
	if len(others) > 0 {
		fmt.Fprintf(o.Log, "what all control planes share stays, there are others: %s\n", strings.Join(others, ", "))
		return nil
	}
	if err := c.written(ctx, o); err != nil {
		return err
	}
	if !purge {
		const stays = "CRDs, rules, the root of the mesh (Secret %s/cacerts) and the namespace stay; --purge deletes them\n"
		fmt.Fprintf(o.Log, stays, o.Namespace)
		return nil
	}
	return c.purge(ctx, o)
}

// takeBack deletes objects, the last created first, except those that are to be kept.
func (c *cluster) takeBack(ctx context.Context, o Options, made []*unstructured.Unstructured) error {
	// The API server must not call a control plane that is gone: webhooks are deleted before the control plane.
	for _, object := range slices.Backward(made) {
		if kept(object) {
			continue
		}
		if err := c.remove(ctx, object); err != nil {
			return err
		}
		fmt.Fprintf(o.Log, "%s deleted\n", called(object))
	}
	return nil
}

// others returns the other control planes that still exist, in any namespace.
func (c *cluster) others(ctx context.Context) (out []string, err error) {
	all, err := c.typed.Deployments("").List(ctx, metav1.ListOptions{LabelSelector: "app=istiod"})
	if err != nil {
		return nil, err
	}
	for _, d := range all.Items {
		out = append(out, d.Namespace+"/"+d.Name)
	}
	return out, nil
}

// written deletes objects that control planes wrote themselves: the root certificate in every namespace, and their Leases.
func (c *cluster) written(ctx context.Context, o Options) error {
	roots, err := c.typed.ConfigMaps("").List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + rootConfigMap})
	if err != nil {
		return err
	}
	for _, m := range roots.Items {
		err := c.typed.ConfigMaps(m.Namespace).Delete(ctx, m.Name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	leases := c.typed.Leases(o.Namespace)
	held, err := leases.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, l := range held.Items {
		if !strings.HasPrefix(l.Name, "istio-") && !strings.HasPrefix(l.Name, "fairway-") {
			continue
		}
		if err := leases.Delete(ctx, l.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}

// purge deletes the objects that Uninstall keeps: CRDs, the root of the mesh, and the namespace if pilotctl made it.
func (c *cluster) purge(ctx context.Context, o Options) error {
	all, err := Definitions()
	if err != nil {
		return err
	}
	var errs []error
	for _, crd := range all {
		errs = append(errs, c.remove(ctx, crd))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	fmt.Fprintf(o.Log, "%d CRDs deleted, and all rules\n", len(all))
	if err := c.dropRoot(ctx, o); err != nil {
		return err
	}
	home, err := c.typed.Namespaces().Get(ctx, o.Namespace, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && home.Labels[madeBy] != "pilotctl" {
		return nil
	}
	if err != nil {
		return err
	}
	gone := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": o.Namespace},
	}}
	if err := c.remove(ctx, gone); err != nil {
		return err
	}
	fmt.Fprintf(o.Log, "namespace %s deleted\n", o.Namespace)
	return nil
}

// dropRoot deletes the root of the mesh that the chart made. A root that a user put there stays.
func (c *cluster) dropRoot(ctx context.Context, o Options) error {
	secrets := c.typed.Secrets(o.Namespace)
	root, err := secrets.Get(ctx, "cacerts", metav1.GetOptions{})
	if err == nil && root.Annotations[releaseName] != "" {
		err = secrets.Delete(ctx, root.Name, metav1.DeleteOptions{})
	}
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
