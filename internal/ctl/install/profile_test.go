package install

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"fairway/internal/ctl/chart"
)

const hub = "global: {hub: images.example/mesh}\n"

func parsed(t *testing.T, text string) Values {
	t.Helper()
	values, err := chart.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return values
}

// TestProfiles: each profile renders; values beside it have precedence; the name itself is no value of the chart.
func TestProfiles(t *testing.T) {
	for name, want := range map[string][]string{
		"minimal": {"kind: HorizontalPodAutoscaler\n"},
		"default": {"kind: HorizontalPodAutoscaler\n", "name: istio-ingressgateway\n"},
		"demo":    {"replicas: 1\n", "name: istio-ingressgateway\n", "accessLogFile: /dev/stdout\n", "memory: 40Mi"},
	} {
		out, err := Manifests("istio-system", "", parsed(t, hub+"profile: "+name))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, part := range want {
			if !strings.Contains(out, part) {
				t.Errorf("%s renders no %q", name, part)
			}
		}
		if has := strings.Contains(out, "PodDisruptionBudget"); has == (name == "demo") {
			t.Errorf("%s: a PodDisruptionBudget is %v", name, has)
		}
		if has := strings.Contains(out, "ingressgateway"); has == (name == "minimal") {
			t.Errorf("%s: a gateway is %v", name, has)
		}
	}
	got, err := withProfile(parsed(t,
		"{profile: demo, pilot: {replicaCount: 3, resources: {requests: {cpu: 1}}}, gateway: {enabled: false}}"))
	if err != nil {
		t.Fatal(err)
	}
	want := parsed(t, "{pilot: {replicaCount: 3, autoscaleEnabled: false, podDisruptionBudget: null, "+
		"resources: {requests: {cpu: 1, memory: 100Mi}}}, meshConfig: {accessLogFile: /dev/stdout}, "+
		"global: {proxy: {resources: {requests: {cpu: 10m, memory: 40Mi}}}}, gateway: {enabled: false, podDisruptionBudget: null, "+
		"autoscaling: {enabled: false}, resources: {requests: {cpu: 10m, memory: 40Mi}}}}")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestNoProfile: an error names the profiles, and what may have been meant.
func TestNoProfile(t *testing.T) {
	for value, want := range map[string]string{
		"demoo": `profile: there is no "demoo"; there are default, demo, minimal; did you mean demo?`,
		"empty": `profile: there is no "empty"; there are default, demo, minimal`, "[demo]": `there is no "[demo]"`, "../x": `there is no "../x"`,
	} {
		if _, err := Manifests("istio-system", "", parsed(t, hub+"profile: "+value)); err == nil || !strings.HasPrefix(err.Error(), want) &&
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v; want %q", value, err, want)
		}
	}
}

// TestNoHub: without a hub, or whole references of both images, nothing is rendered, so nothing is installed.
func TestNoHub(t *testing.T) {
	for _, text := range []string{
		"{}", "{global: {hub: ''}}", "{global: {hub: null}}", "{pilot: {image: a/b:1}}", "{global: {proxy: {image: a/b:1}}}",
	} {
		_, err := Manifests("istio-system", "", parsed(t, text))
		if err == nil || !strings.Contains(err.Error(), "global.hub is empty") || !strings.Contains(err.Error(), "registry.example/mesh") {
			t.Errorf("%s: error %v", text, err)
		}
	}
}
