// Package kube reads and writes objects in a Kubernetes cluster, by its API server. Objects are applied by the server (server-side apply),
// so that fields of other writers stay. It must not know control planes.
package kube

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"fairway/internal/config"
	"fairway/internal/ctl/cluster"
	"fairway/internal/store"
)

// manager is the name of this writer in managedFields.
const manager = "pilotctl"

// Cluster is the objects of one cluster.
type Cluster struct {
	reach *cluster.Reach
	// Force takes fields from other writers that own them; Replace writes objects as a whole.
	Force, Replace bool

	resources map[config.Kind]cluster.Resource
	written   map[config.Key]store.Item
	read      map[config.Key]store.Item // as it was read last
}

// Open returns the cluster that the flags name. It asks nothing yet.
func Open(flags cluster.Flags) (*Cluster, error) {
	r, err := cluster.Open(flags)
	if err != nil {
		return nil, err
	}
	return &Cluster{
		reach: r, resources: map[config.Kind]cluster.Resource{}, written: map[config.Key]store.Item{}, read: map[config.Key]store.Item{},
	}, nil
}

// Close does nothing: connections end by themselves.
func (c *Cluster) Close() {}

// Written returns an object as the last Commit left it. Each object has a version of its own.
func (c *Cluster) Written(key config.Key) store.Item { return c.written[key] }

// resource finds where the API server has a kind.
func (c *Cluster) resource(ctx context.Context, kind config.Kind) (cluster.Resource, error) {
	if found, known := c.resources[kind]; known {
		return found, nil
	}
	if store.Single(kind) {
		return cluster.Resource{}, fmt.Errorf("%s is in a ConfigMap of the cluster (istio in istio-system): change it with kubectl", kind)
	}
	found, err := c.reach.Resource(ctx, kind)
	if err == nil {
		c.resources[kind] = found
	}
	return found, err
}

func (c *Cluster) path(r cluster.Resource, key config.Key) string {
	path := "/apis/" + r.Version.String()
	if key.Namespace != "" {
		path += "/namespaces/" + url.PathEscape(key.Namespace)
	}
	path += "/" + r.Plural
	if key.Name != "" {
		path += "/" + url.PathEscape(key.Name)
	}
	return path
}

// Read returns an item for each key; one that is not there has the revision 0.
func (c *Cluster) Read(ctx context.Context, keys []config.Key) ([]store.Item, error) {
	out := make([]store.Item, len(keys))
	for i, key := range keys {
		out[i] = store.Item{Key: key}
		r, err := c.resource(ctx, key.Kind)
		if err != nil {
			return nil, err
		}
		raw, err := c.reach.Client().Do(ctx, http.MethodGet, c.path(r, key), nil, nil)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err == nil {
			out[i], err = item(key.Kind, raw)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		c.read[key] = out[i]
	}
	return out, nil
}

// Get reads one object; false: there is none.
func (c *Cluster) Get(ctx context.Context, key config.Key) (store.Item, bool, error) {
	items, err := c.Read(ctx, []config.Key{key})
	if err != nil || items[0].Revision == 0 {
		return store.Item{}, false, err
	}
	return items[0], true, nil
}

// List returns the objects of some kinds; kinds that the API server does not have are left out if there are several.
func (c *Cluster) List(ctx context.Context, kinds []config.Kind, namespace string) ([]store.Item, error) {
	var out []store.Item
	for _, kind := range kinds {
		r, err := c.resource(ctx, kind)
		if errors.Is(err, cluster.ErrNoKind) && len(kinds) > 1 {
			continue
		}
		if err != nil {
			return nil, err
		}
		key := config.Key{Kind: kind, Namespace: namespace}
		if kind.ClusterWide() {
			key.Namespace = ""
		}
		raw, err := c.reach.Client().Do(ctx, http.MethodGet, c.path(r, key), nil, nil)
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", r.Plural, err)
		}
		var list struct{ Items []json.RawMessage }
		if err := json.Unmarshal(raw, &list); err != nil {
			return nil, fmt.Errorf("list %s: %w", r.Plural, err)
		}
		for _, one := range list.Items {
			found, err := item(kind, one)
			if err != nil {
				return nil, fmt.Errorf("list %s: %w", r.Plural, err)
			}
			out = append(out, found)
		}
	}
	return out, nil
}

// item reads an object of the API server, without the fields that the server writes.
func item(kind config.Kind, raw []byte) (store.Item, error) {
	var tree map[string]any
	if err := json.Unmarshal(raw, &tree); err != nil {
		return store.Item{}, err
	}
	meta, _ := tree["metadata"].(map[string]any)
	version, _ := meta["resourceVersion"].(string)
	revision, err := strconv.ParseInt(version, 10, 64)
	if err != nil {
		return store.Item{}, fmt.Errorf("metadata.resourceVersion %q: want a number", version)
	}
	for _, field := range []string{"managedFields", "resourceVersion", "uid", "generation", "selfLink"} {
		delete(meta, field)
	}
	delete(tree, "status")
	text, err := yaml.Marshal(tree)
	name, _ := meta["name"].(string)
	namespace, _ := meta["namespace"].(string)
	return store.Item{Key: config.Key{Kind: kind, Namespace: namespace, Name: name}, Revision: revision, Text: text}, err
}

