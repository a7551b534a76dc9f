package inject_test

import (
	"fmt"
	"strings"
	"testing"

	"fairway/internal/inject"
)

// TestDecide: namespace and pod decide whether the pod is injected, and the reason names the deciding part.
func TestDecide(t *testing.T) {
	type words = map[string]string
	const enabled, own, rev = "istio-injection", "sidecar.istio.io/inject", "istio.io/rev"
	for n, one := range []struct {
		settings  inject.Settings
		namespace words // nil: unknown
		name      string
		labels    words
		noted     words // annotations
		spec      string
		want      bool
		reason    string
	}{
		{namespace: words{}, want: false, reason: "neither namespace nor pod asks"},
		{namespace: words{enabled: "enabled"}, want: true, reason: "istio-injection=enabled"},
		{namespace: words{enabled: "disabled"}, want: false, reason: "istio-injection=disabled"},
		{namespace: words{enabled: "disabled"}, labels: words{own: "true"}, want: false, reason: "istio-injection=disabled"},
		{namespace: words{enabled: "on"}, labels: words{own: "true"}, want: false, reason: `"on" is neither enabled nor disabled`},
		{
			namespace: words{enabled: "enabled"}, labels: words{own: "false"},
			want: false, reason: `the pod's label sidecar.istio.io/inject="false"`,
		},
		{
			namespace: words{enabled: "enabled"}, noted: words{own: "false"},
			want: false, reason: "the pod's annotation sidecar.istio.io/inject",
		},
		{
			namespace: words{enabled: "enabled"}, labels: words{own: "true"}, noted: words{own: "false"},
			want: true, reason: "the pod's label",
		},
		{namespace: words{enabled: "enabled"}, labels: words{own: "ture"}, want: false, reason: `"ture" is neither true nor false`},
		{namespace: words{}, labels: words{own: "true"}, want: true, reason: "the pod's label"},
		{namespace: words{}, noted: words{own: "yes"}, want: true, reason: "the pod's annotation"},
		{namespace: words{rev: "default"}, want: true, reason: `istio.io/rev="default"`},
		{namespace: words{rev: "next"}, want: false, reason: `asks revision "next" for it, and this is "default"`},
		{
			namespace: words{rev: "next"}, settings: inject.Settings{Revision: "next"},
			want: true, reason: "the namespace's label istio.io/rev",
		},
		{namespace: words{rev: "prod"}, settings: inject.Settings{Revision: "next", Tags: []string{"prod"}}, want: true, reason: `"prod"`},
		{namespace: words{rev: "next"}, labels: words{rev: "default"}, want: false, reason: "the namespace's label istio.io/rev"},
		{
			namespace: words{}, labels: words{rev: "next"}, settings: inject.Settings{Revision: "next"},
			want: true, reason: "the pod's label istio.io/rev",
		},
		{namespace: words{}, labels: words{rev: "next"}, want: false, reason: `the pod's label istio.io/rev="next"`},
		{namespace: words{enabled: "enabled"}, settings: inject.Settings{Revision: "next"}, want: false, reason: `asks revision "default"`},
		{namespace: words{enabled: "enabled", rev: "next"}, want: true, reason: "istio-injection=enabled"},
		{
			namespace: words{}, labels: words{own: "true"}, settings: inject.Settings{Revision: "next"},
			want: false, reason: `revision "default"`,
		},
		{
			namespace: words{}, settings: values(`{sidecarInjectorWebhook: {enableNamespacesByDefault: true}}`),
			want: true, reason: "enableNamespacesByDefault",
		},
		{want: true, reason: "the caller has chosen"},
		{labels: words{own: "false"}, want: false, reason: "refuses"},
		{labels: words{own: "true"}, spec: "hostNetwork: true", want: false, reason: "spec.hostNetwork"},
		{labels: words{own: "true"}, spec: "os: {name: windows}", want: false, reason: "Windows"},
		{labels: words{own: "true"}, name: "kube-system", want: false, reason: "kube-system is the cluster's own"},
		{namespace: words{enabled: "enabled"}, name: "istio-system", want: false, reason: "the control plane's own"},
		{namespace: words{}, labels: words{own: "true"}, name: "istio-system", want: true, reason: "the pod's label"},
		{
			settings: configured("neverInjectSelector: [{matchLabels: {a: b}}]"), labels: words{"a": "b"},
			want: false, reason: `neverInjectSelector "a=b"`,
		},
		{
			settings: configured("neverInjectSelector: [{matchLabels: {a: b}}]"), labels: words{"a": "b", own: "true"},
			want: true, reason: "the pod's label",
		},
		{settings: configured("neverInjectSelector: [{}]"), want: true, reason: "the caller has chosen"},
		{settings: configured("policy: disabled"), want: false, reason: "policy is disabled"},
		{settings: configured("policy: disabled"), labels: words{own: "true"}, want: true, reason: "the pod's label"},
		{
			settings: configured("policy: disabled\nalwaysInjectSelector: [{matchExpressions: [{key: a, operator: Exists}]}]"),
			labels:   words{"a": "b"}, want: true, reason: `alwaysInjectSelector "a"`,
		},
	} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			one.settings.Hub = "images.example/mesh"
			injector, err := inject.New(one.settings)
			if err != nil {
				t.Fatal(err)
			}
			spec := map[string]any{}
			read(t, []byte("containers: [{name: web, image: web}]\n"+one.spec), &spec)
			pod := map[string]any{
				"metadata": map[string]any{"labels": loosely(one.labels), "annotations": loosely(one.noted)}, "spec": spec,
			}
			name := "shop"
			if one.name != "" {
				name = one.name
			}
			got, err := injector.Inject(inject.Request{Pod: pod, Namespace: name, NamespaceLabels: one.namespace})
			if err != nil || got.Inject != one.want || !strings.Contains(got.Reason, one.reason) || (got.Pod != nil) != one.want {
				t.Errorf("%t %q %v; want %t for %q", got.Inject, got.Reason, err, one.want, one.reason)
			}
		})
	}
}

func loosely(m map[string]string) map[string]any {
	out := map[string]any{}
	for k, v := range m {
		out[k] = v
	}
	return out
}

func values(text string) inject.Settings {
	return inject.Settings{Values: inject.Text{Name: "values", Text: []byte(text)}}
}

func configured(text string) inject.Settings {
	return inject.Settings{Config: inject.Text{Name: "config", Text: []byte(text)}}
}
