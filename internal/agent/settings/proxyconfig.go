package settings

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	meshconfig "istio.io/api/mesh/v1alpha1"

	"fairway/internal/identity/safefile"
)

// DefaultConfigDir is the agent's default folder, as in Istio's agent.
const DefaultConfigDir = "./etc/istio/proxy"

// longestFile bounds a file that configures one proxy, in bytes: a MeshConfig, a custom bootstrap, an override of it.
const longestFile = 16 << 20

// configAnnotation holds the workload's own ProxyConfig, as YAML.
const configAnnotation = "proxy.istio.io/config"

// resolveProxyConfig starts from the defaults that istio.io/api documents for ProxyConfig, and overlays in this order: the mesh's
// defaultConfig, PROXY_CONFIG, ProxyConfig resources of the root namespace and of the workload's, the workload's annotation,
// FAIRWAY_PROXY_CONFIG, and resources that select the workload. The annotation comes after PROXY_CONFIG because it can change while
// the workload runs, and a variable cannot. An injector writes the annotation of its time into PROXY_CONFIG, together with the
// mesh's defaultConfig, which every resource overrides; settings that override the annotation go into FAIRWAY_PROXY_CONFIG. unknown
// are fields that were skipped, each with its place.
func resolveProxyConfig(f Flags, env Environment) (config *meshconfig.ProxyConfig, unknown []string, err error) {
	config = &meshconfig.ProxyConfig{
		ConfigPath:               DefaultConfigDir,
		DiscoveryAddress:         defaultDiscovery,
		ProxyAdminPort:           15000,
		StatusPort:               15020,
		DrainDuration:            durationpb.New(45 * time.Second),
		TerminationDrainDuration: durationpb.New(5 * time.Second),
	}
	mesh, unknown, err := readMesh(f.MeshConfig)
	if err != nil {
		return nil, nil, err
	}
	overlay(config, mesh.GetDefaultConfig())
	annotations, err := readPairs(env.AnnotationsFile)
	if err != nil {
		return nil, nil, err
	}
	wide, own, err := objectLayers(f, env, firstOf(mesh.GetRootNamespace(), "istio-system"))
	if err != nil {
		return nil, nil, err
	}
	for _, layer := range [...]struct {
		name, text string
		under      []*meshconfig.ProxyConfig
	}{
		{"PROXY_CONFIG", env.Vars["PROXY_CONFIG"], nil},
		{"annotation " + configAnnotation, text(annotations, configAnnotation), wide},
		{"FAIRWAY_PROXY_CONFIG", env.Vars["FAIRWAY_PROXY_CONFIG"], nil},
	} {
		for _, under := range layer.under {
			overlay(config, under)
		}
		over := &meshconfig.ProxyConfig{}
		fields, err := decodeYAML([]byte(layer.text), over)
		if err != nil {
			return nil, nil, Usage("%s: %w", layer.name, err)
		}
		for _, field := range fields {
			unknown = append(unknown, layer.name+": "+field)
		}
		overlay(config, over)
	}
	for _, over := range own {
		overlay(config, over)
	}
	annotateStats(config, annotations)
	return config, unknown, nil
}

// annotateStats reads from the workload's annotations which statistics to keep, for each list that no ProxyConfig sets
// (istio.io/docs/reference/config/annotations, sidecar.istio.io/statsInclusionPrefixes and its siblings: lists separated by commas).
func annotateStats(config *meshconfig.ProxyConfig, annotations map[string]any) {
	matcher := config.GetProxyStatsMatcher()
	if matcher == nil {
		matcher = &meshconfig.ProxyConfig_ProxyStatsMatcher{}
	}
	for _, one := range [...]struct {
		annotation string
		to         *[]string
	}{
		{"sidecar.istio.io/statsInclusionPrefixes", &matcher.InclusionPrefixes},
		{"sidecar.istio.io/statsInclusionSuffixes", &matcher.InclusionSuffixes},
		{"sidecar.istio.io/statsInclusionRegexps", &matcher.InclusionRegexps},
	} {
		if list := text(annotations, one.annotation); list != "" && len(*one.to) == 0 {
			*one.to, config.ProxyStatsMatcher = strings.Split(list, ","), matcher
		}
	}
}

