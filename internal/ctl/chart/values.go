package chart

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"sigs.k8s.io/yaml"
)

// Values are the values of a chart. Those of a part are a table with the part's name.
type Values = map[string]any

// globals are the values that a chart shares with its parts.
const globals = "global"

// Parse reads values. If the text has several documents, a later one has precedence.
func Parse(text []byte) (Values, error) {
	out := Values{}
	for _, document := range Split(string(text)) {
		some := Values{}
		if err := yaml.Unmarshal([]byte(document), &some); err != nil {
			return nil, err
		}
		out = Merge(out, some)
	}
	return out, nil
}

// Merge returns the values of both. b has precedence; tables are merged.
func Merge(a, b Values) Values {
	out := copied(a, false).(Values)
	for name, value := range b {
		under, isTable := out[name].(Values)
		if table, ok := value.(Values); ok && isTable {
			value = Merge(under, table)
		}
		out[name] = value
	}
	return out
}

// copied returns a deep copy of a value, without nulls in tables if they are to be dropped.
func copied(value any, dropNulls bool) any {
	switch value := value.(type) {
	case Values:
		out := Values{}
		for name, inner := range value {
			if inner != nil || !dropNulls {
				out[name] = copied(inner, dropNulls)
			}
		}
		return out
	case []any:
		out := make([]any, len(value))
		for i, inner := range value {
			out[i] = copied(inner, dropNulls)
		}
		return out
	}
	return value
}

// lay adds defaults to values. A null in values removes the default of its name. With keepNulls it stays: it removes a default that is not
// known yet.
func lay(values, defaults Values, keepNulls bool) {
	for name, value := range defaults {
		own, has := values[name]
		table, isTable := value.(Values)
		ownTable, ownIsTable := own.(Values)
		switch {
		case !has && (value != nil || keepNulls):
			values[name] = copied(value, !keepNulls)
		case has && own == nil && !keepNulls:
			delete(values, name)
		case isTable && ownIsTable:
			lay(ownTable, table, keepNulls)
		}
	}
}

// complete adds the defaults of a chart and its parts to values, and shares the global ones.
func (c *Chart) complete(values Values, keepNulls bool) error {
	for name, value := range c.Values {
		lay(values, Values{name: value}, keepNulls || c.part(name) != nil)
	}
	for _, part := range c.parts {
		name := part.Metadata.Name
		if values[name] == nil {
			values[name] = Values{}
		}
		own, ok := values[name].(Values)
		if !ok {
			return fmt.Errorf("values: %s is %v; want a table of values", name, values[name])
		}
		shared, _ := copied(values[globals], false).(Values)
		if shared == nil {
			shared = Values{}
		}
		if others, ok := own[globals].(Values); ok {
			lay(shared, others, true)
		}
		own[globals] = shared
		if err := part.complete(own, keepNulls); err != nil {
			return err
		}
	}
	return nil
}

// Choose removes the parts that the values switch off, and returns the values with all defaults. An error says which value is wrong.
func (c *Chart) Choose(values Values) (Values, error) {
	all := copied(values, false).(Values)
	if err := c.complete(all, false); err != nil {
		return nil, err
	}
	off := func(name string) bool {
		for _, d := range c.Metadata.Dependencies {
			if on, ok := at(all, d.Condition).(bool); d.Name == name && ok {
				return !on
			}
		}
		return false
	}
	c.parts = slices.DeleteFunc(c.parts, func(p *Chart) bool { return off(p.Metadata.Name) })
	c.Metadata.Dependencies = slices.DeleteFunc(c.Metadata.Dependencies, func(d Dependency) bool { return off(d.Name) })
	defaults := Values{}
	if err := c.complete(defaults, true); err != nil {
		return nil, err
	}
	c.Values = defaults
	out := copied(values, false).(Values)
	if err := c.complete(out, false); err != nil {
		return nil, err
	}
	if wrong := c.validate(out, ""); len(wrong) > 0 {
		return nil, errors.New("values:\n  " + strings.Join(wrong, "\n  "))
	}
	return out, nil
}

// at returns the value at a path of names with dots between them.
func at(values Values, path string) any {
	var out any = values
	for name := range strings.SplitSeq(path, ".") {
		table, _ := out.(Values)
		out = table[name]
	}
	return out
}

// validate returns a line for each value that the schemas of a chart and its parts refuse.
func (c *Chart) validate(values Values, prefix string) []string {
	out := refused(c.Schema, values, prefix)
	for _, part := range c.parts {
		own, _ := values[part.Metadata.Name].(Values)
		out = append(out, part.validate(own, part.Metadata.Name)...)
	}
	return out
}

func judge(schema []byte, values Values) error {
	if schema == nil {
		return nil
	}
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		return err
	}
	const name = "file:///" + schemaFile
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource(name, parsed); err != nil {
		return err
	}
	compiled, err := compiler.Compile(name)
	if err != nil {
		return err
	}
	return compiled.Validate(values)
}
