package settings

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"go.yaml.in/yaml/v3"
	meshconfig "istio.io/api/mesh/v1alpha1"
	networkingv1beta1 "istio.io/api/networking/v1beta1"

	"fairway/internal/disk"
	"fairway/internal/identity/safefile"
)

// proxyObject is a ProxyConfig resource: settings for all proxies of a namespace, or of some workloads in it.
type proxyObject struct {
	namespace, name string
	spec            *networkingv1beta1.ProxyConfig
}

// readProxyObjects reads the ProxyConfig resources of a file of YAML documents; other resources are skipped, because the file may
// be one of a rules folder. A missing file has none.
func readProxyObjects(path string) ([]proxyObject, error) {
	content, err := safefile.Read(path, disk.MaxFile)
	if path == "" || errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []proxyObject
	documents := yaml.NewDecoder(bytes.NewReader(content))
	for {
		var d struct {
			Kind     string
			Metadata struct{ Name, Namespace string }
			Spec     any
		}
		err := documents.Decode(&d)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if d.Kind != "ProxyConfig" {
			continue
		}
		o := proxyObject{namespace: cmp.Or(d.Metadata.Namespace, "default"), name: d.Metadata.Name, spec: &networkingv1beta1.ProxyConfig{}}
		if err := decodeSpec(d.Spec, o.spec); err != nil {
			return nil, fmt.Errorf("ProxyConfig %s/%s: %w", o.namespace, o.name, err)
		}
		out = append(out, o)
	}
	slices.SortFunc(out, func(a, b proxyObject) int {
		return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name))
	})
	return out, nil
}

func decodeSpec(spec any, into *networkingv1beta1.ProxyConfig) error {
	asJSON, err := json.Marshal(spec)
	if err != nil {
		return err
	}
	_, err = decodeJSON(asJSON, into) // the control plane reports unknown fields
	return err
}

// proxyLayers returns the settings of resources that apply to a workload, weakest first: wide are those of the mesh (the root namespace,
// without a selector) and of the workload's namespace, own are those that select it. If several have one rank, the first by name counts
// (https://istio.io/latest/docs/reference/config/networking/proxy-config/ allows only one). The image is the injector's.
func proxyLayers(objects []proxyObject, root, namespace string, labels map[string]any,
) (wide, own []*meshconfig.ProxyConfig) {
	ranks := [...]func(proxyObject) bool{
		func(o proxyObject) bool { return o.namespace == root && o.spec.GetSelector() == nil },
		func(o proxyObject) bool { return o.namespace == namespace && o.spec.GetSelector() == nil },
		func(o proxyObject) bool {
			return o.namespace == namespace && o.spec.GetSelector() != nil && o.selects(labels)
		},
	}
	for rank, reaches := range ranks {
		i := slices.IndexFunc(objects, reaches)
		if i < 0 {
			continue
		}
		spec := objects[i].spec
		layer := &meshconfig.ProxyConfig{Concurrency: spec.GetConcurrency(), ProxyMetadata: spec.GetEnvironmentVariables()}
		if rank == len(ranks)-1 {
			own = append(own, layer)
		} else {
			wide = append(wide, layer)
		}
	}
	return wide, own
}

func (o proxyObject) selects(labels map[string]any) bool {
	for k, v := range o.spec.GetSelector().GetMatchLabels() {
		if labels[k] != v {
			return false
		}
	}
	return true
}
