package printable

import (
	"context"
	"encoding"
	"encoding/json"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
)

// Bounds on one value in a log, in bytes. Strings have Short; messages are this program's own words.
const (
	errorBound = 1024     // our own, with a stranger's text in it
	stackBound = 16 << 10 // the attribute "stack"
	mostItems  = 32       // of a list
	deepest    = 4        // group within group
)

// Handler returns a handler that makes every message and attribute safe to show before next has it: strings are cut to Short, errors to 1
// KiB, the attribute "stack" to 16 KiB, and characters that could move a cursor, start a line or turn the direction of writing are
// replaced. A value that is not plain is written as text. A handler that Handler made is returned as it is.
func Handler(next slog.Handler) slog.Handler {
	if h, ok := next.(handler); ok {
		return h
	}
	return handler{next}
}

type handler struct{ next slog.Handler }

func (h handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

func (h handler) WithGroup(name string) slog.Handler {
	return handler{h.next.WithGroup(Text(name, Short))}
}

func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return handler{h.next.WithAttrs(cleanAttrs(attrs, 0))}
}

func (h handler) Handle(ctx context.Context, r slog.Record) error {
	out := slog.NewRecord(r.Time, r.Level, Text(r.Message, Long), r.PC)
	r.Attrs(func(a slog.Attr) bool {
		out.AddAttrs(cleanAttr(a, 0))
		return true
	})
	return h.next.Handle(ctx, out)
}

func cleanAttrs(attrs []slog.Attr, depth int) []slog.Attr {
	out := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		out[i] = cleanAttr(a, depth)
	}
	return out
}

func cleanAttr(a slog.Attr, depth int) slog.Attr {
	v := a.Value.Resolve()
	key := Text(a.Key, Short)
	switch v.Kind() {
	case slog.KindString:
		if key == "stack" {
			return slog.String(key, Lines(v.String(), stackBound))
		}
		return slog.String(key, Text(v.String(), Short))
	case slog.KindGroup:
		if depth == deepest {
			return slog.String(key, "…")
		}
		group := v.Group()
		return slog.Attr{Key: key, Value: slog.GroupValue(cleanAttrs(group[:min(len(group), mostItems)], depth+1)...)}
	case slog.KindAny:
		return slog.Attr{Key: key, Value: cleanAny(v.Any())}
	}
	return slog.Attr{Key: key, Value: v} // numbers, times
}

// cleanAny formats a value with the same methods as slog's handlers, so that a type that hides a secret still hides it.
func cleanAny(v any) (out slog.Value) {
	defer func() {
		if why := recover(); why != nil { // usually a method of a nil
			out = slog.StringValue(fmt.Sprintf("!(%T)", v))
		}
	}()
	switch v := v.(type) {
	case nil:
		return slog.AnyValue(nil)
	case error:
		return slog.StringValue(Lines(v.Error(), errorBound))
	case encoding.TextMarshaler:
		text, err := v.MarshalText()
		if err != nil {
			return slog.StringValue(Text(err.Error(), errorBound))
		}
		return slog.StringValue(Text(string(text), Short))
	case json.Marshaler:
		text, err := v.MarshalJSON()
		if err != nil {
			return slog.StringValue(Text(err.Error(), errorBound))
		}
		return slog.StringValue(Text(string(text), errorBound))
	case fmt.Stringer:
		return slog.StringValue(Text(v.String(), Short))
	case []string:
		list := make([]string, 0, min(len(v), mostItems))
		for _, s := range v[:min(len(v), mostItems)] {
			list = append(list, Text(s, Short))
		}
		if len(v) > mostItems {
			list = append(list, fmt.Sprintf("… %d in all", len(v)))
		}
		return slog.AnyValue(list)
	}
	return cleanOther(v)
}

func cleanOther(v any) slog.Value {
	switch r := reflect.ValueOf(v); r.Kind() { //nolint:exhaustive // all others have a form of their own, which is bounded below
	case reflect.String:
		return slog.StringValue(Text(r.String(), Short))
	case reflect.Bool,
		reflect.Int,
		reflect.Int8,
		reflect.Int16,
		reflect.Int32,
		reflect.Int64,
		reflect.Uint,
		reflect.Uint8,
		reflect.Uint16,
		reflect.Uint32,
		reflect.Uint64,
		reflect.Float32,
		reflect.Float64:
		return slog.AnyValue(v)
	}
	b := &bounded{left: errorBound + 1} // one more than is kept, so that Text marks the cut
	fmt.Fprintf(b, "%+v", v)
	return slog.StringValue(Text(b.text.String(), errorBound))
}

// bounded keeps the first bytes that are written to it.
type bounded struct {
	text strings.Builder
	left int
}

func (b *bounded) Write(p []byte) (int, error) {
	n := min(b.left, len(p))
	b.text.Write(p[:n])
	b.left -= n
	return len(p), nil
}
