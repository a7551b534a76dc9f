package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"fairway/internal/config"
	"fairway/internal/config/schemas"
	"fairway/internal/config/schemas/published"
	"fairway/test/rig"
)

// Object is the tree of one object.
type Object map[string]any

// Meta is a field of the object's metadata.
func (o Object) Meta(field string) string {
	meta, _ := o["metadata"].(map[string]any)
	s, _ := meta[field].(string)
	return s
}

// Objects takes a YAML text of several documents apart.
func Objects(t testing.TB, text string) (out []Object) {
	t.Helper()
	for _, doc := range strings.Split("\n"+text, "\n---") {
		o, err := parse(doc)
		if err != nil {
			t.Fatalf("%v in\n%s", err, doc)
		}
		if len(o) > 0 {
			out = append(out, o)
		}
	}
	return out
}

func parse(doc string) (o Object, err error) { return o, yaml.Unmarshal([]byte(doc), &o) }

// Apply stores the objects of a YAML text, whether or not they are there (server-side apply), and returns them as they
// are stored. The status of an object, where it is given, is stored too.
func (c *Cluster) Apply(t testing.TB, text string) (out []Object) {
	t.Helper()
	for _, o := range Objects(t, text) {
		out = append(out, c.apply(t, o, ""))
		if o["status"] != nil {
			out[len(out)-1] = c.apply(t, o, "/status")
		}
	}
	return out
}

func (c *Cluster) apply(t testing.TB, o Object, part string) Object {
	t.Helper()
	stored, err := c.store(t.Context(), o, part)
	if err != nil {
		t.Fatal(err)
	}
	return stored
}

// store is a server-side apply of an object, or of a part of it: "/status".
func (c *Cluster) store(ctx context.Context, o Object, part string) (Object, error) {
	body, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	return c.Do(ctx, http.MethodPatch, pathOf(o)+part+"?fieldManager=test&force=true", "application/apply-patch+yaml", body)
}

// Refused is what an API server has against a request.
type Refused struct {
	Status int // of HTTP
	Text   string
}

func (r *Refused) Error() string { return r.Text }

// Patch merges a JSON text into an object, or into a part of it: "/status".
func (c *Cluster) Patch(t testing.TB, path, merge string) Object {
	t.Helper()
	o, err := c.Do(t.Context(), http.MethodPatch, path, "application/merge-patch+json", []byte(merge))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// Delete takes the objects of a YAML text away, at once, and waits until they are gone.
func (c *Cluster) Delete(t testing.TB, text string) {
	t.Helper()
	for _, o := range Objects(t, text) {
		path := pathOf(o)
		if _, err := c.Do(t.Context(), http.MethodDelete, path+"?gracePeriodSeconds=0", "", nil); err != nil {
			t.Fatal(err)
		}
		rig.Eventually(t, func() error {
			_, err := c.Do(t.Context(), http.MethodGet, path, "", nil)
			if err == nil {
				return fmt.Errorf("%s is still there", path)
			}
			if !strings.Contains(err.Error(), "404") {
				return err
			}
			return nil
		})
	}
}

// Do sends one request as the administrator.
func (c *Cluster) Do(ctx context.Context, method, path, kind string, body []byte) (Object, error) {
	request, err := http.NewRequestWithContext(ctx, method, c.url(path), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", kind)
	request.Header.Set("Accept", "application/json")
	response, err := c.http.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	if response.StatusCode >= 300 {
		return nil, &Refused{response.StatusCode, fmt.Sprintf("%s %s: %s: %.1000s", method, path, response.Status, text)}
	}
	var o Object
	return o, json.Unmarshal(text, &o)
}

// pathOf is where the API server has an object.
func pathOf(o Object) string {
	version, _ := o["apiVersion"].(string)
	kind, _ := o["kind"].(string)
	root := "/apis/"
	if !strings.Contains(version, "/") {
		root = "/api/"
	}
	path := root + version
	if !clusterWide(kind) {
		namespace := o.Meta("namespace")
		if namespace == "" {
			namespace = "default"
		}
		path += "/namespaces/" + namespace
	}
	return path + "/" + plural(kind) + "/" + o.Meta("name")
}

func clusterWide(kind string) bool {
	switch kind {
	case "Namespace", "Node", "ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition", "IngressClass", "GatewayClass",
		"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration":
		return true
	}
	return false
}

// plural is the word of a kind in paths, by the rules of English that all of them follow.
func plural(kind string) string {
	word := strings.ToLower(kind)
	if rest, ok := strings.CutSuffix(word, "y"); ok && !strings.HasSuffix(word, "ay") {
		return rest + "ies"
	}
	if strings.HasSuffix(word, "s") {
		return word + "es"
	}
	return word + "s"
}

// Definitions are the CRDs that Istio and the Gateway API publish, and one of InferencePools, by the name of each.
func Definitions(t testing.TB) map[string]Object {
	t.Helper()
	text, err := published.Istio()
	if err != nil {
		t.Fatal(err)
	}
	files, err := published.GatewayAPI()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]Object{}
	for _, file := range append(slices.Collect(maps.Values(files)), text) {
		for _, o := range Objects(t, string(file)) {
			if o["kind"] == "CustomResourceDefinition" {
				all[o.Meta("name")] = o
			}
		}
	}
	pools := poolDefinition(t)
	all[pools.Meta("name")] = pools
	return all
}

// poolDefinition is a CRD of InferencePools with the schema that the control plane judges them by.
func poolDefinition(t testing.TB) Object {
	t.Helper()
	schema, err := schemas.Load(string(config.InferencePool))
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(schema.OpenAPI)
	if err != nil {
		t.Fatal(err)
	}
	return Objects(t, fmt.Sprintf(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: inferencepools.%[1]s, annotations: {api-approved.kubernetes.io: "unapproved, for tests"}}
spec:
  group: %[1]s
  names: {kind: InferencePool, listKind: InferencePoolList, plural: inferencepools, singular: inferencepool}
  scope: Namespaced
  versions: [{name: v1, served: true, storage: true, subresources: {status: {}}, schema: {openAPIV3Schema: %[2]s}}]
`, schema.Group, text))[0]
}

// Define stores CRDs, all of Definitions unless some are named, and waits until the API server serves them.
func (c *Cluster) Define(t testing.TB, names ...string) {
	t.Helper()
	all := Definitions(t)
	if len(names) == 0 {
		names = slices.Collect(maps.Keys(all))
	}
	for _, name := range names {
		if all[name] == nil {
			t.Fatalf("neither Istio nor the Gateway API publishes %s", name)
		}
		c.define(t, all[name])
	}
}

// define stores one CRD and waits until it is served.
func (c *Cluster) define(t testing.TB, definition Object) {
	t.Helper()
	c.apply(t, definition, "")
	rig.Eventually(t, func() error {
		o, err := c.Do(t.Context(), http.MethodGet, pathOf(definition), "", nil)
		if err == nil && !established(o) {
			err = fmt.Errorf("%s is not served yet", definition.Meta("name"))
		}
		return err
	})
}

func established(o Object) bool {
	status, _ := o["status"].(map[string]any)
	conditions, _ := status["conditions"].([]any)
	for _, c := range conditions {
		if c, _ := c.(map[string]any); c["type"] == "Established" && c["status"] == "True" {
			return true
		}
	}
	return false
}
