package patches

import (
	"context"
	"encoding/json"
	"log/slog"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"fairway/internal/agent/relay"
)

func patchBody(t *testing.T, order, value string) []byte {
	t.Helper()
	v := &structpb.Struct{}
	if err := v.UnmarshalJSON([]byte(`{"order": "` + order + `", "value": ` + value + `}`)); err != nil {
		t.Fatal(err)
	}
	body, err := proto.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// TestPatches: patches come over the bootstrap in their order, whatever order they arrive in, and the machine's own override comes last.
func TestPatches(t *testing.T) {
	p := New(t.TempDir(), "", slog.New(slog.DiscardHandler))
	over := func(override, want string) {
		t.Helper()
		got, err := p.Override(override)
		if err != nil {
			t.Fatal(err)
		}
		var a, b any
		if json.Unmarshal([]byte(got), &a) != nil || json.Unmarshal([]byte(want), &b) != nil {
			t.Fatalf("%s or %s is not JSON", got, want)
		}
		if d := cmp.Diff(b, a); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
	}
	if got, err := p.Override("admin: {}"); got != "admin: {}" || err != nil {
		t.Errorf("without patches: %q, %v", got, err)
	}
	err := p.take(relay.Update{Changed: []relay.Resource{
		{Name: "shop/b/0", Body: patchBody(t, "2", `{"stats_flush_interval": "2s", "static_resources": {"clusters": [{"name": "b"}]}}`)},
		{
			Name: "root/a/0",
			Body: patchBody(t, "1",
				`{"stats_flush_interval": "1s", "stats_config": {"x": 1}, "static_resources": {"clusters": [{"name": "a"}]}}`),
		},
	}})
	if err != nil {
		t.Fatal(err)
	}
	over(
		"stats_config: {y: 2}",
		`{"stats_flush_interval": "2s", "stats_config": {"x": 1, "y": 2}, "static_resources": {"clusters": [{"name": "a"}, {"name": "b"}]}}`,
	)
	if err := p.take(relay.Update{Removed: []string{"shop/b/0", "never/was/0"}}); err != nil {
		t.Fatal(err)
	}
	over("", `{"stats_flush_interval": "1s", "stats_config": {"x": 1}, "static_resources": {"clusters": [{"name": "a"}]}}`)
	for _, bad := range [][]byte{{0xff}, patchBody(t, "3", `"text"`)} {
		if err := p.take(relay.Update{Changed: []relay.Resource{{Name: "x", Body: bad}}, Removed: []string{"root/a/0"}}); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
	if d := cmp.Diff([]string{"root/a/0"}, p.Merged()); d != "" {
		t.Errorf("a refused update took something: %s", d)
	}
	if _, err := p.Override("{"); err == nil {
		t.Error("an override that is not YAML passes")
	}
}

// TestPatchesRestart: Envoy starts when it is known what its bootstrap is patched with, without a restart for that;
// each later change is one.
func TestPatchesRestart(t *testing.T) {
	p := New(t.TempDir(), "", slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	up, restarts, over := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		over <- p.Run(ctx, func() { close(up) }, Actions{Restart: func(context.Context) { restarts <- struct{}{} }})
	}()
	say := func(u relay.Update) {
		if err := p.take(u); err != nil {
			t.Fatal(err)
		}
	}
	patch := []relay.Resource{{Name: "a", Body: patchBody(t, "1", `{"stats_flush_interval": "1s"}`)}}
	say(relay.Update{Changed: patch, Kept: true})
	<-up
	say(relay.Update{}) // nothing new
	select {
	case <-restarts:
		t.Error("a restart for what the first Envoy was made from")
	case <-p.changed:
		t.Error("nothing new is told as if it were")
	default:
	}
	for _, u := range []relay.Update{{Removed: []string{"a"}}, {Changed: patch}} {
		say(u)
		<-restarts
	}
	cancel()
	if err := <-over; err != nil {
		t.Error(err)
	}
}
