package plan

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"fairway/internal/envoy"
	"fairway/internal/printable"
	"fairway/internal/xdstype"
)

// MostFields is how many fields of one resource are listed.
const MostFields = 40

// Field is a field that differs. Old or New is empty if it is not set.
type Field struct {
	Path string `json:"path"` // such as routes[2].route.timeout; an element of a list that has a name is called by it
	Old  string `json:"old,omitempty"`
	New  string `json:"new,omitempty"`
}

// absent reports whether a proxy has no such resource.
func absent(e *envoy.Encoded) bool { return e == nil || e.Err != nil }

func version(e *envoy.Encoded) uint64 {
	if absent(e) {
		return 0
	}
	return e.Version
}

// message decodes a resource; nil: there is none, or its type has no message.
func message(t xdstype.Type, e *envoy.Encoded) proto.Message {
	if absent(e) {
		return nil
	}
	m, err := (&anypb.Any{TypeUrl: t.URL(), Value: e.Body}).UnmarshalNew()
	if err != nil {
		return nil
	}
	return m
}

// fields lists the fields that differ between two messages.
func fields(old, now proto.Message) []Field {
	var c comparison
	c.values("", tree(old), tree(now))
	return c.out
}

// tree returns a message as JSON has it.
func tree(m proto.Message) (out any) {
	if m == nil {
		return nil
	}
	text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(m)
	if err != nil || json.Unmarshal(text, &out) != nil {
		return nil // a message inside has no type here
	}
	return out
}

type comparison struct{ out []Field }

func (c *comparison) values(path string, old, now any) {
	if len(c.out) == MostFields || reflect.DeepEqual(old, now) {
		return
	}
	switch o := old.(type) {
	case map[string]any:
		if n, is := now.(map[string]any); is {
			c.maps(path, o, n)
			return
		}
	case []any:
		if n, is := now.([]any); is {
			c.lists(path, o, n)
			return
		}
	}
	c.out = append(c.out, Field{path, text(old), text(now)})
}

func (c *comparison) maps(path string, old, now map[string]any) {
	names := maps.Clone(old)
	maps.Copy(names, now)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		at := name
		if path != "" {
			at = path + "." + name
		}
		c.values(at, old[name], now[name])
	}
}

// lists compares elements by their names if all have one, or else by their place.
func (c *comparison) lists(path string, old, now []any) {
	before, after := byName(old), byName(now)
	if before == nil || after == nil {
		for i := range max(len(old), len(now)) {
			c.values(fmt.Sprintf("%s[%d]", path, i), at(old, i), at(now, i))
		}
		return
	}
	names := maps.Clone(before)
	maps.Copy(names, after)
	same := len(c.out)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		c.values(fmt.Sprintf("%s[%s]", path, name), before[name], after[name])
	}
	if same == len(c.out) {
		c.out = append(c.out, Field{Path: path, Old: "in another order", New: "in another order"})
	}
}

func at(list []any, i int) any {
	if i < len(list) {
		return list[i]
	}
	return nil
}

// byName returns the elements by their names; nil: one has none, or two have the same.
func byName(list []any) map[string]any {
	out := map[string]any{}
	for _, e := range list {
		m, _ := e.(map[string]any)
		name, is := m["name"].(string)
		if _, twice := out[name]; !is || twice {
			return nil
		}
		out[name] = e
	}
	return out
}

// text is a value in one line.
func text(v any) string {
	if v == nil {
		return ""
	}
	if s, is := v.(string); is && s != "" {
		return printable.Text(s, printable.Long)
	}
	out, err := json.Marshal(v)
	if err != nil {
		return "?"
	}
	return printable.Text(string(out), printable.Long)
}
