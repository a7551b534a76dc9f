package document

import (
	"encoding/base64"
	"math"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	yaml "go.yaml.in/yaml/v3"
	kjson "sigs.k8s.io/json"
)

// parseTree reads a document as an API server does: maps, lists, strings, bools, int64 and float64, and nil for no content at all. Plain
// YAML scalars mean the same as in kubectl (YAML 1.1: yes and on are bools), unlike in yaml.v3.
func parseTree(text []byte) (any, *Mistake) {
	body := skipBlank(text)
	if len(body) == 0 {
		return nil, nil
	}
	if bad := tooMany(text); bad != nil {
		return nil, bad
	}
	if body[0] == '{' {
		switch tree, ok, bad := parseJSON(text); {
		case bad != nil:
			return nil, bad
		case ok:
			return tree, nil
		}
	}
	if tree, ok := parsePlain(text); ok {
		return tree, nil
	}
	return parseYAML(text)
}

// parseJSON is not ok when the text is not JSON but may be YAML's flow style.
func parseJSON(text []byte) (tree map[string]any, ok bool, bad *Mistake) {
	strict, err := kjson.UnmarshalStrict(text, &tree, kjson.DisallowDuplicateFields)
	if err != nil {
		return nil, false, nil
	}
	if len(strict) > 0 {
		return nil, true, &Mistake{Line: 1, Message: strict[0].Error(), Fix: "keep one of the two"}
	}
	if deeper(tree, maxDepth) {
		return nil, true, &errDeep
	}
	return tree, true, nil
}

// parseYAML reads any YAML.
func parseYAML(text []byte) (any, *Mistake) {
	root, bad := parseNodes(text)
	if bad != nil || root == nil {
		return nil, bad
	}
	b := builder{nodes: nodesOf(text), bytes: spelledOf(text)}
	tree := b.value(root, 0)
	if b.bad != nil {
		return nil, b.bad
	}
	return tree, nil
}

// builder turns YAML nodes into a tree.
type builder struct {
	nodes int // left: aliases of aliases must not grow without bound
	bytes int // of names and strings, left: nor must aliases of long strings
	bad   *Mistake
}

func (b *builder) fail(n *yaml.Node, message, fix string) any {
	if b.bad == nil {
		b.bad = &Mistake{Line: n.Line, Message: message, Fix: fix}
	}
	return nil
}

// value builds the value of a node at this depth.
func (b *builder) value(n *yaml.Node, depth int) any {
	if b.bad != nil {
		return nil
	}
	if b.nodes, b.bytes = b.nodes-1, b.bytes-len(n.Value); b.nodes < 0 || b.bytes < 0 {
		return b.fail(n, "the document's aliases expand to too much", "write it out")
	}
	if depth > maxDepth {
		return b.fail(n, errDeep.Message, errDeep.Fix)
	}
	switch n.Kind {
	case yaml.MappingNode:
		return b.mapping(n, depth)
	case yaml.SequenceNode:
		out := make([]any, len(n.Content))
		for i, c := range n.Content {
			if out[i] = b.value(c, depth+1); b.bad != nil {
				return nil
			}
		}
		return out
	case yaml.AliasNode:
		return b.value(n.Alias, depth+1)
	}
	return b.scalar(n)
}

func (b *builder) mapping(n *yaml.Node, depth int) any {
	out := make(map[string]any, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		k := n.Content[i]
		if isMerge(k) {
			continue
		}
		name, ok := keyName(k)
		if !ok {
			return b.fail(k, "a field's name must be a plain word", "")
		}
		if _, twice := out[name]; twice {
			return b.fail(k, "field "+strconv.Quote(name)+" is written twice", "keep one of the two")
		}
		b.nodes, b.bytes = b.nodes-1, b.bytes-len(name)
		if out[name] = b.value(n.Content[i+1], depth+1); b.bad != nil {
			return nil
		}
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if isMerge(n.Content[i]) {
			b.merge(out, n.Content[i+1], depth+1)
		}
	}
	return out
}

func isMerge(k *yaml.Node) bool {
	return k.Kind == yaml.ScalarNode && k.Value == "<<" && k.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) == 0
}

// merge adds what `<<` names to fields that are not written out, the first of a list winning.
func (b *builder) merge(out map[string]any, n *yaml.Node, depth int) {
	switch v := b.value(n, depth).(type) {
	case map[string]any:
		addMissing(out, v)
	case []any:
		for _, e := range v {
			m, ok := e.(map[string]any)
			if !ok {
				b.fail(n, "<< needs fields to merge", "")
				return
			}
			addMissing(out, m)
		}
	default:
		b.fail(n, "<< needs fields to merge", "")
	}
}

