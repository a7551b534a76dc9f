package answers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// ErrNotServed says that an API server has no such kind.
var ErrNotServed = errors.New("the API server does not serve it")

// Time is how long an API server may take for one question, unless the caller has another limit.
const Time = time.Minute

// catalog knows under which path and version an API server has a kind, as the server says itself.
type catalog struct {
	client *rest.RESTClient

	mu     sync.Mutex // held while the server is asked, so that it is asked once
	groups map[schema.GroupVersion]map[string]string
}

// forget makes the catalog ask again.
func (c *catalog) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.groups = nil
}

// find returns the resource of a kind, in the first of some versions that is served.
func (c *catalog) find(ctx context.Context, group, kind string, versions []string) (at schema.GroupVersionResource, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, v := range versions {
		gv := schema.GroupVersion{Group: group, Version: v}
		served, err := c.resources(ctx, gv)
		if err != nil {
			return at, err
		}
		if plural := served[kind]; plural != "" {
			return gv.WithResource(plural), nil
		}
	}
	for _, v := range versions { // a missing version may come any moment
		delete(c.groups, schema.GroupVersion{Group: group, Version: v})
	}
	return at, ErrNotServed
}

// resources returns the words in paths of all kinds of a group and version. mu is held.
func (c *catalog) resources(ctx context.Context, gv schema.GroupVersion) (map[string]string, error) {
	if known, ok := c.groups[gv]; ok {
		return known, nil
	}
	ctx, stop := context.WithTimeout(ctx, Time)
	defer stop()
	text, err := c.client.Get().AbsPath("/apis", gv.Group, gv.Version).SetHeader("Accept", "application/json").DoRaw(ctx)
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("ask for the served kinds of %s: %w", gv, err)
	}
	var all metav1.APIResourceList
	if err == nil {
		if err := json.Unmarshal(text, &all); err != nil {
			return nil, fmt.Errorf("read the served kinds of %s: %w", gv, err)
		}
	}
	out := map[string]string{}
	for _, r := range all.APIResources {
		if slices.Contains(r.Verbs, "watch") {
			out[r.Kind] = r.Name
		}
	}
	if c.groups == nil {
		c.groups = map[schema.GroupVersion]map[string]string{}
	}
	c.groups[gv] = out
	return out, nil
}
