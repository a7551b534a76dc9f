package platform_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"fairway/internal/source/platform"
)

// decoded reads any JSON by a Stream's calls alone, as encoding/json has it.
func decoded(s *platform.Stream) (any, error) {
	c, err := s.Peek()
	if err != nil {
		return nil, err
	}
	switch c {
	case '{':
		out := map[string]any{}
		_, err := s.Object(func(name string) (err error) {
			out[name], err = decoded(s)
			return err
		})
		return out, err
	case '[':
		out := []any{}
		err := s.Array(func() error {
			one, err := decoded(s)
			out = append(out, one)
			return err
		})
		return out, err
	}
	var out any
	ok, err := s.Decode(&out, 1<<10)
	if err == nil && !ok {
		err = errLong
	}
	return out, err
}

// errLong reports that a value is too long to be read. Of values that are read over, a Stream checks the brackets alone.
var errLong = errors.New("too long")

// A Stream reads the same as encoding/json, however the bytes come.
func TestStreamReadsJSON(t *testing.T) {
	for _, text := range []string{
		`{}`, `[]`, `{"a":[1,2,{"b":"c"}],"d":null,"e":true}`, " \n{ \"a\" : [ 1 , -2.5e3 ] , \"\\u0062\\\"\" : \"x\\\\\" }\t",
		`["}","]","{\"","\\"]`, `[[[[]]],{"a":{"b":{}}}]`, `"alone"`, `12`, `["` + strings.Repeat("x", 900) + `"]`,
	} {
		var want any
		if err := json.Unmarshal([]byte(text), &want); err != nil {
			t.Fatal(err)
		}
		for name, from := range map[string]io.Reader{
			"at once": strings.NewReader(text), "byte by byte": iotest.OneByteReader(strings.NewReader(text)),
			"with its end": iotest.DataErrReader(strings.NewReader(text)),
		} {
			if got, err := decoded(platform.NewStream(from)); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s, %s: %v %v, want %v", text, name, got, err, want)
			}
		}
	}
}

// Text that is not JSON, or breaks off, is an error and never a part of the value.
func TestStreamOfBrokenJSON(t *testing.T) {
	for _, text := range []string{
		``, `{`, `[`, `{"a"`, `{"a":`, `{"a":1`, `{"a":1,`, `{"a":1,}`, `[1`, `[1,`, `[1,]`, `{,}`, `[,]`, `{"a" 1}`, `[1 2]`, `"abc`, `["\`,
		`nul`, `{1:2}`, `{"a":}`, `]`, `}`, `:`,
	} {
		if got, err := decoded(platform.NewStream(strings.NewReader(text))); err == nil {
			t.Errorf("%q is read as %v", text, got)
		}
	}
	broken := errors.New("the line broke")
	if _, err := decoded(platform.NewStream(io.MultiReader(strings.NewReader(`{"a":[`), iotest.ErrReader(broken)))); !errors.Is(err, broken) {
		t.Errorf("a reader's error comes as %v", err)
	}
	if _, err := decoded(platform.NewStream(nothing{})); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("a reader that says nothing: %v", err)
	}
	if _, err := platform.NewStream(strings.NewReader(`[1]`)).Object(func(string) error { return nil }); err == nil {
		t.Error("an array is read as an object")
	}
	if err := platform.NewStream(strings.NewReader(`{}`)).Array(func() error { return nil }); err == nil {
		t.Error("an object is read as an array")
	}
}

type nothing struct{}

func (nothing) Read([]byte) (int, error) { return 0, nil }

// For null nothing is called. Values that are too large, and members with too large names, are skipped; the values after them
// are read.
func TestStreamReadsOver(t *testing.T) {
	s := platform.NewStream(strings.NewReader(`{"none":null,"` + strings.Repeat("n", 2000) + `":[1],"large":"` + strings.Repeat("x", 100) +
		`","number":7,"odd":"` + "\xff" + `","last":"here"}`))
	var seen []string
	long, err := s.Object(func(name string) error {
		switch name {
		case "none":
			seen = append(seen, name)
			return s.Array(func() error { return errors.New("null has elements") })
		case "large":
			var text string
			ok, err := s.Decode(&text, 50)
			seen = append(seen, fmt.Sprint(name, ok, text))
			return err
		}
		text, err := s.String(50)
		seen = append(seen, name+text)
		return err
	})
	if got := strings.Join(seen, " "); err != nil || long != 1 || got != "none largefalse number odd\ufffd lasthere" {
		t.Errorf("%q, %d long, %v", got, long, err)
	}
}

// repeated returns a text so many times, without a copy of it all.
func repeated(begin, text string, n int, end string) io.Reader {
	all := []io.Reader{strings.NewReader(begin)}
	part := strings.Repeat(text, 1000)
	for range n / 1000 {
		all = append(all, strings.NewReader(part))
	}
	return io.MultiReader(append(all, strings.NewReader(end))...)
}

// Skipped values are not held, however large or deep they are.
func TestStreamHoldsLittle(t *testing.T) {
	for name, from := range map[string]io.Reader{
		"long":  repeated(`["`, "abcdefghij", 10_000_000, `",1]`),
		"deep":  repeated("[", "[", 50_000_000, strings.Repeat("]", 50_000_000)+",1]"),
		"names": repeated(`[{"a":1`, `,"abcdefghij":1`, 5_000_000, `},1]`),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		s, n := platform.NewStream(from), 0
		err := s.Array(func() error {
			if n++; n == 1 {
				return s.Skip()
			}
			var one int
			_, err := s.Decode(&one, 8)
			if one != 1 {
				return fmt.Errorf("the last element is %d", one)
			}
			return err
		})
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; err != nil || n != 2 || took > 1<<20 {
			t.Errorf("%s: %d elements, %d KiB, %v", name, n, took>>10, err)
		}
	}
}

// FuzzStream: whatever the bytes are, a Stream ends, and what it reads without an error is what encoding/json reads of them.
func FuzzStream(f *testing.F) {
	for _, seed := range []string{`{"a":[1,{"b":"\u0063\\"}],"d":null}`, `[[[`, `"\"`, `[1,2`, `{"a":tru}`, "[\"\xff\"]", `{"a":1}x`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := decoded(platform.NewStream(iotest.HalfReader(strings.NewReader(text))))
		over := platform.NewStream(strings.NewReader(text)).Skip()
		if err != nil {
			return
		}
		if over != nil {
			t.Errorf("%q can be read, and not be read over: %v", text, over)
		}
		var want any
		d := json.NewDecoder(strings.NewReader(text))
		if err := d.Decode(&want); err != nil {
			t.Errorf("%q is read as %v, and encoding/json says %v", text, got, err)
		} else if !reflect.DeepEqual(got, want) && !strings.Contains(text, "null") {
			t.Errorf("%q is read as %v, want %v", text, got, want)
		}
	})
}
