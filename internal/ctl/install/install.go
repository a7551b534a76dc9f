package install

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"fairway/deploy"
	"fairway/internal/ctl/chart"
)

// Options describe an installation.
type Options struct {
	Config    *rest.Config
	Namespace string // the control plane's; it is created if it is missing
	Revision  string // empty: the default one
	Values    Values // of the chart, beside the revision
	NoCRDs    bool   // the CRDs belong to another installer
	Wait      time.Duration
	Log       io.Writer // gets a line for each step
}

// ReleaseOf returns Helm's name for the installation of a revision.
func ReleaseOf(revision string) string {
	if revision == "" {
		return "istiod"
	}
	return "istiod-" + revision
}

// withRevision resolves the profile, and sets the revision in the values. A different revision in the values is an error.
func withRevision(values Values, revision string) (Values, error) {
	values, err := withProfile(values)
	if err != nil {
		return nil, err
	}
	out := maps.Clone(values)
	if out == nil {
		out = Values{}
	}
	if said, ok := out["revision"]; ok && said != revision {
		return nil, fmt.Errorf("the values say revision: %v; say it with --revision", said)
	}
	gateway, _ := out["gateway"].(map[string]any)
	gateway = maps.Clone(gateway)
	if gateway == nil {
		gateway = map[string]any{}
	}
	if gateway["revision"] == nil {
		gateway["revision"] = revision
	}
	out["revision"], out["gateway"] = revision, gateway
	return out, nil
}

// gatewayOff returns the same values without the gateway, and whether that makes a difference.
func gatewayOff(values Values) (Values, bool) {
	gateway, _ := values["gateway"].(map[string]any)
	if on, _ := gateway["enabled"].(bool); !on {
		return values, false
	}
	gateway, values = maps.Clone(gateway), maps.Clone(values)
	gateway["enabled"] = false
	values["gateway"] = gateway
	return values, true
}

// Install puts a control plane into the cluster, or changes an installed one to match the options, and waits until it serves. It deletes
// objects that the values no longer ask for.
func Install(ctx context.Context, o Options) error {
	c, err := reach(o.Config)
	if err != nil {
		return err
	}
	values, was, err := c.planned(ctx, o)
	if err != nil {
		return err
	}
	off, has := gatewayOff(values)
	steps := []Values{values}
	if has && (was == nil || was.Info.Status != deployed) {
		steps = []Values{off, values} // gateways are injected by the control plane
	}
	// Wrong values are reported before any object is made.
	if _, err := c.render(ctx, o, values, was); err != nil {
		return err
	}
	if !o.NoCRDs {
		if err := c.define(ctx, o.Log); err != nil {
			return err
		}
	}
	if err := c.createNamespace(ctx, o); err != nil {
		return err
	}
	for _, values := range steps {
		if was, err = c.step(ctx, o, values, was); err != nil {
			return err
		}
	}
	fmt.Fprint(o.Log, was.Info.Notes)
	return nil
}

// versionAfter returns the number of the next installation.
func versionAfter(was *release) int {
	if was == nil {
		return 1
	}
	return was.Version + 1
}

func (c *cluster) render(ctx context.Context, o Options, values Values, was *release) (*rendering, error) {
	version, err := c.typed.Version(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask the API server for its version: %w", err)
	}
	r, err := render(target{ReleaseOf(o.Revision), o.Namespace, versionAfter(was), c.finder(ctx), version.GitVersion}, values)
	if err != nil {
		return nil, err
	}
	for _, object := range r.objects {
		mark(object, ReleaseOf(o.Revision), o.Namespace)
	}
	return r, nil
}

// createNamespace creates the namespace if it is missing.
func (c *cluster) createNamespace(ctx context.Context, o Options) error {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: o.Namespace, Labels: map[string]string{madeBy: "pilotctl"}}}
	_, err := c.typed.Namespaces().Create(ctx, ns, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	if err == nil {
		fmt.Fprintf(o.Log, "namespace %s made\n", o.Namespace)
	}
	return err
}

// madeBy is the label of a namespace that pilotctl made.
const madeBy = "app.kubernetes.io/managed-by"

