package cells

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Rower is implemented by keys and values that print as several columns.
type Rower interface{ Row() []string }

// Headed is implemented by keys and values that name their columns. Header is
// called on the zero value.
type Headed interface{ Header() []string }

// Header names the columns of a type by its zero value.
func Header(zero any, name string) []string {
	if h, ok := zero.(Headed); ok && !isNil(zero) {
		return h.Header()
	}
	return []string{name}
}

func isNil(v any) bool {
	return v == nil || reflect.ValueOf(v).Kind() == reflect.Pointer && reflect.ValueOf(v).IsNil()
}

// Columns prints a value.
func Columns(v any) []string {
	if r, ok := v.(Rower); ok && !isNil(v) {
		return r.Row()
	}
	return []string{Text(v)}
}

// Fit makes a key take the columns of its header.
func Fit(row []string, n int) []string {
	if len(row) > n {
		return append(slices.Clone(row[:n-1]), strings.Join(row[n-1:], " "))
	}
	for len(row) < n {
		row = append(row, "")
	}
	return row
}

// Text prints a key or value on one line.
func Text(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case fmt.Stringer:
		return v.String()
	case Rower:
		return strings.Join(v.Row(), " ")
	}
	return strings.ReplaceAll(fmt.Sprint(v), "\n", " ")
}
