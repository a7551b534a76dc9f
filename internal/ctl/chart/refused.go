package chart

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"fairway/internal/printable"
	"fairway/internal/spelling"
)

// mostTypos is how many letters an unknown value may differ from the one that is suggested.
const mostTypos = 3

// refused returns a line for each value that a schema refuses, in order of the values' names: the value, the error, the right value.
// prefix is the place of the chart's values.
func refused(schema []byte, values Values, prefix string) []string {
	err := judge(schema, values)
	if err == nil {
		return nil
	}
	invalid, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return []string{"the schema of the chart: " + err.Error()}
	}
	f := finder{schema: schema, values: values, prefix: prefix}
	f.below(invalid)
	slices.Sort(f.lines)
	return slices.Compact(f.lines)
}

// finder collects what a schema refuses.
type finder struct {
	schema []byte
	values Values
	prefix string
	lines  []string
}

// below collects the innermost causes of an error. If several alternatives of the schema refuse the value, it collects the causes of all.
func (f *finder) below(e *jsonschema.ValidationError) {
	for _, cause := range e.Causes {
		f.below(cause)
	}
	if len(e.Causes) > 0 {
		return
	}
	if more, ok := e.ErrorKind.(*kind.AdditionalProperties); ok {
		known := f.known(e.InstanceLocation)
		for _, name := range more.Properties {
			f.lines = append(f.lines, f.at(append(slices.Clone(e.InstanceLocation), name))+": "+unknown(name, known))
		}
		return
	}
	f.lines = append(f.lines, f.at(e.InstanceLocation)+": "+f.wrong(e))
}

// at returns the name of a value as --set takes it.
func (f *finder) at(location []string) string {
	path := slices.Clone(location)
	if f.prefix != "" {
		path = slices.Insert(path, 0, f.prefix)
	}
	for i, name := range path {
		path[i] = printable.Text(name, printable.Short)
	}
	return strings.Join(path, ".")
}

func unknown(name string, known []string) string {
	if like := spelling.DidYouMean(name, slices.Values(known), mostTypos); like != "" {
		return "unknown value; " + like
	}
	if len(known) == 0 {
		return "unknown value"
	}
	return "unknown value; there are " + strings.Join(known, ", ")
}

// known returns the names of the values that the schema has at a place.
func (f *finder) known(location []string) []string {
	type node struct{ Properties map[string]json.RawMessage }
	at := node{}
	if json.Unmarshal(f.schema, &at) != nil {
		return nil
	}
	for _, name := range location {
		next := node{}
		if json.Unmarshal(at.Properties[name], &next) != nil {
			return nil
		}
		at = next
	}
	return slices.Sorted(maps.Keys(at.Properties))
}

// wrong returns the error of a value, with the values that would be right.
func (f *finder) wrong(e *jsonschema.ValidationError) string {
	switch k := e.ErrorKind.(type) {
	case *kind.Type:
		return fmt.Sprintf("%s is %s; want %s", f.value(e), articled(k.Got), wanted(k.Want))
	case *kind.Enum:
		var names []string
		for _, want := range k.Want {
			names = append(names, text(want))
		}
		out := fmt.Sprintf("%s; want %s", f.value(e), list(names))
		if name, ok := k.Got.(string); ok {
			if like := spelling.DidYouMean(name, slices.Values(names), mostTypos); like != "" {
				out += "; " + like
			}
		}
		return out
	case *kind.Const:
		return fmt.Sprintf("%s; want %s", f.value(e), text(k.Want))
	case *kind.Minimum:
		return fmt.Sprintf("%s is too small; want at least %s", f.value(e), k.Want.RatString())
	case *kind.Maximum:
		return fmt.Sprintf("%s is too large; want at most %s", f.value(e), k.Want.RatString())
	case *kind.MinLength:
		return fmt.Sprintf("%s is too short; want at least %d characters", f.value(e), k.Want)
	case *kind.MaxLength:
		return fmt.Sprintf("%s is too long; want at most %d characters", f.value(e), k.Want)
	case *kind.MinItems:
		return fmt.Sprintf("the list has %d entries; want at least %d", k.Got, k.Want)
	case *kind.Pattern:
		return fmt.Sprintf("%s; want a text that matches %s", f.value(e), k.Want)
	case *kind.Required:
		return "missing: " + strings.Join(k.Missing, ", ")
	}
	return fmt.Sprintf("%s is refused by %q of the chart's schema", f.value(e), strings.Join(e.ErrorKind.KeywordPath(), "."))
}

// value returns the value that an error is about, as JSON.
func (f *finder) value(e *jsonschema.ValidationError) string {
	var v any = f.values
	for _, name := range e.InstanceLocation {
		switch in := v.(type) {
		case Values:
			v = in[name]
		case []any:
			var i int
			if _, err := fmt.Sscan(name, &i); err != nil || i < 0 || i >= len(in) {
				return "the value"
			}
			v = in[i]
		default:
			return "the value"
		}
	}
	out, err := json.Marshal(v)
	if err != nil {
		return "the value"
	}
	return printable.Text(string(out), printable.Short)
}

func text(value any) string {
	if s, ok := value.(string); ok && s != "" {
		return s
	}
	out, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return string(out)
}

// list joins names with commas and a last "or".
func list(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
}

// words are the types of JSON in the words of values files.
var words = map[string]string{
	"string": "a text", "integer": "a whole number", "number": "a number", "boolean": "true or false", "object": "a table of values",
	"array": "a list", "null": "null",
}

func articled(name string) string {
	if w, ok := words[name]; ok && name != "boolean" {
		return w
	}
	return "a " + name
}

func wanted(names []string) string {
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = name
		if w, ok := words[name]; ok {
			out[i] = w
		}
	}
	return list(out)
}