func addMissing(out, from map[string]any) {
	for k, v := range from {
		if _, has := out[k]; !has {
			out[k] = v
		}
	}
}

// keyName returns a map key as a JSON string, even if a plain YAML key would resolve to another type.
func keyName(n *yaml.Node) (string, bool) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Kind != yaml.ScalarNode {
		return "", false
	}
	if !isPlain(n) {
		return n.Value, n.ShortTag() == "!!str"
	}
	return plainKey(n.Value)
}

// plainKey returns the name that a plain key means: `yes:` is the key true.
func plainKey(s string) (string, bool) {
	switch v := resolve(s).(type) {
	case string:
		return v, true
	case bool:
		return strconv.FormatBool(v), true
	case int64:
		return strconv.FormatInt(v, 10), true
	}
	return "", false // null and fractions name no field of ours
}

func isPlain(n *yaml.Node) bool {
	return n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle|yaml.TaggedStyle) == 0
}

func (b *builder) scalar(n *yaml.Node) any {
	if isPlain(n) {
		v := resolve(n.Value)
		if f, ok := v.(float64); ok && (math.IsNaN(f) || math.IsInf(f, 0)) {
			return b.fail(n, n.Value+" is not a number that an object can hold", "")
		}
		return v
	}
	if n.Style&yaml.TaggedStyle == 0 {
		return n.Value
	}
	switch n.ShortTag() {
	case "!!str":
		return n.Value
	case "!!binary":
		raw, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(n.Value), ""))
		if err != nil || !utf8.Valid(raw) {
			return b.fail(n, "!!binary holds no text in base64", "")
		}
		return string(raw)
	}
	return b.fail(n, "the tag "+n.Tag+" is not understood", "leave it out")
}

// resolve gives a plain scalar its meaning by YAML 1.1, as the library that kubectl uses does, and then JSON's: a float
// that is a whole number is an integer.
func resolve(s string) any {
	if s == "" {
		return nil
	}
	switch c := s[0]; {
	case c >= '0' && c <= '9', c == '+', c == '-', c == '.':
		return resolveNumber(s)
	case strings.IndexByte("yYnNtTfFoO~", c) < 0:
		return s
	}
	switch s {
	case "y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON":
		return true
	case "n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF":
		return false
	case "~", "null", "Null", "NULL":
		return nil
	}
	return s
}

// yamlFloat matches the numbers that have a fraction or exponent in YAML 1.1, except named ones.
var yamlFloat = regexp.MustCompile(`^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$`)

func resolveNumber(s string) any {
	switch s {
	case ".nan", ".NaN", ".NAN":
		return math.NaN()
	case ".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF":
		return math.Inf(1)
	case "-.inf", "-.Inf", "-.INF":
		return math.Inf(-1)
	}
	if s[0] == '.' {
		if f, err := strconv.ParseFloat(s, 64); err == nil {
			return jsonNumber(f)
		}
		return s
	}
	if strings.HasSuffix(s, "s") || strings.IndexByte(s, '/') > 0 || strings.Count(s, ".") > 1 || strings.IndexByte(s, ':') > 0 {
		return s // a duration, a CIDR, an address or a time: none is a number, and most scalars that start with a digit are one of them
	}
	plain := strings.ReplaceAll(s, "_", "")
	if i, err := strconv.ParseInt(plain, 0, 64); err == nil && !isDate(s) {
		return i
	}
	if u, err := strconv.ParseUint(plain, 0, 64); err == nil {
		return float64(u)
	}
	if yamlFloat.MatchString(plain) {
		if f, err := strconv.ParseFloat(plain, 64); err == nil {
			return jsonNumber(f)
		}
	}
	return s
}

// isDate reports whether a scalar starts like a year and a month, and so unlike an integer.
func isDate(s string) bool { return len(s) > 4 && s[4] == '-' }

func jsonNumber(f float64) any {
	if i, ok := WholeNumber(f); ok {
		return i
	}
	return f
}

// WholeNumber returns the int64 of a float that JSON would write without a point: 1e3 and 8080.0 are integers to an API server.
func WholeNumber(f float64) (int64, bool) {
	if f != math.Trunc(f) || math.Abs(f) >= 1e21 || f >= math.MaxInt64 || f <= math.MinInt64 {
		return 0, false
	}
	return int64(f), true
}
