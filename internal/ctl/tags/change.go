package tags

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	admission "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"fairway/internal/ctl/chart"
	"fairway/internal/ctl/injection"
	"fairway/internal/ctl/install"
	"fairway/internal/kubeclient"
)

// Labels and annotations of tags.
const (
	tagLabel      = "istio.io/tag"
	revisionLabel = "istio.io/rev"
	managedBy     = "app.kubernetes.io/managed-by"
	helmRelease   = "meta.helm.sh/release-name"
	defaultTag    = "default"
)

// ownerOf returns the installation that a tag belongs to; empty: it was made by tag set.
func ownerOf(h *admission.MutatingWebhookConfiguration) string { return h.Annotations[helmRelease] }

// made returns the configuration of a tag as the chart makes it. It belongs to no installation.
func made(namespace, tag, revision string) (*admission.MutatingWebhookConfiguration, error) {
	of := revision
	if of == defaultTag {
		of = "" // the installation without a name
	}
	text, err := install.Manifests(namespace, of, install.Values{
		"revisionTags": []any{tag}, "global": map[string]any{"hub": "unused"}, // no pod is part of it
	})
	if err != nil {
		return nil, err
	}
	for _, document := range chart.Split(text) {
		var h admission.MutatingWebhookConfiguration
		if err := yaml.Unmarshal([]byte(document), &h); err != nil ||
			h.Kind != "MutatingWebhookConfiguration" || h.Labels[tagLabel] != tag {
			continue // of another kind
		}
		h.Labels[managedBy] = "pilotctl"
		delete(h.Labels, "app.kubernetes.io/instance")
		return &h, nil
	}
	return nil, fmt.Errorf("the chart makes no webhooks for a tag %s", tag)
}

func (v *verb) generate(_ context.Context, cmd *cobra.Command, tag string) error {
	h, err := made(v.at.Namespace, tag, v.revision)
	if err != nil {
		return err
	}
	text, err := yaml.Marshal(h)
	if err == nil {
		_, err = cmd.OutOrStdout().Write(text)
	}
	return err
}

// revisionHooks returns the injecting configuration of a revision. If there is none, the error names the revisions that there are.
func revisionHooks(ctx context.Context, c *kubeclient.Clients, revision string) (*admission.MutatingWebhookConfiguration, error) {
	all, err := c.MutatingWebhooks().List(ctx, metav1.ListOptions{LabelSelector: revisionLabel + ",!" + tagLabel})
	if err != nil {
		return nil, fmt.Errorf("list webhooks: %w", err)
	}
	var known []string
	for i := range all.Items {
		h := &all.Items[i]
		if !slices.ContainsFunc(h.Webhooks, injection.Injects) {
			continue
		}
		if h.Labels[revisionLabel] == revision {
			return h, nil
		}
		known = append(known, h.Labels[revisionLabel])
	}
	if len(known) == 0 {
		return nil, fmt.Errorf("no revision %s injects proxies, nor any other: pilotctl install makes one", revision)
	}
	slices.Sort(known)
	return nil, fmt.Errorf("no revision %s injects proxies; there are: %s", revision, strings.Join(known, ", "))
}

// like gives a tag's webhooks the settings of the revision's own: how it is reached and verified, and what holds if it does not answer. The
// control plane writes its key by itself.
func like(h, of *admission.MutatingWebhookConfiguration) {
	i := slices.IndexFunc(of.Webhooks, injection.Injects)
	from := of.Webhooks[i]
	for i := range h.Webhooks {
		w := &h.Webhooks[i]
		w.FailurePolicy, w.ReinvocationPolicy, w.TimeoutSeconds = from.FailurePolicy, from.ReinvocationPolicy, from.TimeoutSeconds
		w.ClientConfig.CABundle = from.ClientConfig.CABundle
		if from.ClientConfig.URL != nil {
			w.ClientConfig.URL, w.ClientConfig.Service = from.ClientConfig.URL, nil
		}
	}
}

