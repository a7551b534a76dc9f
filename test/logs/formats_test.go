package logs

import (
	"encoding/json"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	"fairway/internal/accesslog"
	"fairway/internal/envoy/listener"
)

// sample is a value of each operator that a line may have.
var sample = map[string]string{
	"%RESPONSE_CODE%": "503", "%RESPONSE_FLAGS%": "UH,URX", "%PROTOCOL%": "HTTP/2",
	"%BYTES_RECEIVED%": "1", "%BYTES_SENT%": "2", "%DURATION%": "3",
}

// TestOwnFormats: a line of a default format is read without the format as it is with it.
func TestOwnFormats(t *testing.T) {
	operator := regexp.MustCompile(`%[A-Z_]+(\([^)]*\))?%`)
	fill := func(text string) string {
		return operator.ReplaceAllStringFunc(text, func(op string) string {
			if v, known := sample[op]; known {
				return v
			}
			return strings.ToLower(regexp.MustCompile(`[^A-Z]+`).ReplaceAllString(op, "-"))
		})
	}
	object := listener.AccessLog{JSON: true}.LineFormat().GetJsonFormat()
	text, err := protojson.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]string{}
	for key, v := range object.GetFields() {
		values[key] = fill(v.GetStringValue())
	}
	line, err := json.Marshal(values)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range [][2]string{{listener.DefaultFormat, fill(listener.DefaultFormat)}, {string(text), string(line)}} {
		format, err := accesslog.NewFormat(c[0])
		if err != nil {
			t.Fatal(err)
		}
		with, err := accesslog.Parse(c[1], format)
		if err != nil {
			t.Fatal(err)
		}
		without, err := accesslog.Parse(c[1], nil)
		if err != nil {
			t.Fatal(err)
		}
		if with.Format != "given" || without.Format == "given" {
			t.Errorf("formats %q and %q", with.Format, without.Format)
		}
		with.Format, without.Format = "", ""
		if !reflect.DeepEqual(with, without) {
			t.Errorf("with the format %+v\nwithout it %+v", with, without)
		}
		for i := range reflect.TypeFor[accesslog.Entry]().NumField() {
			if name := reflect.TypeFor[accesslog.Entry]().Field(i).Name; name != "Format" && reflect.ValueOf(without).Field(i).IsZero() {
				t.Errorf("%s is not read of %s", name, c[1])
			}
		}
	}
}
