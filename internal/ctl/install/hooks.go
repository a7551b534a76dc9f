package install

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// step is one operation of a JSON patch.
type step struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// moveHooks replaces the address of an existing configuration's webhooks by that of o, if one of the two is a URL and the other a Service.
// The control plane wrote its key into the existing address: a plain apply would keep that part of it, and API servers refuse a webhook
// with both. It returns the new configuration, or nil if nothing is to be moved.
func moveHooks(
	ctx context.Context, at dynamic.ResourceInterface, o *unstructured.Unstructured, opts metav1.PatchOptions,
) (*unstructured.Unstructured, error) {
	want := clients(o)
	if len(want) == 0 {
		return nil, nil
	}
	there, err := at.Get(ctx, o.GetName(), metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", called(o), err)
	}
	var steps []step
	for i, hook := range hooks(there) {
		name, _, _ := unstructured.NestedString(hook, "name")
		for _, kinds := range [][2]string{{"url", "service"}, {"service", "url"}} {
			now, other := want[name][kinds[0]], kinds[1]
			if _, has, _ := unstructured.NestedFieldNoCopy(hook, "clientConfig", other); now == nil || !has {
				continue
			}
			path := fmt.Sprintf("/webhooks/%d", i)
			steps = append(steps, step{"test", path + "/name", name},
				step{"remove", path + "/clientConfig/" + other, nil}, step{"add", path + "/clientConfig/" + kinds[0], now})
		}
	}
	if len(steps) == 0 {
		return nil, nil
	}
	body, err := json.Marshal(steps)
	if err != nil {
		return nil, err
	}
	opts.Force = nil // is for apply only
	moved, err := at.Patch(ctx, o.GetName(), types.JSONPatchType, body, opts)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", called(o), err)
	}
	return moved, nil
}

// hooks are the webhooks of a configuration; other objects have none.
func hooks(o *unstructured.Unstructured) (out []map[string]any) {
	all, _, _ := unstructured.NestedSlice(o.Object, "webhooks")
	for _, hook := range all {
		if hook, ok := hook.(map[string]any); ok {
			out = append(out, hook)
		}
	}
	return out
}

// clients are the addresses of a configuration's webhooks, by the webhook's name.
func clients(o *unstructured.Unstructured) map[string]map[string]any {
	out := map[string]map[string]any{}
	for _, hook := range hooks(o) {
		name, _, _ := unstructured.NestedString(hook, "name")
		out[name], _, _ = unstructured.NestedMap(hook, "clientConfig")
	}
	return out
}
