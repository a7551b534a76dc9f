// Package mend changes objects as the fixes of problems say, for tests that such a fix leads to no other problem.
package mend

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
)

// mechanical are fixes that can be applied without a thought: the group is the text to write.
var mechanical = []*regexp.Regexp{
	regexp.MustCompile(`^did you mean (\S+)\?$`),
	regexp.MustCompile(`^write it in quotes: (".*")$`),
	regexp.MustCompile(`^write (\S+), with its unit$`),
	regexp.MustCompile(`^write (\S+) without quotes$`),
	regexp.MustCompile(`^write ([^\s,;:]+)$`),
}

// label is a fix of a selector: the label to select instead of one of its labels.
var label = regexp.MustCompile(`^did you mean (\S+): (\S+)\?$`)

// Apply changes a tree as the fix of the problem of a field says: its name if rename is set, else its value. It returns false if the fix
// needs a thought, or the field is not found.
func Apply(tree any, field, fix string, rename bool) bool {
	if m := label.FindStringSubmatch(fix); m != nil {
		return put(tree, field, func(in map[string]any, key string) { relabel(in[key], m[1], m[2]) }, nil)
	}
	for _, by := range mechanical {
		m := by.FindStringSubmatch(fix)
		if m == nil || strings.Contains(m[1], "example") { // which shows a form
			continue
		}
		var value any
		if json.Unmarshal([]byte(m[1]), &value) != nil {
			value = m[1]
		}
		return put(tree, field, func(in map[string]any, key string) {
			if rename {
				in[m[1]] = in[key]
				delete(in, key)
			} else {
				in[key] = value
			}
		}, value)
	}
	return false
}

// relabel replaces one label of a selector: the one of the name, else the one of the value.
func relabel(selector any, name, value string) {
	labels, _ := selector.(map[string]any)
	for _, below := range []string{"matchLabels", "labels"} {
		if inner, is := labels[below].(map[string]any); is {
			labels = inner
		}
	}
	if _, has := labels[name]; !has {
		for key, v := range labels {
			if v == value {
				delete(labels, key)
			}
		}
	}
	labels[name] = value
}

// put changes the value of a field: by a function in an object, else it is the item of a list.
func put(v any, at string, change func(map[string]any, string), item any) bool {
	switch v := v.(type) {
	case map[string]any:
		for key, e := range v {
			for _, name := range []string{key, "." + key, "[" + key + "]"} {
				rest, ok := strings.CutPrefix(at, name)
				if ok && rest == "" {
					change(v, key)
					return true
				}
				if ok && (rest[0] == '.' || rest[0] == '[') && put(e, rest, change, item) {
					return true
				}
			}
		}
	case []any:
		for i, e := range v {
			rest, ok := strings.CutPrefix(at, "["+strconv.Itoa(i)+"]")
			if ok && rest == "" {
				v[i] = item
				return true
			}
			if ok && put(e, rest, change, item) {
				return true
			}
		}
	}
	return false
}
