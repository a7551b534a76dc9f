package printable_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"fairway/internal/printable"
)

type named string

type loud struct{ text string }

func (l loud) String() string { return l.text }

type broken struct{ text *string }

func (b *broken) Error() string { return *b.text }

type hidden string

func (hidden) LogValue() slog.Value { return slog.StringValue("[redacted]") }

// TestHandler: no form of a stranger's text makes a line of a log long, starts another line, or moves a cursor.
func TestHandler(t *testing.T) {
	huge := strings.Repeat("x", 1<<20) + "end"
	evil := "a\x1b[2J\u202e\nlevel=ERROR msg=fake"
	values := map[string]any{
		"string":        evil,
		"huge":          huge,
		"named":         named(evil),
		"huge named":    named(huge),
		"error":         errors.New(evil),
		"huge error":    errors.New(huge),
		"joined":        errors.Join(errors.New("one"), errors.New("two")),
		"stringer":      loud{huge},
		"evil stringer": loud{evil},
		"list":          []string{evil, huge},
		"long list":     make([]string, 10_000),
		"bytes":         []byte(evil),
		"huge bytes":    []byte(huge),
		"struct":        struct{ A, B string }{evil, huge},
		"map": map[string]string{
			evil: huge,
		},
		"nil error": (*broken)(nil),
		"nil":       nil,
		"json":      json.RawMessage(`"` + huge + `"`),
		"stack":     strings.Repeat("line\n", 10_000),
		"group":     slog.GroupValue(slog.String(evil, evil), slog.Any("deep", slog.GroupValue(slog.String("huge", huge)))),
		evil:        1,
	}
	for name, make := range map[string]func(*bytes.Buffer) slog.Handler{
		"text": func(b *bytes.Buffer) slog.Handler { return slog.NewTextHandler(b, nil) },
		"json": func(b *bytes.Buffer) slog.Handler { return slog.NewJSONHandler(b, nil) },
	} {
		for key, value := range values {
			for _, with := range []bool{false, true} {
				var out bytes.Buffer
				log := slog.New(printable.Handler(make(&out)))
				if with {
					log.With(key, value).WithGroup(evil).Info(evil+huge, "n", 1)
				} else {
					log.Info(evil+huge, key, value)
				}
				line := out.String()
				if strings.Count(line, "\n") != 1 || len(line) > 40<<10 || strings.ContainsAny(line, "\x1b\u202e") ||
					strings.Contains(line, "end") ||
					!strings.Contains(line, "msg") {
					t.Errorf("%s, %q: %d bytes, %.300q", name, key, len(line), line)
				}
			}
		}
	}
}

// TestHandlerLeavesWhatFits: numbers stay numbers, times stay times, and a value that hides itself stays hidden.
func TestHandlerLeavesWhatFits(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(
		printable.Handler(
			printable.Handler(slog.NewJSONHandler(&out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
				if a.Key == slog.TimeKey {
					return slog.Attr{}
				}
				return a
			}})),
		),
	)
	at := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	log.Info("said", "n", 1, "f", 1.5, "b", true, "at", at, "d", time.Second, "addr", netip.MustParseAddr("::1"),
		"err", fmt.Errorf("a: %w", errors.New("b")), "list", []string{"x"}, "key", hidden("secret"), slog.Group("g", "k", "v"))
	want := `{"level":"INFO","msg":"said","n":1,"f":1.5,"b":true,"at":"2030-01-01T00:00:00Z","d":1000000000,"addr":"::1","err":"a: b","list":["x"],"key":"[redacted]","g":{"k":"v"}}` + "\n"
	if out.String() != want {
		t.Errorf("got  %swant %s", out.String(), want)
	}
}

// TestJSON: the text keeps its meaning, and nothing in it moves a cursor or turns the direction of writing.
func TestJSON(t *testing.T) {
	for _, value := range []string{
		"plain", "a\x1b\x7f\u0085\u009b\u202e\u2066\u200b\u2028\ue000\U000e0001\U000f0000b", "日本 \ufffd", "\xff",
	} {
		text, err := json.Marshal(map[string]string{value: value})
		if err != nil {
			t.Fatal(err)
		}
		got := printable.JSON(text)
		var before, after map[string]string
		if err := errors.Join(json.Unmarshal(text, &before), json.Unmarshal(got, &after)); err != nil {
			t.Fatalf("%q: %v", got, err)
		}
		for k, v := range before {
			if after[k] != v {
				t.Errorf("%q becomes %q", text, got)
			}
		}
		if strings.ContainsAny(string(got), "\x1b\x7f\u0085\u009b\u202e\u2066\u200b\u2028\ue000\U000e0001\U000f0000") {
			t.Errorf("%q is not fit to show", got)
		}
	}
}
