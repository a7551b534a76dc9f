package envoy_test

import (
	"errors"
	"slices"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"fairway/internal/envoy"
)

// TestSame: each thing that a proxy gets or waits for makes a message another one.
func TestSame(t *testing.T) {
	full := func() *envoy.Encoded {
		return &envoy.Encoded{
			Version: 1, Needs: []string{"a"}, Secrets: []string{"b"}, Load: "c", Amended: []string{"d"}, Wants: envoy.WantsNames,
			Err: errors.New("e"), Hides: true,
			WithoutVHDS: &envoy.WithoutVHDS{Body: []byte("f"), Prefix: "g"},
		}
	}
	if !envoy.Same(full(), full()) || !envoy.Same(&envoy.Encoded{}, &envoy.Encoded{}) || !envoy.Same(nil, nil) {
		t.Error("equal ones are not the same")
	}
	if envoy.Same(full(), nil) || envoy.Same(nil, full()) {
		t.Error("one is nothing")
	}
	for name, change := range map[string]func(e *envoy.Encoded){
		"version":            func(e *envoy.Encoded) { e.Version = 2 },
		"needs":              func(e *envoy.Encoded) { e.Needs = nil },
		"secrets":            func(e *envoy.Encoded) { e.Secrets = []string{"b", "c"} },
		"load":               func(e *envoy.Encoded) { e.Load = "" },
		"amended":            func(e *envoy.Encoded) { e.Amended = []string{"e"} },
		"wants":              func(e *envoy.Encoded) { e.Wants = 0 },
		"error":              func(e *envoy.Encoded) { e.Err = nil },
		"error's text":       func(e *envoy.Encoded) { e.Err = errors.New("x") },
		"hides":              func(e *envoy.Encoded) { e.Hides = false },
		"no variant":         func(e *envoy.Encoded) { e.WithoutVHDS = nil },
		"a variant's bytes":  func(e *envoy.Encoded) { e.WithoutVHDS.Body = []byte("x") },
		"a variant's prefix": func(e *envoy.Encoded) { e.WithoutVHDS.Prefix = "x" },
	} {
		one, other := full(), full()
		if change(other); envoy.Same(one, other) || envoy.Same(other, one) {
			t.Errorf("%s makes no difference", name)
		}
	}
}

// TestAs: what replaces a message's content keeps all that is known of it; what Envoy would refuse keeps nothing.
func TestAs(t *testing.T) {
	e := &envoy.Encoded{
		Version: 1, Body: []byte("x"), Needs: []string{"a"}, Secrets: []string{"b"}, Load: "c", Amended: []string{"d"},
		Wants: envoy.WantsNames, WithoutVHDS: &envoy.WithoutVHDS{Prefix: "g/", Body: []byte("y")},
	}
	good, bad := &clusterv3.Cluster{Name: "c"}, &clusterv3.Cluster{Name: "c", ConnectTimeout: &durationpb.Duration{Seconds: -1}}
	want := *envoy.Encode(good)
	want.Needs, want.Secrets, want.Load, want.Amended, want.Wants, want.WithoutVHDS = e.Needs, e.Secrets, e.Load, e.Amended,
		e.Wants, e.WithoutVHDS
	if got := e.As(good); !envoy.Same(got, &want) || string(got.Body) != string(want.Body) {
		t.Errorf("%+v, want %+v", got, &want)
	}
	if got := e.As(bad); got.Err == nil || got.Needs != nil || got.WithoutVHDS != nil || got.Wants != 0 {
		t.Errorf("a refused one is %+v", got)
	}
	routes := &routev3.RouteConfiguration{Name: "80"}
	body, err := proto.Marshal(routes)
	if err != nil {
		t.Fatal(err)
	}
	if got := e.WithoutVHDS.As(routes); got == nil || got.Prefix != "g/" || !slices.Equal(got.Body, body) {
		t.Errorf("the variant is %+v", got)
	}
	if got := e.WithoutVHDS.As(bad); got != nil {
		t.Errorf("the variant is %+v, and would be refused", got)
	}
}

// TestEncodedString: logs and debug pages identify a message, and do not show a secret.
func TestEncodedString(t *testing.T) {
	why := errors.New("why")
	for want, e := range map[string]*envoy.Encoded{
		"withheld: why":             {Err: why, Hides: true},
		"refused: why":              {Err: why},
		"00000000000000ff, 3 bytes": {Version: 255, Body: []byte("key")},
	} {
		if got := e.String(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if _, err := envoy.Marshal(&clusterv3.Cluster{Name: "\xff"}); err == nil {
		t.Error("a name that is not UTF-8 is encoded")
	}
	if got := envoy.Any(&clusterv3.Cluster{Name: "\xff"}); envoy.Encode(&clusterv3.Cluster{Name: "c",
		TransportSocket: socket(got)}).Err == nil {
		t.Error("a packed name that is not UTF-8 is encoded")
	}
	bad := envoy.Sealed([]byte("x"), why)
	if envoy.Sealed(nil, nil).Body != nil || bad.Body != nil || !errors.Is(bad.Err, why) {
		t.Error("nothing, or an error, has a body")
	}
}
