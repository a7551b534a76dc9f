package trial_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"fairway/internal/config"
)

// dump prints a value with all that it reaches, unexported fields too. Two values that look alike in it keep the same. Objects are printed
// by name and content. Left out are times, functions, channels, locks, and the way out of a station: its fields next, log and set.
func dump(v any) string {
	d := dumper{seen: map[uintptr]bool{}}
	d.value(reflect.ValueOf(v))
	return d.String()
}

type dumper struct {
	strings.Builder
	seen map[uintptr]bool
}

func (d *dumper) value(v reflect.Value) {
	if !v.IsValid() {
		d.WriteString("nil")
		return
	}
	switch v.Type() {
	case reflect.TypeFor[time.Time](), reflect.TypeFor[sync.Mutex]():
		return
	case reflect.TypeFor[*config.Object]():
		if !v.IsNil() {
			o := v.Elem()
			fmt.Fprintf(d, "%v %x %v\n", o.FieldByName("Key"), o.FieldByName("Hash").Uint(), o.FieldByName("Ref"))
			return
		}
	}
	switch v.Kind() {
	case reflect.Pointer:
		switch {
		case v.IsNil():
			d.WriteString("nil")
		case d.seen[v.Pointer()]:
			d.WriteString("^")
		default:
			d.seen[v.Pointer()] = true
			d.value(v.Elem())
		}
	case reflect.Interface:
		d.value(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			switch name := v.Type().Field(i).Name; name {
			case "next", "log", "set", "prev", "list":
			case "of": // of a shard: its source
				d.WriteString(v.Field(i).Elem().FieldByName("name").String())
			default:
				d.WriteString(name + ":")
				d.value(v.Field(i))
				d.WriteString("; ")
			}
		}
	case reflect.Map:
		var lines []string
		for entries := v.MapRange(); entries.Next(); {
			one := dumper{seen: map[uintptr]bool{}} // the order of a map is not defined, so what was seen before may not count
			one.value(entries.Key())
			one.WriteString("=")
			one.value(entries.Value())
			lines = append(lines, one.String())
		}
		slices.Sort(lines)
		d.WriteString("{" + strings.Join(lines, "\n") + "}\n")
	case reflect.Slice, reflect.Array:
		d.WriteString("[")
		for i := range v.Len() {
			d.value(v.Index(i))
			d.WriteString(", ")
		}
		d.WriteString("]")
	case reflect.Func, reflect.Chan:
	case reflect.Bool, reflect.Int, reflect.Int64, reflect.Int32, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64,
		reflect.Float64, reflect.String:
		fmt.Fprintf(d, "%v", v)
	default:
		panic("dump: " + v.Type().String())
	}
}
