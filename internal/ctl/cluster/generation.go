package cluster

import (
	"context"
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

// Generation returns the generation of an object's specification in the API server; 0: there is no such object, or its kind is not one of
// an API server's.
func (r *Reach) Generation(ctx context.Context, k config.Key) (int64, error) {
	for _, gv := range versionsOf(k.Kind) {
		served, err := r.client.Resources(ctx, gv)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("ask %s for the resources of %s: %w", r.config.Host, gv, err)
		}
		for _, of := range served {
			if of.Kind != string(k.Kind) || of.Name == "" || strings.Contains(of.Name, "/") {
				continue // or a subresource
			}
			path := "/apis/" + gv.String() + "/namespaces/" + url.PathEscape(k.Namespace) + "/" + url.PathEscape(of.Name) + "/" +
				url.PathEscape(k.Name)
			generation, err := r.client.Generation(ctx, path)
			if apierrors.IsNotFound(err) {
				return 0, nil
			}
			if err != nil {
				return 0, fmt.Errorf("ask %s for the generation of %s %s/%s: %w", r.config.Host, k.Kind, k.Namespace, k.Name, err)
			}
			return generation, nil
		}
	}
	return 0, nil
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