// step applies the chart once, records it, and waits.
func (c *cluster) step(ctx context.Context, o Options, values Values, was *release) (*release, error) {
	r, err := c.render(ctx, o, values, was)
	if err != nil {
		return nil, err
	}
	for _, object := range r.objects {
		if err := c.ours(ctx, object, ReleaseOf(o.Revision), o.Namespace); err != nil {
			return nil, err
		}
	}
	now := &release{
		Name: ReleaseOf(o.Revision), Namespace: o.Namespace, Version: versionAfter(was),
		Chart: r.chart, Config: r.values, Manifest: r.manifest,
		Info: &info{
			FirstDeployed: moment{time.Now()}, LastDeployed: moment{time.Now()}, Notes: r.notes, Status: installing,
		},
		ApplyMethod: serverSide,
	}
	if was != nil {
		now.Info.FirstDeployed, now.Info.Status = was.Info.FirstDeployed, upgrading
	}
	kept := records{c.typed.Secrets(o.Namespace), now.Name}
	if err := kept.write(ctx, now); err != nil {
		return nil, err
	}
	err = c.carry(ctx, o, r, was)
	now.Info.Status, now.Info.Description = deployed, "installed by pilotctl"
	if err != nil {
		now.Info.Status, now.Info.Description = failed, err.Error()
	}
	// An interrupted installation is recorded too, so that it can be continued.
	recording, stop := context.WithTimeout(context.WithoutCancel(ctx), recordWithin)
	defer stop()
	if err == nil {
		err = kept.supersede(recording, now.Version)
	}
	return now, errors.Join(err, kept.write(recording, now))
}

// recordWithin bounds how long it may take to record an installation, even if the user has cancelled: four requests of some 250 KB.
const recordWithin = time.Minute

// carry applies the rendered objects to the cluster.
func (c *cluster) carry(ctx context.Context, o Options, r *rendering, was *release) error {
	for _, object := range r.objects {
		if _, err := c.apply(ctx, object); err != nil {
			return err
		}
		fmt.Fprintf(o.Log, "%s applied\n", called(object))
	}
	if err := c.prune(ctx, o, r, was); err != nil {
		return err
	}
	return c.ready(ctx, r.objects, o.Wait)
}

// prune deletes objects of an earlier installation that this one does not have.
func (c *cluster) prune(ctx context.Context, o Options, r *rendering, was *release) error {
	if was == nil {
		return nil
	}
	before, err := objects(was.Manifest)
	if err != nil {
		return fmt.Errorf("read the earlier installation: %w", err)
	}
	now := map[key]bool{}
	for _, object := range r.objects {
		now[keyOf(object)] = true
	}
	limited, stop := context.WithTimeout(ctx, o.Wait)
	defer stop()
	for _, object := range slices.Backward(before) {
		if now[keyOf(object)] || kept(object) {
			continue
		}
		if err := c.remove(limited, object); err != nil {
			return err
		}
		fmt.Fprintf(o.Log, "%s deleted\n", called(object))
	}
	return nil
}

// Manifests renders the objects that Install would apply, without a request to a cluster. It leaves out the root of the mesh, which is made
// at the installation.
func Manifests(namespace, revision string, values Values) (string, error) {
	values, err := withRevision(values, revision)
	if err != nil {
		return "", err
	}
	r, err := render(target{release: ReleaseOf(revision), namespace: namespace, revision: 1}, withoutRoot(values))
	if err != nil {
		return "", err
	}
	return r.manifest, nil
}

func withoutRoot(values Values) Values {
	return chart.Merge(values, Values{"ca": Values{"generate": false}})
}

// records returns the records of the installed release.
func (c *cluster) records(o Options) records {
	return records{c.typed.Secrets(o.Namespace), ReleaseOf(o.Revision)}
}

// planned returns the values to install with, and the last recorded release; nil: there is none.
func (c *cluster) planned(ctx context.Context, o Options) (Values, *release, error) {
	values, err := withRevision(o.Values, o.Revision)
	if err != nil {
		return nil, nil, err
	}
	was, err := c.records(o).last(ctx)
	return values, was, err
}

// Judge asks the API server for the result of applying each object, and stores nothing.
func Judge(ctx context.Context, o Options) error {
	c, err := reach(o.Config)
	if err != nil {
		return err
	}
	c.dry = true
	values, was, err := c.planned(ctx, o)
	if err != nil {
		return err
	}
	r, err := c.render(ctx, o, values, was)
	if err != nil {
		return err
	}
	all := r.objects
	if !o.NoCRDs {
		defined, err := Definitions()
		if err != nil {
			return err
		}
		all = append(defined, all...)
	}
	var errs []error
	for _, object := range all {
		if err := c.ours(ctx, object, ReleaseOf(o.Revision), o.Namespace); err != nil && object.GetKind() != crdKind {
			errs = append(errs, err)
			continue
		}
		if _, err := c.apply(ctx, object); err != nil {
			errs = append(errs, err)
			continue
		}
		fmt.Fprintf(o.Log, "%s would be applied\n", called(object))
	}
	return errors.Join(errs...)
}

const crdKind = "CustomResourceDefinition"

// Definitions returns the CRDs of Istio's kinds.
func Definitions() ([]*unstructured.Unstructured, error) {
	text, err := deploy.CRDs()
	if err != nil {
		return nil, err
	}
	return objects(strings.TrimSpace(string(text)))
}
