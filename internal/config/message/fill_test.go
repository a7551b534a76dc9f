package message_test

import (
	"math"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/config/document"
	"fairway/internal/config/message"
	"fairway/internal/config/report"
)

// TestFill: what the JSON form of messages takes, and what it does not.
func TestFill(t *testing.T) {
	for _, c := range []struct {
		into proto.Message
		v    any // of the field value, or the whole if it is a map
		want proto.Message
		bad  string
	}{
		{&networking.Percent{}, 1.5, &networking.Percent{Value: 1.5}, ""},
		{&networking.Percent{}, int64(2), &networking.Percent{Value: 2}, ""},
		{&networking.Percent{}, "1.5", &networking.Percent{Value: 1.5}, ""},
		{&networking.Percent{}, "Infinity", &networking.Percent{Value: math.Inf(1)}, ""},
		{&networking.Percent{}, "-Infinity", &networking.Percent{Value: math.Inf(-1)}, ""},
		{&networking.Percent{}, "0x10", nil, "is not a number"},
		{&networking.Percent{}, "inf", nil, "is not a number"},
		{&networking.Percent{}, true, nil, "is not a number"},
		{&networking.PortSelector{}, map[string]any{"number": int64(math.MaxUint32)}, &networking.PortSelector{Number: math.MaxUint32},
			""},
		{&networking.PortSelector{}, map[string]any{"number": int64(math.MaxUint32 + 1)}, nil, "whole number in range"},
		{&networking.PortSelector{}, map[string]any{"number": int64(-1)}, nil, "whole number in range"},
		{&networking.PortSelector{}, map[string]any{"number": "80"}, &networking.PortSelector{Number: 80}, ""},
		{&networking.PortSelector{}, map[string]any{"number": "080"}, nil, "whole number in range"},
		{&networking.PortSelector{}, map[string]any{"number": "+80"}, nil, "whole number in range"},
		{&networking.PortSelector{}, map[string]any{"number": 80.0}, &networking.PortSelector{Number: 80}, ""},
		{&networking.PortSelector{}, map[string]any{"number": 80.5}, nil, "whole number in range"},
		{&networking.PortSelector{}, map[string]any{"number": []any{}}, nil, "whole number in range"},
		{&networking.RouteDestination{}, map[string]any{"weight": int64(math.MaxInt32)},
			&networking.RouteDestination{Weight: math.MaxInt32}, ""},
		{&networking.RouteDestination{}, map[string]any{"weight": int64(math.MinInt32)},
			&networking.RouteDestination{Weight: math.MinInt32}, ""},
		{&networking.RouteDestination{}, map[string]any{"weight": int64(math.MaxInt32 + 1)}, nil, "whole number in range"},
		{&networking.RouteDestination{}, map[string]any{"weight": int64(math.MinInt32 - 1)}, nil, "whole number in range"},
		{&networking.HTTPBody{}, map[string]any{"bytes": "aGk="},
			&networking.HTTPBody{Specifier: &networking.HTTPBody_Bytes{Bytes: []byte("hi")}}, ""},
		{&networking.HTTPBody{}, map[string]any{"bytes": "aGk"},
			&networking.HTTPBody{Specifier: &networking.HTTPBody_Bytes{Bytes: []byte("hi")}}, ""},
		{&networking.HTTPBody{}, map[string]any{"bytes": "-_8="},
			&networking.HTTPBody{Specifier: &networking.HTTPBody_Bytes{Bytes: []byte{251, 255}}}, ""},
		{&networking.HTTPBody{}, map[string]any{"bytes": "+/8="},
			&networking.HTTPBody{Specifier: &networking.HTTPBody_Bytes{Bytes: []byte{251, 255}}}, ""},
		{&networking.HTTPBody{}, map[string]any{"bytes": "%"}, nil, "text in base64"},
		{&networking.HTTPBody{}, map[string]any{"bytes": int64(1)}, nil, "text in base64"},
		{&networking.HTTPRoute{}, map[string]any{"timeout": "1h1.5s"},
			&networking.HTTPRoute{Timeout: &durationpb.Duration{Seconds: 3601, Nanos: 5e8}}, ""},
		{&networking.HTTPRoute{}, map[string]any{"timeout": "5"}, nil, "is not a duration"},
		{&networking.HTTPRoute{}, map[string]any{"timeout": int64(5)}, nil, "a duration in quotes"},
		{&networking.HTTPRoute{}, map[string]any{"name": int64(5)}, nil, "is not a string"},
		{&networking.HTTPRoute{}, map[string]any{"match": "x"}, nil, "is not a list"},
		{&networking.HTTPRoute{}, map[string]any{"redirect": "x"}, nil, "is not a set of fields"},
		{&networking.HTTPRoute{}, map[string]any{"titel": "x"}, nil, "unknown field"},
		{&networking.HTTPMatchRequest{}, map[string]any{"ignoreUriCase": "x"}, nil, "is not true or false"},
		{&networking.HTTPMatchRequest{}, map[string]any{"sourceLabels": "x"}, nil, "is not a set of fields"},
		{&networking.HTTPMatchRequest{}, map[string]any{"sourceLabels": map[string]any{"a": "b", "c": int64(1)}}, nil, "is not a string"},
		{&networking.ServiceEntry{}, map[string]any{"resolution": "DNS"},
			&networking.ServiceEntry{Resolution: networking.ServiceEntry_DNS}, ""},
		{&networking.ServiceEntry{}, map[string]any{"resolution": int64(2)},
			&networking.ServiceEntry{Resolution: networking.ServiceEntry_DNS}, ""},
		{&networking.ServiceEntry{}, map[string]any{"resolution": int64(99)}, nil, "is not one of the values"},
		{&networking.ServiceEntry{}, map[string]any{"resolution": int64(1<<32 + 2)}, nil, "is not one of the values"},
		{&networking.ServiceEntry{}, map[string]any{"resolution": "Dns"}, nil, "is not one of the values"},
		{&networking.HTTPRewrite{}, map[string]any{"uri": "/a"}, &networking.HTTPRewrite{Uri: "/a"}, ""},
		{&meshconfig.ProxyConfig{}, map[string]any{"concurrency": nil}, &meshconfig.ProxyConfig{}, ""},
		{&corev3.RuntimeUInt32{}, map[string]any{"defaultValue": int64(0)}, &corev3.RuntimeUInt32{}, ""},
	} {
		m := proto.Clone(c.into)
		tree, is := c.v.(map[string]any)
		if !is {
			tree = map[string]any{"value": c.v}
		}
		r := report.New(document.Document{})
		message.Fill(m.ProtoReflect(), tree, report.Path{}, &r)
		var said []string
		for _, p := range r.Sorted() {
			said = append(said, p.Message)
		}
		all := strings.Join(said, "; ")
		switch {
		case c.bad == "" && (len(said) > 0 || !proto.Equal(m, c.want)):
			t.Errorf("%v: %v, %s", c.v, m, all)
		case c.bad != "" && !strings.Contains(all, c.bad):
			t.Errorf("%v: %v, %q, want %q", c.v, m, all, c.bad)
		}
	}
}

// TestShow: a value in a message is short.
func TestShow(t *testing.T) {
	for n, want := range map[int]string{58: strings.Repeat("x", 58), 59: strings.Repeat("x", 49) + "…"} {
		if got := strings.ReplaceAll(report.Show(strings.Repeat("x", n)), `"`, ""); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
	if got := report.Show(math.NaN()); got != "NaN" {
		t.Errorf("not a number is shown as %q", got)
	}
}
