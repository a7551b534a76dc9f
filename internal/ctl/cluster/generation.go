package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"

	"fairway/internal/config"
	"fairway/internal/config/schemas"
)

// Resource is where an API server has a kind.
type Resource struct {
	Version schema.GroupVersion
	Plural  string
}

// ErrNoKind says that an API server does not have a kind.
var ErrNoKind = errors.New("the API server does not have this kind: pilotctl install makes its definition")

// Resource returns the newest version of a kind that the API server has. The error is ErrNoKind if it has none.
func (r *Reach) Resource(ctx context.Context, kind config.Kind) (Resource, error) {
	for _, gv := range versionsOf(kind) {
		served, err := r.client.Resources(ctx, gv)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return Resource{}, fmt.Errorf("ask %s for the resources of %s: %w", r.config.Host, gv, err)
		}
		for _, of := range served {
			if of.Kind == kind.Word() && of.Name != "" && !strings.Contains(of.Name, "/") { // or it is a subresource
				return Resource{gv, of.Name}, nil
			}
		}
	}
	return Resource{}, fmt.Errorf("%s: %w", kind, ErrNoKind)
}

// Generation returns the generation of an object's specification in the API server; 0: there is no such object, or its kind is not one of
// an API server's.
func (r *Reach) Generation(ctx context.Context, k config.Key) (int64, error) {
	of, err := r.Resource(ctx, k.Kind)
	if errors.Is(err, ErrNoKind) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	path := "/apis/" + of.Version.String() + "/"
	if !k.Kind.ClusterWide() {
		path += "namespaces/" + url.PathEscape(k.Namespace) + "/"
	}
	path += url.PathEscape(of.Plural) + "/" + url.PathEscape(k.Name)
	generation, err := r.client.Generation(ctx, path)
	if apierrors.IsNotFound(err) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("ask %s for the generation of %s %s/%s: %w", r.config.Host, k.Kind, k.Namespace, k.Name, err)
	}
	return generation, nil
}

// versionsOf returns the versions of a kind that an API server may have, the newest first.
func versionsOf(kind config.Kind) (out []schema.GroupVersion) {
	if kind == config.Ingress {
		return []schema.GroupVersion{{Group: "networking.k8s.io", Version: "v1"}}
	}
	s, err := schemas.Load(string(kind))
	if err != nil {
		return nil // of no API server
	}
	versions := slices.Clone(s.Versions)
	slices.SortFunc(versions, func(a, b string) int { return -version.CompareKubeAwareVersionStrings(a, b) })
	for _, v := range versions {
		out = append(out, schema.GroupVersion{Group: s.Group, Version: v})
	}
	return out
}
