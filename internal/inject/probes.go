package inject

import (
	"encoding/json"
	"fairway/internal/inject/edit"
	"fairway/internal/inject/form"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// The kubelet's probes come from outside of the mesh: to a port that requires mutual TLS they would fail, and a connection to an
// intercepted port always succeeds. So they are pointed at the agent, which sends the probe to the application itself.

// probersVariable is the variable from which the agent reads the original probes: a JSON object by path.
const probersVariable = "ISTIO_KUBE_APP_PROBERS"

// prober is a probe that the kubelet would have sent; internal/agent/status reads it.
type prober map[string]any

// rewriting points the probes of one pod at the agent.
type rewriting struct {
	port     int
	probers  map[string]prober
	warnings []string
}

// pod rewrites the probes of all containers except the proxy: ordinary ones, and native sidecars among the init containers.
func (r *rewriting) pod(spec map[string]any) {
	for _, kind := range edit.ContainerLists() {
		for _, item := range edit.List(spec, kind) {
			c, ok := item.(map[string]any)
			if !ok || edit.Text(c, "name") == ProxyContainer || kind == "initContainers" && !restarts(c) {
				continue
			}
			r.container(c)
		}
	}
}

func restarts(c map[string]any) bool {
	return edit.Text(c, "restartPolicy") == string(corev1.ContainerRestartPolicyAlways)
}

func (r *rewriting) container(c map[string]any) {
	for _, kind := range slices.Sorted(maps.Keys(edit.ProbeKinds())) {
		r.handler(c, edit.Fields(c, kind), kind, "/app-health/"+edit.Text(c, "name")+"/"+edit.ProbeKinds()[kind])
	}
	for _, kind := range slices.Sorted(maps.Keys(edit.HookKinds())) {
		hook := edit.Fields(c, "lifecycle", kind)
		if edit.Fields(hook, "httpGet") != nil { // kubelets do not run a hook's tcpSocket
			r.handler(c, hook, "lifecycle."+kind, "/app-lifecycle/"+edit.Text(c, "name")+"/"+edit.HookKinds()[kind])
		}
	}
}

// handler rewrites one probe. A probe that runs a program stays, because it runs in the container.
func (r *rewriting) handler(c, probe map[string]any, kind, path string) {
	for _, how := range edit.Handlers() {
		asked := edit.Fields(probe, how)
		if asked == nil {
			continue
		}
		port, ok := resolvePort(c, asked["port"])
		if !ok {
			r.warnings = append(r.warnings, fmt.Sprintf(
				"container %s: %s.%s.port: %s is not a port of the container, so the probe stays as it is: name one of its ports",
				form.Quoted(edit.Text(c, "name")), kind, how, form.Quoted(fmt.Sprint(asked["port"]))))
			return
		}
		own := edit.Clone(asked)
		own["port"] = port
		p := prober{how: own}
		if seconds, ok := probe["timeoutSeconds"]; ok {
			p["timeoutSeconds"] = seconds
		}
		r.probers[path] = p
		delete(probe, how)
		probe["httpGet"] = map[string]any{"path": path, "port": int64(r.port)}
		return
	}
}

// resolvePort returns a port's number; a name is one of the container's ports.
func resolvePort(c map[string]any, port any) (int64, bool) {
	switch p := port.(type) {
	case int64:
		return p, p > 0 && p < 65536
	case string:
		for _, item := range edit.List(c, "ports") {
			if m, ok := item.(map[string]any); ok && edit.Text(m, "name") == p {
				n, ok := m["containerPort"].(int64)
				return n, ok
			}
		}
		n, err := strconv.ParseUint(p, 10, 16)
		return int64(n), err == nil && n > 0
	}
	return 0, false
}

// restoreProbes restores the probes from the variable of the injected proxy.
func restoreProbes(spec map[string]any) {
	var probers map[string]prober
	for _, kind := range edit.ContainerLists() {
		if v := edit.Named(edit.List(edit.Named(edit.List(spec, kind), ProxyContainer), "env"), probersVariable); v != nil {
			if json.Unmarshal([]byte(strings.ReplaceAll(edit.Text(v, "value"), "$$", "$")), &probers) != nil {
				return // the user who changed the variable has broken the probes already; the agent reports it
			}
		}
	}
	for _, kind := range edit.ContainerLists() {
		for _, item := range edit.List(spec, kind) {
			c, _ := item.(map[string]any)
			for field := range edit.ProbeKinds() {
				restore(edit.Fields(c, field), probers)
			}
			for field := range edit.HookKinds() {
				restore(edit.Fields(c, "lifecycle", field), probers)
			}
		}
	}
}

func restore(probe map[string]any, probers map[string]prober) {
	was, ok := probers[edit.Text(edit.Fields(probe, "httpGet"), "path")]
	if !ok {
		return
	}
	delete(probe, "httpGet")
	for _, how := range edit.Handlers() {
		if handler, ok := was[how].(map[string]any); ok {
			probe[how] = edit.Whole(handler)
		}
	}
}
