package config_test

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/config"
)

// TestMade: problems name the field that the user wrote: of the nearest field that is listed.
func TestMade(t *testing.T) {
	m := &config.Made{Fields: []config.MadeOf{
		{Field: "spec.http", Of: "spec.rules"},
		{Field: "spec.http[1]", Of: "ns/other", Foreign: true},
		{Field: "spec.http[2]", Of: "spec.rules[0]", Moved: true},
		{Field: "spec", Of: "all"},
	}}
	for field, want := range map[string]struct {
		origin  string
		foreign bool
	}{
		"spec.http": {"spec.rules", false}, "spec.http[0].route": {"spec.rules", false}, "spec.http[1]": {"ns/other", true},
		"spec.http[1].route": {"ns/other", true}, "spec.http[2].match[3].uri": {"spec.rules[0].match[3].uri", false},
		"spec.http[2]": {"spec.rules[0]", false}, "spec.http[12]": {"spec.rules", false}, "spec.https": {"all", false},
		"spec":          {"all", false},
		"metadata.name": {"metadata.name", false}, "": {"", false},
	} {
		if got := m.Origin(field); got != want.origin || m.Foreign(field) != want.foreign {
			t.Errorf("%s: %s, foreign %v", field, got, m.Foreign(field))
		}
	}
	whole := &config.Made{Fields: []config.MadeOf{{Field: "", Of: "spec.x", Foreign: true}}}
	if whole.Origin("anything") != "spec.x" || !whole.Foreign("anything") {
		t.Error("a whole object is not made of another")
	}
	var none *config.Made
	if none.Origin("a") != "a" || none.Foreign("a") || none.String() != "" || m.String() == "" {
		t.Error("an object that is not made is made of another")
	}
}

// TestJSON: an object that is written for an API server is read again as it was.
func TestJSON(t *testing.T) {
	const text = `{apiVersion: networking.istio.io/v1beta1, kind: Sidecar, metadata: {name: a, namespace: b, labels: {c: d},
	annotations: {e: f},
		creationTimestamp: "2026-01-02T03:04:05Z", uid: u, resourceVersion: "7", generation: 8}, 
		spec: {workloadSelector: {labels: {x: z}}, egress: [{hosts: ["./*"]}]}}`
	d, err := config.NewDecoder(config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	o := decoded(t, text)
	o.Stored = config.Stored{UID: "u", ResourceVersion: "7", Generation: 8}
	body, err := o.JSON()
	if err != nil || !strings.Contains(string(body), `"uid":"u","resourceVersion":"7","generation":8`) {
		t.Fatalf("%s, %v", body, err)
	}
	again, problems := d.DecodeJSON("a.json", body)
	if len(problems) > 0 || again == nil {
		t.Fatal(problems)
	}
	if again.Key != o.Key || !proto.Equal(again.Spec, o.Spec) || again.Labels != o.Labels || again.Annotations["e"] != "f" ||
		again.Created != o.Created || again.Created != time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).Unix() {
		t.Errorf("%s is read as %+v, want %+v", body, again, o)
	}
	api := config.APIsByKind()[config.Sidecar]
	written, err := api.JSON(o.Key, map[string]string{"c": "d"}, map[string]string{"e": "f"}, "2026-01-02T03:04:05Z", o.Spec)
	if err != nil {
		t.Fatal(err)
	}
	if third, problems := d.DecodeJSON("a.json", written); third == nil || len(problems) > 0 || third.Hash != o.Hash {
		t.Errorf("%s: %v", written, problems)
	}

	if got := api.Types(); len(got) != 3 || got[0] != "networking.istio.io/v1/Sidecar" || got[2] != "networking.istio.io/v1alpha3/Sidecar" {
		t.Errorf("xDS calls it %q", got)
	}
	if _, err := api.JSON(o.Key, nil, nil, "", &networking.Sidecar{OutboundTrafficPolicy: &networking.OutboundTrafficPolicy{
		EgressProxy: &networking.Destination{Host: "\xff"},
	}}); err == nil {
		t.Error("a text that is not UTF-8 is written")
	}
	secret, err := (&config.Object{Key: config.Key{Kind: "Secret", Name: "a"}}).JSON()
	if secret != nil || err != nil {
		t.Errorf("a Secret is %s, %v", secret, err)
	}
}
