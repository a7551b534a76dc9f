package inject_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"fairway/internal/inject"
	"fairway/internal/inject/edit"
	"fairway/test/rig"
)

func podOf(containers, ports, volumes int) map[string]any {
	var all, mounted []any
	for n := range containers {
		var open []any
		for p := range ports {
			open = append(open, map[string]any{"containerPort": int64(p%65535 + 1)})
		}
		all = append(all, map[string]any{"name": fmt.Sprint("c", n), "image": "i", "ports": open})
	}
	for n := range volumes {
		mounted = append(mounted, map[string]any{"name": fmt.Sprint("v", n), "emptyDir": map[string]any{}})
	}
	return map[string]any{"metadata": map[string]any{"name": "p"}, "spec": map[string]any{"containers": all, "volumes": mounted}}
}

// TestBounds: a pod past a bound is refused, one at it is injected.
func TestBounds(t *testing.T) {
	injector, err := inject.New(inject.Settings{Hub: "images.example/mesh"})
	if err != nil {
		t.Fatal(err)
	}
	annotated := func(name, value string) map[string]any {
		pod := podOf(1, 0, 0)
		pod["metadata"] = map[string]any{"annotations": map[string]any{name: value}}
		return pod
	}
	for what, one := range map[string]struct {
		pod  map[string]any
		want string // of the error; empty: none
	}{
		"containers at it":   {podOf(500, 0, 0), ""},
		"containers past it": {podOf(501, 0, 0), "501 containers of at most 500"},
		"many containers":    {podOf(10_000, 0, 0), "10000 containers of at most 500"},
		"ports at it":        {podOf(10, 1000, 0), ""},
		"ports past it":      {podOf(11, 1000, 0), "more than 10000 ports"},
		"volumes past it":    {podOf(1, 0, 2001), "2001 volumes of at most 2000"},
		"values":             {podOf(500, 1000, 0), "more than 250000 values"},
		"no containers":      {map[string]any{"spec": map[string]any{}}, ""},
		"nothing":            {nil, ""},
		"nameless": {
			map[string]any{"spec": map[string]any{"containers": []any{map[string]any{}}}}, "spec.containers[0].name",
		},
		"null container": {map[string]any{"spec": map[string]any{"containers": []any{nil}}}, "spec.containers[0].name"},
		"null volume":    {map[string]any{"spec": map[string]any{"volumes": []any{nil}}}, "spec.volumes[0].name"},
		"no UTF-8":       {map[string]any{"metadata": map[string]any{"name": "\xff"}}, "UTF-8"},
		"no text":        {map[string]any{"metadata": map[string]any{"labels": 5}}, "this is not a pod: cannot unmarshal number"},
		"a long list": {
			annotated("traffic.sidecar.istio.io/excludeInboundPorts", strings.Repeat("80,", 2000)), "2001 items of at most 1000",
		},
		"an alias bomb": {annotated("proxy.istio.io/config", bomb()), "proxy.istio.io/config: line"},
		"many variables": {
			annotated("proxy.istio.io/config", "proxyMetadata:\n"+lots(257)), "257 variables of at most 256",
		},
		"a control character": {annotated("sidecar.istio.io/proxyImage", "a\x00b"), "sidecar.istio.io/proxyImage"},
		"an expansion":        {annotated("sidecar.istio.io/logLevel", "$(POD_NAME)"), "without spaces and $"},
		"own containers as volumes": {
			annotated("sidecar.istio.io/userVolume", `[{"name":"a","emptyDir":5}]`), "annotations of the user's volumes",
		},
		"a forged record of everything": {
			annotated("sidecar.istio.io/status", `{"containers":["c0"],"volumes":["x"],"before":{"labels":{"a":"b"}}}`), "",
		},
		"forged overrides": {
			map[string]any{"metadata": map[string]any{"annotations": map[string]any{
				"sidecar.istio.io/status": `{}`, "proxy.istio.io/overrides": `{"containers":[5,{"name":7},{"name":"x","ports":"y"}]}`,
			}}}, "proxy.istio.io/overrides",
		},
	} {
		t.Run(what, func(t *testing.T) {
			got, err := injector.Inject(inject.Request{Pod: one.pod, Namespace: "shop"})
			switch {
			case one.want == "" && (err != nil || got.Pod == nil):
				t.Errorf("%v %v", got.Reason, err)
			case one.want != "" && (err == nil || !strings.Contains(err.Error(), one.want)):
				t.Errorf("%v; want %q", err, one.want)
			case err != nil && len(err.Error()) > 4<<10:
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
		})
	}
}

func bomb() string {
	var b strings.Builder
	b.WriteString("a0: &a0 {x: y}\n")
	for n := 1; n < 30; n++ {
		fmt.Fprintf(&b, "a%d: &a%d [%s]\n", n, n, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", n-1), 9), ","))
	}
	return b.String()
}

func lots(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "  V%d: x\n", i)
	}
	return b.String()
}

