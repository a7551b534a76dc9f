package inject

import (
	"encoding/json"
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

// handlers are the fields of a probe with its method.
func handlers() []string { return []string{"httpGet", "tcpSocket", "grpc"} }

// probeKinds are the fields of a container that hold probes, with the last part of their paths.
func probeKinds() map[string]string {
	return map[string]string{"livenessProbe": "livez", "readinessProbe": "readyz", "startupProbe": "startupz"}
}

func hookKinds() map[string]string {
	return map[string]string{"postStart": "poststartz", "preStop": "prestopz"}
}

// rewriting points the probes of one pod at the agent.
type rewriting struct {
	port     int
	probers  map[string]prober
	warnings []string
}

// pod rewrites the probes of all containers except the proxy: ordinary ones, and native sidecars among the init containers.
func (r *rewriting) pod(spec map[string]any) {
	for _, kind := range containerLists() {
		for _, item := range list(spec, kind) {
			c, ok := item.(map[string]any)
			if !ok || text(c, "name") == ProxyContainer || kind == "initContainers" && !restarts(c) {
				continue
			}
			r.container(c)
		}
	}
}

func containerLists() []string { return []string{"containers", "initContainers"} }

func restarts(c map[string]any) bool {
	return text(c, "restartPolicy") == string(corev1.ContainerRestartPolicyAlways)
}

func (r *rewriting) container(c map[string]any) {
	for _, kind := range slices.Sorted(maps.Keys(probeKinds())) {
		r.handler(c, fields(c, kind), kind, "/app-health/"+text(c, "name")+"/"+probeKinds()[kind])
	}
	for _, kind := range slices.Sorted(maps.Keys(hookKinds())) {
		hook := fields(c, "lifecycle", kind)
		if fields(hook, "httpGet") != nil { // kubelets do not run a hook's tcpSocket
			r.handler(c, hook, "lifecycle."+kind, "/app-lifecycle/"+text(c, "name")+"/"+hookKinds()[kind])
		}
	}
}

// handler rewrites one probe. A probe that runs a program stays, because it runs in the container.
func (r *rewriting) handler(c, probe map[string]any, kind, path string) {
	for _, how := range handlers() {
		asked := fields(probe, how)
		if asked == nil {
			continue
		}
		port, ok := resolvePort(c, asked["port"])
		if !ok {
			r.warnings = append(r.warnings, fmt.Sprintf(
				"container %s: %s.%s.port: %s is not a port of the container, so the probe stays as it is: name one of its ports",
				quoted(text(c, "name")), kind, how, quoted(fmt.Sprint(asked["port"]))))
			return
		}
		own := clone(asked)
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
		for _, item := range list(c, "ports") {
			if m, ok := item.(map[string]any); ok && text(m, "name") == p {
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
	for _, kind := range containerLists() {
		if v := named(list(named(list(spec, kind), ProxyContainer), "env"), probersVariable); v != nil {
			if json.Unmarshal([]byte(strings.ReplaceAll(text(v, "value"), "$$", "$")), &probers) != nil {
				return // the user who changed the variable has broken the probes already; the agent reports it
			}
		}
	}
	for _, kind := range containerLists() {
		for _, item := range list(spec, kind) {
			c, _ := item.(map[string]any)
			for field := range probeKinds() {
				restore(fields(c, field), probers)
			}
			for field := range hookKinds() {
				restore(fields(c, "lifecycle", field), probers)
			}
		}
	}
}

func restore(probe map[string]any, probers map[string]prober) {
	was, ok := probers[text(fields(probe, "httpGet"), "path")]
	if !ok {
		return
	}
	delete(probe, "httpGet")
	for _, how := range handlers() {
		if handler, ok := was[how].(map[string]any); ok {
			probe[how] = whole(handler)
		}
	}
}
