package proxyconfig

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// message is one resource.
type message struct {
	name string
	body map[string]any // as JSON of protos: field names in camel case
	// made has the objects that it was made from, by its name, or by the names of its virtual hosts; nil: not known.
	made map[string][]string
}

// parse reads a document of JSON as a tree. Numbers keep their digits.
func parse(text []byte) (map[string]any, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var tree any
	if err := d.Decode(&tree); err != nil {
		return nil, fmt.Errorf("it is not JSON: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("more than one document of JSON: text follows at byte %d", d.InputOffset())
	}
	object, ok := camel(tree).(map[string]any)
	if !ok {
		return nil, fmt.Errorf("it is JSON without fields at its top")
	}
	return object, nil
}

// free are the fields with keys that users chose: their content names no fields. keyed are maps of messages: only their keys are users'.
var (
	free = map[string]bool{
		"filter_metadata": true, "static_layer": true, "json_format": true, "struct_value": true, "labels": true, "annotations": true,
	}
	keyed = map[string]bool{
		"typed_per_filter_config": true, "typed_filter_metadata": true, "typed_extension_protocol_options": true,
	}
)

// camel returns a tree with the names of fields in camel case: Envoy's own pages write them with underscores.
func camel(tree any) any {
	switch tree := tree.(type) {
	case []any:
		for i := range tree {
			tree[i] = camel(tree[i])
		}
	case map[string]any:
		out := make(map[string]any, len(tree))
		for key, value := range tree {
			_, object := value.(map[string]any)
			switch {
			case free[key], key == "metadata" && tree["cluster"] != nil && tree["id"] != nil: // a node's metadata is a Struct
			case keyed[key] && object:
				for k, v := range value.(map[string]any) {
					value.(map[string]any)[k] = camel(v)
				}
			default:
				value = camel(value)
			}
			out[camelName(key)] = value
		}
		return out
	}
	return tree
}

func camelName(name string) string {
	if !strings.Contains(name, "_") || strings.ContainsAny(name, ".-/|") {
		return name
	}
	var b strings.Builder
	for i, part := range strings.Split(name, "_") {
		if i > 0 && part != "" {
			part = strings.ToUpper(part[:1]) + part[1:]
		}
		b.WriteString(part)
	}
	return b.String()
}

func object(m map[string]any, fields ...string) map[string]any {
	for _, f := range fields {
		m, _ = m[f].(map[string]any)
	}
	return m
}

// objects returns the elements of a list that are objects.
func objects(m map[string]any, field string) (out []map[string]any) {
	all, _ := m[field].([]any)
	for _, one := range all {
		if o, is := one.(map[string]any); is {
			out = append(out, o)
		}
	}
	return out
}

func texts(m map[string]any, field string) (out []string) {
	all, _ := m[field].([]any)
	for _, one := range all {
		out = append(out, fmt.Sprint(one))
	}
	return out
}

func text(m map[string]any, field string) string {
	s, _ := m[field].(string)
	return s
}

// number returns a number, which JSON of protos writes as text if it has 64 bits.
func number(m map[string]any, field string) string {
	switch n := m[field].(type) {
	case json.Number:
		return n.String()
	case string:
		return n
	}
	return ""
}

// ruleOf returns name.namespace of the object in Istio's metadata of a message; empty: there is none.
func ruleOf(m map[string]any) string {
	path := text(object(m, "metadata", "filterMetadata", "istio"), "config")
	parts := strings.Split(strings.Trim(path, "/"), "/")
	for i, p := range parts {
		if p == "namespaces" && i+3 < len(parts) {
			return parts[i+3] + "." + parts[i+1]
		}
	}
	return ""
}
