package rig

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// Workload is a pilot-agent with an Envoy beside a workload. Path, Dir, Name, IP, Discovery and Envoy must be set.
type Workload struct {
	Command // Args and Env are added to those that follow from the rest

	Role      string            // sidecar by default, or router
	Namespace string            // default by default
	Account   string            // service account; empty: the agent says none
	IP        string            // of the workload
	Labels    map[string]string // nil: app, with the name
	Mode      string            // of interception; NONE by default
	Discovery string            // address of the control plane
	Envoy     string            // path
	Threads   int               // of Envoy; 1 by default
	Drain     string            // how long connections stay at least when the agent is stopped; 0s by default
	// Proof are the files that prove the identity; zero: there are none.
	Proof Proof
}

// Proof is a token of a service account, and the roots by which the control plane is known.
type Proof struct{ Token, Roots []byte }

// Launch writes the files that a kubelet would, and starts the agent. See the function Launch.
func (w Workload) Launch(t testing.TB) *Process {
	t.Helper()
	labels := w.Labels
	if labels == nil {
		labels = map[string]string{"app": w.Name}
	}
	var text strings.Builder
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		fmt.Fprintf(&text, "%s=%q\n", k, labels[k])
	}
	Write(t, w.Dir, "etc/istio/pod/labels", []byte(text.String()))
	if w.Proof.Token != nil {
		Write(t, w.Dir, "var/run/secrets/tokens/istio-token", w.Proof.Token)
		Write(t, w.Dir, "var/run/secrets/istio/root-cert.pem", w.Proof.Roots)
	}
	if w.User != 0 {
		Give(t, w.User, w.Dir)
	}
	c := w.Command
	c.Args = append([]string{
		"proxy", cmp.Or(w.Role, "sidecar"), "--discoveryAddress", w.Discovery, "--envoy", w.Envoy,
		"--concurrency", fmt.Sprint(cmp.Or(w.Threads, 1)),
	}, w.Args...)
	c.Env = []string{
		"POD_NAME=" + w.Name, "POD_NAMESPACE=" + cmp.Or(w.Namespace, "default"), "INSTANCE_IP=" + w.IP,
		"ISTIO_META_INTERCEPTION_MODE=" + cmp.Or(w.Mode, "NONE"), "MINIMUM_DRAIN_DURATION=" + cmp.Or(w.Drain, "0s"),
	}
	if w.Account != "" {
		c.Env = append(c.Env, "SERVICE_ACCOUNT="+w.Account)
	}
	c.Env = append(c.Env, w.Env...)
	return Launch(t, c)
}
