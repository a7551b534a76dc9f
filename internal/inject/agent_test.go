package inject_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"fairway/internal/agent/command"
	"fairway/internal/agent/settings"
	"fairway/internal/agent/status"
	"fairway/internal/inject"
)

// container finds a container by its name, in either list of the pod.
func container(pod *corev1.Pod, name string) *corev1.Container {
	for _, c := range append(slices.Clone(pod.Spec.InitContainers), pod.Spec.Containers...) {
		if c.Name == name {
			return &c
		}
	}
	return nil
}

// variables returns a container's variables as a kubelet would set them; each that has a source is 10.0.0.1.
func variables(c *corev1.Container) map[string]string {
	out := map[string]string{}
	for _, v := range c.Env {
		if out[v.Name] = strings.ReplaceAll(v.Value, "$$", "$"); v.ValueFrom != nil {
			out[v.Name] = "10.0.0.1"
		}
	}
	return out
}

// TestAgentTakesIt: the agent knows every flag that the injected containers have, and reads every variable: of the proxy, of
// interception, of probes and of metrics.
func TestAgentTakesIt(t *testing.T) {
	intercepted := 0
	injected(t, func(t *testing.T, g injection, result inject.Result) {
		var pod corev1.Pod
		roundTrip(t, result.Pod, &pod)
		proxy := container(&pod, inject.ProxyContainer)
		vars := variables(proxy)
		c, rest, err := command.New(&bytes.Buffer{}, &bytes.Buffer{}).Find(proxy.Args)
		if err != nil || c.ParseFlags(rest) != nil || c.Args(c, c.Flags().Args()) != nil {
			t.Errorf("the agent does not take %q: %v", proxy.Args, err)
		}
		domain := strings.ReplaceAll(c.Flag("domain").Value.String(), "$(POD_NAMESPACE)", "shop")
		flags := settings.Flags{
			Type: c.Flags().Args()[0], Domain: domain, StatusPort: -1, ReadyPort: -1, PrometheusPort: -1, Concurrency: -1, BaseID: -1,
		}
		delete(vars, "ISTIO_BOOTSTRAP_OVERRIDE") // the file is not here
		o, err := settings.Resolve(flags, settings.Environment{Vars: vars, Hostname: "web", Addresses: []string{"10.0.0.1"}})
		if err != nil || len(o.Unknown) > 0 {
			t.Errorf("the agent does not take %v: %v %v", vars, err, o.Unknown)
		}
		if o.Bootstrap.Discovery.Port != 15012 {
			t.Errorf("the control plane is at %v", o.Bootstrap.Discovery)
		}
		if _, err := status.NewProbes(vars["ISTIO_KUBE_APP_PROBERS"], "10.0.0.1"); err != nil {
			t.Errorf("probes: %v", err)
		}
		if _, err := status.AppPage(vars["ISTIO_PROMETHEUS_ANNOTATIONS"], "localhost", 15020); err != nil {
			t.Errorf("metrics: %v", err)
		}
		if init := container(&pod, "istio-init"); init != nil {
			intercepted++
			var out bytes.Buffer
			agent := command.New(&out, &out)
			agent.SetArgs(append(slices.Clone(init.Args), "--dry-run"))
			if err := agent.ExecuteContext(t.Context()); err != nil || !strings.Contains(out.String(), "15006") {
				t.Errorf("%q: %v\n%s", init.Args, err, &out)
			}
		}
	})
	if intercepted == 0 {
		t.Error("nothing is intercepted in any golden")
	}
}