// overlay replaces each field of base that over sets; variables of proxyMetadata are replaced one by one.
func overlay(base, over *meshconfig.ProxyConfig) {
	into := base.ProtoReflect()
	over.ProtoReflect().Range(func(field protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if field.IsMap() {
			m := into.Mutable(field).Map()
			v.Map().Range(func(k protoreflect.MapKey, v protoreflect.Value) bool { m.Set(k, v); return true })
			return true
		}
		into.Set(field, v)
		return true
	})
}

// objectLayers returns the settings of ProxyConfig resources that apply to this workload, as proxyLayers does.
func objectLayers(f Flags, env Environment, root string) (wide, own []*meshconfig.ProxyConfig, err error) {
	objects, err := readProxyObjects(f.ProxyConfigs)
	if err != nil {
		return nil, nil, Usage("--proxyConfigs %s: %w", f.ProxyConfigs, err)
	}
	if len(objects) == 0 {
		return nil, nil, nil
	}
	meta, err := environmentMetadata(env.Vars)
	if err != nil {
		return nil, nil, err
	}
	labels, ok := meta["LABELS"].(map[string]any)
	if !ok {
		if labels, err = readPairs(env.LabelsFile); err != nil {
			return nil, nil, err
		}
	}
	wide, own = proxyLayers(objects, root, firstOf(env.Vars["POD_NAMESPACE"], "default"), labels)
	return wide, own, nil
}

// readMesh reads a MeshConfig file. unknown are fields of its defaultConfig that were skipped; other fields are validated by the
// control plane. A missing file is not an error.
func readMesh(path string) (mesh *meshconfig.MeshConfig, unknown []string, err error) {
	mesh = &meshconfig.MeshConfig{}
	content, err := safefile.Read(path, longestFile)
	switch {
	case path == "" || errors.Is(err, fs.ErrNotExist):
		return mesh, nil, nil
	case err != nil:
		return nil, nil, Usage("read the mesh configuration: %w", err)
	}
	fields, err := decodeYAML(content, mesh)
	if err != nil {
		return nil, nil, Usage("mesh configuration %s: %w", path, err)
	}
	for _, field := range fields {
		if strings.HasPrefix(field, "defaultConfig.") {
			unknown = append(unknown, "mesh configuration "+path+": "+field)
		}
	}
	return mesh, unknown, nil
}

// decodeYAML reads YAML into a message. Fields that it does not know are skipped and returned, because a newer release may have
// written them. An error names the field.
func decodeYAML(content []byte, into proto.Message) (unknown []string, err error) {
	var tree any
	if err := yaml.Unmarshal(content, &tree); err != nil {
		return nil, err
	}
	if tree == nil {
		return nil, nil
	}
	asJSON, err := json.Marshal(tree)
	if err != nil {
		return nil, fmt.Errorf("not a JSON value: %w", err)
	}
	return decodeJSON(asJSON, into)
}

// decodeJSON is decodeYAML for JSON.
func decodeJSON(text []byte, into proto.Message) (unknown []string, err error) {
	err = protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(text, into)
	var tree any
	if json.Unmarshal(text, &tree) != nil {
		return nil, err
	}
	of := into.ProtoReflect().Descriptor()
	if err != nil {
		return nil, cmp.Or(wrongField(tree, of), err)
	}
	return unknownFields(tree, of), nil
}

// asMap returns a message as node metadata carries it.
func asMap(m proto.Message) (map[string]any, error) {
	raw, err := protojson.Marshal(m)
	if err != nil {
		return nil, err
	}
	var out map[string]any
	return out, json.Unmarshal(raw, &out)
}