func (v *verb) set(ctx context.Context, cmd *cobra.Command, tag string) error {
	c, err := v.open()
	if err != nil {
		return err
	}
	of, err := revisionHooks(ctx, c, v.revision)
	if err != nil {
		return err
	}
	// Two configurations that inject the pods of one label would both do so.
	if other, err := revisionHooks(ctx, c, tag); err == nil {
		return fmt.Errorf("%s is a revision itself, by %s: choose another name, or uninstall it first", tag, other.Name)
	}
	h, err := made(v.at.Namespace, tag, v.revision)
	if err != nil {
		return err
	}
	like(h, of)
	there, err := find(ctx, c, tag)
	if err != nil {
		return err
	}
	if there == nil {
		if _, err := c.MutatingWebhooks().Create(ctx, h, metav1.CreateOptions{FieldManager: "pilotctl"}); err != nil {
			return fmt.Errorf("make %s: %w", h.Name, err)
		}
		_, err := fmt.Fprintf(cmd.OutOrStdout(), "tag %s names revision %s: label namespaces with %s=%s, and restart their pods\n",
			tag, v.revision, revisionLabel, tag)
		return err
	}
	was := there.Labels[revisionLabel]
	switch {
	case ownerOf(there) != "":
		return fmt.Errorf("tag %s belongs to the installation %s: change revisionTags of its values", tag, ownerOf(there))
	case was != v.revision && !v.over:
		return fmt.Errorf("tag %s names revision %s: --overwrite moves it", tag, was)
	}
	h.Name, h.ResourceVersion = there.Name, there.ResourceVersion
	if _, err := c.MutatingWebhooks().Update(ctx, h, metav1.UpdateOptions{FieldManager: "pilotctl"}); err != nil {
		if apierrors.IsConflict(err) {
			return fmt.Errorf("tag %s was changed meanwhile: try again", tag)
		}
		return fmt.Errorf("change %s: %w", h.Name, err)
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "tag %s names revision %s now (it was %s): restart the pods of its namespaces\n",
		tag, v.revision, was)
	return err
}

// find returns the configuration of a tag; nil: there is none.
func find(ctx context.Context, c *kubeclient.Clients, tag string) (*admission.MutatingWebhookConfiguration, error) {
	all, err := c.MutatingWebhooks().List(ctx, metav1.ListOptions{LabelSelector: tagLabel + "=" + tag})
	switch {
	case err != nil:
		return nil, fmt.Errorf("list webhooks: %w", err)
	case len(all.Items) == 0:
		return nil, nil
	case len(all.Items) > 1:
		return nil, fmt.Errorf("%d configurations are of tag %s: delete all but one (%s, %s, …)",
			len(all.Items), tag, all.Items[0].Name, all.Items[1].Name)
	}
	return &all.Items[0], nil
}

func (v *verb) remove(ctx context.Context, cmd *cobra.Command, tag string) error {
	c, err := v.open()
	if err != nil {
		return err
	}
	there, err := find(ctx, c, tag)
	if err != nil {
		return err
	}
	switch {
	case there == nil:
		return fmt.Errorf("there is no tag %s; pilotctl tag list shows them", tag)
	case ownerOf(there) != "":
		return fmt.Errorf("tag %s belongs to the installation %s: change revisionTags of its values", tag, ownerOf(there))
	}
	namespaces, err := users(ctx, c, tag)
	if err != nil {
		return err
	}
	if len(namespaces) > 0 && !v.over {
		return fmt.Errorf("namespaces use tag %s: %s; give them another label first, or use -y: new pods there get no proxy then",
			tag, strings.Join(namespaces, ", "))
	}
	if err := c.MutatingWebhooks().Delete(ctx, there.Name, metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("delete %s: %w", there.Name, err)
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "tag %s is removed\n", tag)
	return err
}
