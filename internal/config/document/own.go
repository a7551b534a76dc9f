package document

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"
)

// ParseJSON reads one object that a program wrote as JSON: nothing but the object, no name twice. If the text is not JSON, the mistake
// quotes none of it, because it may be a Secret.
func ParseJSON(text []byte) (map[string]any, *Mistake) {
	if len(text) > maxTreeBytes {
		return nil, &Mistake{Line: 1, Message: fmt.Sprintf("the object has %d bytes of at most %d", len(text), maxTreeBytes), Fix: fixLarge}
	}
	if bad := tooMany(text); bad != nil {
		return nil, bad
	}
	tree, ok, bad := parseJSON(text)
	if bad != nil {
		return nil, bad
	}
	if !ok || tree == nil {
		return nil, &Mistake{Line: 1, Message: "the text is not a JSON object"}
	}
	return tree, nil
}

const fixLarge = "write several objects"

// Own copies a tree that belongs to other code, and may be shared, into one that the caller may change. It is a Mistake if the tree has
// values of other types than JSON's, strings that are not UTF-8, or more of anything than a document may have. A number without a fraction
// becomes an int64, regardless of its Go type.
func Own(tree map[string]any) (map[string]any, *Mistake) {
	o := owner{nodes: maxTreeNodes, bytes: maxTreeBytes}
	out := o.fields(tree, 0)
	if o.bad != nil {
		return nil, o.bad
	}
	return out, nil
}

// owner copies one tree. Go trees may share parts or contain themselves, so it counts the values that it writes.
type owner struct {
	nodes int // left
	bytes int // of names and strings, left
	bad   *Mistake
}

func (o *owner) fail(message, fix string) any {
	if o.bad == nil {
		o.bad = &Mistake{Line: 1, Message: message, Fix: fix}
	}
	return nil
}

func (o *owner) full() any {
	return o.fail(fmt.Sprintf("the object holds more than %d values", maxTreeNodes), fixLarge)
}

// value copies a value at this depth.
func (o *owner) value(v any, depth int) any {
	if !o.afford(v, depth) {
		return nil
	}
	switch v := v.(type) {
	case nil, bool, int64, string:
		return v
	case map[string]any:
		return o.fields(v, depth)
	case []any:
		if len(v) > o.nodes {
			return o.full()
		}
		out := make([]any, len(v))
		for i, e := range v {
			if out[i] = o.value(e, depth+1); o.bad != nil {
				return nil
			}
		}
		return out
	case int:
		return int64(v)
	case float64:
		return o.number(v)
	case json.Number:
		if i, err := strconv.ParseInt(string(v), 10, 64); err == nil {
			return i
		}
		f, err := strconv.ParseFloat(string(v), 64)
		if err != nil {
			return o.fail("a number cannot be read", "")
		}
		return o.number(f)
	}
	return o.fail(fmt.Sprintf("an object cannot hold a value of type %T", v), "")
}

func (o *owner) number(f float64) any {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return o.fail(strconv.FormatFloat(f, 'g', -1, 64)+" is not a number that an object can hold", "")
	}
	return jsonNumber(f)
}

func (o *owner) fields(m map[string]any, depth int) map[string]any {
	out := make(map[string]any, min(len(m), max(o.nodes, 0)))
	for k, e := range m {
		if !o.spell(k) {
			return nil
		}
		if out[k] = o.value(e, depth+1); o.bad != nil {
			return nil
		}
	}
	return out
}

// afford counts a value against the limits of the copy.
func (o *owner) afford(v any, depth int) bool {
	if o.nodes--; o.nodes < 0 {
		o.full()
		return false
	}
	if depth > maxDepth {
		o.fail(errDeep.Message, errDeep.Fix)
		return false
	}
	if s, ok := v.(string); ok {
		return o.spell(s)
	}
	return o.bad == nil
}

// spell counts a name or a string.
func (o *owner) spell(s string) bool {
	o.bytes -= len(s)
	switch {
	case o.bytes < 0:
		o.fail(fmt.Sprintf("the object's names and strings have more than %d bytes", maxTreeBytes), fixLarge)
	case !utf8.ValidString(s):
		o.fail("the text is not UTF-8", "")
	}
	return o.bad == nil
}
