package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	meshv1alpha1 "istio.io/api/mesh/v1alpha1"
)

// resolveProxyConfig lays the mesh's defaultConfig and PROXY_CONFIG over the defaults that istio.io/api documents for ProxyConfig.
func resolveProxyConfig(meshFile, inline string) (*meshv1alpha1.ProxyConfig, error) {
	config := &meshv1alpha1.ProxyConfig{
		ConfigPath:               "./etc/istio/proxy",
		DiscoveryAddress:         "istiod.istio-system.svc:15010",
		ProxyAdminPort:           15000,
		DrainDuration:            durationpb.New(45 * time.Second),
		TerminationDrainDuration: durationpb.New(5 * time.Second),
	}
	inMesh, err := meshDefault(meshFile)
	if err != nil {
		return nil, err
	}
	proto.Merge(config, inMesh)
	own := &meshv1alpha1.ProxyConfig{}
	if err := decodeYAML([]byte(inline), own); err != nil {
		return nil, usage("PROXY_CONFIG: %w", err)
	}
	proto.Merge(config, own)
	return config, nil
}

// meshDefault reads defaultConfig out of a MeshConfig file. No file, nothing.
func meshDefault(path string) (*meshv1alpha1.ProxyConfig, error) {
	mesh := &meshv1alpha1.MeshConfig{}
	content, err := os.ReadFile(path)
	switch {
	case path == "" || errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, usage("read the mesh configuration: %w", err)
	}
	if err := decodeYAML(content, mesh); err != nil {
		return nil, usage("mesh configuration %s: %w", path, err)
	}
	return mesh.GetDefaultConfig(), nil
}

// decodeYAML reads YAML into a message. Fields that it does not know are left out: a newer release may have written them.
func decodeYAML(content []byte, into proto.Message) error {
	var tree any
	if err := yaml.Unmarshal(content, &tree); err != nil {
		return err
	}
	if tree == nil {
		return nil
	}
	asJSON, err := json.Marshal(tree)
	if err != nil {
		return fmt.Errorf("not a JSON value: %w", err)
	}
	return protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(asJSON, into)
}

// asMap is a message as node metadata carries it.
func asMap(m proto.Message) (map[string]any, error) {
	raw, err := protojson.Marshal(m)
	if err != nil {
		return nil, err
	}
	var out map[string]any
	return out, json.Unmarshal(raw, &out)
}