// TestPodIsNotChanged: Inject does not change the caller's pod.
func TestPodIsNotChanged(t *testing.T) {
	for _, g := range goldens(t) {
		if g.broken != nil {
			continue
		}
		before := map[string]any{}
		roundTrip(t, g.request.Pod, &before)
		_, _ = g.injector.Inject(g.request)
		after := map[string]any{}
		roundTrip(t, g.request.Pod, &after)
		if !reflect.DeepEqual(before, after) {
			t.Errorf("%s: the pod was changed", g.archive.Path)
		}
	}
}

// TestLargestPods: pods as large as an API server takes are injected, or refused, in a time that grows only with their size. An annotation
// says that templates changed their own containers, so all of these are merged at once.
func TestLargestPods(t *testing.T) {
	injector, err := inject.New(inject.Settings{Hub: "images.example/mesh"})
	if err != nil {
		t.Fatal(err)
	}
	forged := func(n int) map[string]any {
		pod := podOf(n, 0, 0)
		var own strings.Builder
		for i := range n {
			fmt.Fprintf(&own, `,{"name":"c%d","image":"i","env":[{"name":"a","value":"b"}]}`, i)
		}
		pod["metadata"] = map[string]any{"annotations": map[string]any{
			"sidecar.istio.io/status": `{}`, "proxy.istio.io/overrides": `{"containers":[` + own.String()[1:] + `]}`,
		}}
		return pod
	}
	many := func(kind string, n int) map[string]any {
		pod := podOf(1, 0, 0)
		var all []any
		for i := range n {
			all = append(all, map[string]any{"name": fmt.Sprint("s", i)})
		}
		spec := pod["spec"].(map[string]any)
		if kind == "imagePullSecrets" {
			spec[kind] = all
		} else {
			c := spec["containers"].([]any)[0].(map[string]any)
			c["name"], c[kind] = inject.ProxyContainer, all
		}
		return pod
	}
	for what, one := range map[string]struct {
		pod  map[string]any
		want string
	}{
		"overrides of all containers": {forged(500), ""},
		"pull secrets":                {many("imagePullSecrets", 2000), ""},
		"many pull secrets":           {many("imagePullSecrets", 100_000), "100000 items of at most 2000"},
		"variables":                   {many("env", 2000), ""},
		"many variables":              {many("env", 100_000), "100000 items of at most 2000"},
	} {
		t.Run(what, func(t *testing.T) {
			var err error
			took := rig.CPU(t, func() {
				var result inject.Result
				if result, err = injector.Inject(inject.Request{Pod: one.pod, Namespace: "shop"}); result.Inject {
					edit.Patch(one.pod, result.Pod)
				}
			})
			if took > 5*time.Second { // the race detector makes it ten times as long; work that grows with the square takes minutes
				t.Errorf("it took %s of a processor", took)
			}
			if one.want == "" && err != nil || one.want != "" && (err == nil || !strings.Contains(err.Error(), one.want)) {
				t.Errorf("%v, want %q", err, one.want)
			}
		})
	}
}

// FuzzInject: no pod and no annotation panics; a pod that was injected is injected alike again, and the patch gives the same pod.
func FuzzInject(f *testing.F) {
	for _, g := range goldens(f) {
		raw, err := json.Marshal(g.request.Pod)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw, "sidecar.istio.io/userVolume", `{"a": {"emptyDir": {}}}`)
		if g.broken != nil {
			continue
		}
		if result, err := g.injector.Inject(g.request); err == nil && result.Inject {
			if raw, err = json.Marshal(result.Pod); err != nil {
				f.Fatal(err)
			}
			f.Add(raw, "proxy.istio.io/overrides", `{"containers": [{"name": "web"}]}`)
		}
	}
	injector, err := inject.New(configured(`templates: {extra: '{metadata: {labels: {a: {{ index .ObjectMeta.Labels "app" | toJSON }}}}}'}
defaultTemplates: [sidecar, extra]`))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, raw []byte, name, value string) {
		var pod map[string]any
		if json.Unmarshal(raw, &pod) != nil || pod == nil {
			return
		}
		if meta, ok := pod["metadata"].(map[string]any); ok {
			if noted, ok := meta["annotations"].(map[string]any); ok {
				noted[name] = value
			} else if meta["annotations"] == nil {
				meta["annotations"] = map[string]any{name: value}
			}
		}
		first, err := injector.Inject(inject.Request{Pod: pod, Namespace: "shop"})
		if err != nil || !first.Inject {
			return
		}
		again, err := injector.Inject(inject.Request{Pod: first.Pod, Namespace: "shop"})
		if err != nil {
			t.Fatalf("what was injected is refused: %v", err)
		}
		if !reflect.DeepEqual(first.Pod, again.Pod) {
			one, _ := json.Marshal(first.Pod)
			two, _ := json.Marshal(again.Pod)
			t.Fatalf("again:\n%s\n%s", one, two)
		}
		want := map[string]any{}
		roundTrip(t, first.Pod, &want)
		if got := patched(t, pod, edit.Patch(pod, first.Pod)); !reflect.DeepEqual(got, want) {
			t.Fatalf("patched:\n%v\nwant\n%v", got, want)
		}
	})
}