// Form returns a document as it is sent.
func (c *Cluster) Form(doc config.Document, key config.Key, _ store.Item) ([]byte, error) {
	return store.Stored(doc, key, "")
}

// Commit makes the changes, one after the other. It returns the version of the last.
func (c *Cluster) Commit(ctx context.Context, changes []store.Change) (last int64, err error) {
	for i, change := range changes {
		if last, err = c.commit(ctx, change); err != nil {
			if i > 0 {
				err = fmt.Errorf("%w\n%d of %d objects were written before that", err, i, len(changes))
			}
			return last, err
		}
	}
	return last, nil
}

// statuses is how often the status of an object may change between reading and writing it.
const statuses = 5

// commit makes a change. If only the object's status is another one than the change was made of, the object is as its author saw it.
func (c *Cluster) commit(ctx context.Context, change store.Change) (int64, error) {
	seen, known := c.read[change.Key]
	known = known && seen.Revision == change.Was
	last, err := c.try(ctx, change)
	for range statuses {
		var conflict store.Conflict
		now := c.read[change.Key] // by explain
		if !known || !errors.As(err, &conflict) || conflict.Is == 0 || !bytes.Equal(seen.Text, now.Text) {
			break
		}
		change.Was = now.Revision
		last, err = c.try(ctx, change)
	}
	return last, err
}

// try makes a change of an object in the version that it was made of.
func (c *Cluster) try(ctx context.Context, change store.Change) (int64, error) {
	key := change.Key
	r, err := c.resource(ctx, key.Kind)
	if err != nil {
		return 0, err
	}
	client, path := c.reach.Client(), c.path(r, key)
	var raw []byte
	switch {
	case change.Text == nil:
		options := fmt.Sprintf(`{"kind":"DeleteOptions","apiVersion":"v1","preconditions":{"resourceVersion":"%d"}}`, change.Was)
		_, err = client.Do(ctx, http.MethodDelete, path, nil, []byte(options))
		return 0, c.explain(ctx, err, change)
	case c.Replace:
		raw, err = yaml.YAMLToJSON(change.Text)
		if err == nil {
			raw, err = withVersion(raw, change.Was)
		}
		if err == nil {
			raw, err = client.Do(ctx, http.MethodPut, path, url.Values{"fieldManager": {manager}}, raw)
		}
	default:
		raw, err = c.patch(ctx, path, change.Text, c.Force)
		if found := conflicts(err); !c.Force && len(found) > 0 && !slices.ContainsFunc(found, ofOthers) {
			raw, err = c.patch(ctx, path, change.Text, true)
		}
	}
	if err != nil {
		return 0, c.explain(ctx, err, change)
	}
	now, err := item(key.Kind, raw)
	c.written[key] = now
	return now.Revision, err
}

// patch has the API server apply an object.
func (c *Cluster) patch(ctx context.Context, path string, text []byte, force bool) ([]byte, error) {
	query := url.Values{"fieldManager": {manager}, "force": {strconv.FormatBool(force)}}
	return c.reach.Client().Do(ctx, http.MethodPatch, path, query, text)
}

// conflicts returns the fields that other writers have set, and who these are.
func conflicts(err error) []metav1.StatusCause {
	var status *apierrors.StatusError
	if errors.As(err, &status) && apierrors.IsConflict(err) && status.ErrStatus.Details != nil {
		return status.ErrStatus.Details.Causes
	}
	return nil
}

// ofOthers reports whether a conflict is with another writer. Fields that pilotctl edit has written are another one's to the API server,
// because they were not applied.
func ofOthers(c metav1.StatusCause) bool {
	return !strings.HasPrefix(c.Message, `conflict with "`+manager+`"`)
}

func withVersion(raw []byte, version int64) ([]byte, error) {
	var tree map[string]any
	if err := json.Unmarshal(raw, &tree); err != nil {
		return nil, err
	}
	meta, is := tree["metadata"].(map[string]any)
	if !is {
		return nil, errors.New("the object has no metadata")
	}
	meta["resourceVersion"] = strconv.FormatInt(version, 10)
	return json.Marshal(tree)
}

// explain says of a conflict who has the fields, and what to do. One of versions is a store.Conflict.
func (c *Cluster) explain(ctx context.Context, err error, change store.Change) error {
	key := change.Key
	if !apierrors.IsConflict(err) {
		if err != nil {
			err = fmt.Errorf("%s: %w", key, err)
		}
		return err
	}
	var fields []string
	for _, cause := range conflicts(err) {
		fields = append(fields, strings.TrimPrefix(cause.Field, ".")+" ("+cause.Message+")")
	}
	if len(fields) == 0 {
		now, err := c.Read(ctx, []config.Key{key})
		if err != nil {
			return err
		}
		return store.Conflict{Key: key, Was: change.Was, Is: now[0].Revision}
	}
	slices.Sort(fields)
	return fmt.Errorf("%s: other writers have set %s: leave these fields to them, or take them with --force-conflicts",
		key, strings.Join(fields, ", "))
}
