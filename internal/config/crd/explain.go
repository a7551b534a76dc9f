package crd

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"fairway/internal/config/document"
	"fairway/internal/config/report"
	"fairway/internal/mesh/code"
)

// addErrors turns the library's errors into problems, in words for someone who looks at the file and not at the schema.
func (s *Schema) addErrors(tree map[string]any, errs field.ErrorList, r *report.Report) {
	for _, e := range errs {
		if r.Full() {
			r.Fail("", code.Invalid, "", "") // is counted only
			continue
		}
		at := placeOf(e)
		if _, is := oneOfPlace(e.Detail); is && (e.Field == "" || e.Field == "<nil>") {
			message, fix := s.explainOneOf(tree, at)
			r.Fail(at, code.Conflict, message, fix)
			continue
		}
		word, message, fix := explain(e, at, tree)
		r.Fail(at, word, message, fix)
	}
}

// placeOf returns the field of a library's error.
func placeOf(e *field.Error) string {
	if e.Field != "" && e.Field != "<nil>" {
		return e.Field
	}
	where, _ := oneOfPlace(e.Detail)
	return where
}

// explain returns the code, message and fix of a library's error, without the field, which the problem names already.
func explain(e *field.Error, at string, tree map[string]any) (word, message, fix string) {
	detail := strings.TrimPrefix(e.Detail, at+" in body ")
	switch e.Type {
	case field.ErrorTypeRequired:
		if e.Detail != "" {
			return code.Missing, e.Detail, ""
		}
		return code.Missing, "the field is required", "set " + at
	case field.ErrorTypeNotSupported:
		return code.UnknownValue, report.Show(e.BadValue) + " is not one of the values", strings.Replace(e.Detail,
			"supported values:", "write one of", 1)
	case field.ErrorTypeTypeInvalid:
		want, _, _ := strings.Cut(strings.TrimPrefix(detail, "must be of type "), ":")
		value := document.Value(tree, at)
		return code.WrongType, report.Show(value) + " is not of type " + want, rightType(at, value, want)
	case field.ErrorTypeDuplicate:
		return code.Duplicate, report.Show(e.BadValue) + " is written twice", "keep one of the two"
	case field.ErrorTypeTooLong, field.ErrorTypeTooMany:
		return code.TooMuch, detail, remedyOf(detail)
	}
	if _, rule, failed := strings.Cut(detail, " evaluating rule: "); failed {
		return code.Invalid, report.Show(document.Value(tree, at)) + ": " + rule, remedyOf(rule)
	}
	if _, omitted := e.BadValue.(field.OmitValueType); omitted || e.BadValue == nil || e.BadValue == "" {
		return code.Invalid, detail, remedyOf(detail)
	}
	return code.Invalid, report.Show(e.BadValue) + ": " + detail, remedyOf(detail)
}

// durations matches the last part of a field that has a duration.
var durations = regexp.MustCompile(`(?i)(timeout|duration|delay|interval|ttl|maxAge|(ejection|idle|refresh)Time|keepalive\.time)$`)

// rightType says how a value would be written in the type that a field has; empty: nothing can be said.
func rightType(at string, value any, want string) string {
	text := fmt.Sprint(value)
	switch v := value.(type) {
	case string:
		_, err := strconv.ParseFloat(v, 64)
		isNumber, isBoolean := err == nil, v == "true" || v == "false"
		if isNumber && (want == "integer" || want == "number") || isBoolean && want == "boolean" {
			return "write " + v + " without quotes"
		}
	case bool, int64, float64, int, json.Number:
		if _, is := v.(bool); want == "string" && !is && durations.MatchString(at) {
			return "write " + text + "s, with its unit"
		}
		if want == "string" {
			return "write it in quotes: " + strconv.Quote(text)
		}
	}
	switch {
	case value == nil:
		return ""
	case want == "array":
		return "write a list: each item on a line of its own, behind a -"
	case want == "object":
		return "write fields with values below it"
	}
	return "write a value of type " + want
}

// oneOfPlace returns the field that has several exclusive fields set. The library names it only in its text.
func oneOfPlace(detail string) (string, bool) {
	rest, ok := strings.CutPrefix(detail, `"`)
	where, rest, closed := strings.Cut(rest, `"`)
	if !ok || !closed || !strings.HasPrefix(rest, " must validate one and only one schema") {
		return "", false
	}
	return where, true
}

// explainOneOf names the fields that are set and exclude each other.
func (s *Schema) explainOneOf(tree map[string]any, where string) (message, fix string) {
	set, _ := document.Value(tree, where).(map[string]any)
	n := s.quick.find(where)
	var names []string
	if n != nil && n.values != nil {
		for _, k := range slices.Sorted(maps.Keys(set)) {
			if slices.ContainsFunc(n.values.exclusive(), func(group []string) bool { return slices.Contains(group, k) }) {
				names = append(names, k)
			}
		}
	}
	if len(names) < 2 {
		return "these fields cannot be set together", ""
	}
	return strings.Join(names, " and ") + " exclude each other", "keep one of them"
}

// exclusive lists the fields that each alternative of a oneOf requires.
func (c *values) exclusive() [][]string {
	var out [][]string
	add := func(list []*nested) {
		for _, n := range list {
			if n.values != nil && len(n.values.required) > 0 {
				out = append(out, n.values.required)
			}
		}
	}
	add(c.oneOf)
	for _, group := range c.allOf {
		if group.values != nil {
			add(group.values.oneOf)
		}
	}
	return out
}
