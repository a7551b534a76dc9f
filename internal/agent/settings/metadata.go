package settings

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"fairway/internal/agent/exposition"
	"fairway/internal/mesh"
)

// The prefixes of variables that become node metadata: ISTIO_META_X=v is X: "v"; ISTIO_METAJSON_X={"A":1} is A: 1.
const (
	metaPrefix     = "ISTIO_META_"
	metaJSONPrefix = "ISTIO_METAJSON_"
)

// version is the istio-proxy release of this node metadata; the control plane derives the proxy's features from it.
const version = "1.31.0"

// environmentMetadata returns the metadata that the environment sets directly. Later parts of Resolve add the rest.
func environmentMetadata(vars map[string]string) (map[string]any, error) {
	meta := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		if key, ok := strings.CutPrefix(name, metaPrefix); ok && key != "" {
			meta[key] = vars[name]
			continue
		}
		if err := addJSON(meta, name, vars[name]); err != nil {
			return nil, err
		}
	}
	return meta, nil
}

// addJSON merges an ISTIO_METAJSON_ variable. LABELS and ANNOTATIONS are maps of their own; all others merge at the top.
func addJSON(meta map[string]any, name, value string) error {
	key, ok := strings.CutPrefix(name, metaJSONPrefix)
	if !ok || strings.TrimSpace(value) == "" {
		return nil
	}
	var object map[string]any
	if err := json.Unmarshal([]byte(value), &object); err != nil {
		return Usage("%s is not a JSON object: %w", name, err)
	}
	if key == "LABELS" || key == "ANNOTATIONS" {
		meta[key] = object
		return nil
	}
	maps.Copy(meta, object)
	return nil
}

// parsePairs reads lines of key="value".
func parsePairs(path, content string) (map[string]any, error) {
	out := map[string]any{}
	for i, line := range strings.Split(content, "\n") {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		key, quoted, ok := strings.Cut(line, "=")
		value, err := strconv.Unquote(quoted)
		if !ok || err != nil {
			return nil, Usage("%s:%d: %q is not of the form key=\"value\"", path, i+1, line)
		}
		out[key] = value
	}
	return out, nil
}

// setDefault puts value under key if nothing, or the empty string, is there.
func setDefault(meta map[string]any, key string, value any) {
	if old, ok := meta[key]; (!ok || old == "") && value != "" && value != nil {
		meta[key] = value
	}
}

// text returns a metadata value that is a string.
func text(meta map[string]any, key string) string {
	s, _ := meta[key].(string)
	return s
}

// label returns one of the workload's labels.
func label(meta map[string]any, key string) string {
	labels, _ := meta["LABELS"].(map[string]any)
	return text(labels, key)
}

// firstLabel returns the first of these labels that the workload has.
func firstLabel(meta map[string]any, keys []string) string {
	for _, key := range keys {
		if value := label(meta, key); value != "" {
			return value
		}
	}
	return ""
}

// Workload returns the workload as metrics describe it, here and at the servers that it calls, by the metadata of its node.
func (o Options) Workload() exposition.Workload {
	meta := o.Bootstrap.Node.Metadata
	return exposition.Workload{
		Name:      text(meta, "WORKLOAD_NAME"),
		Namespace: text(meta, "NAMESPACE"),
		App:       label(meta, "app"),
		Version:   label(meta, "version"),
		Cluster:   text(meta, "CLUSTER_ID"),
		Service:   firstLabel(meta, mesh.NameLabels[:]),
		Revision:  firstLabel(meta, mesh.RevisionLabels[:]),
	}
}
