package ctl

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"fairway/internal/ctl/cluster"
	"fairway/internal/ctl/logging"
	"fairway/internal/dev/folder"
	"fairway/internal/printable"
)

// sidecar is the container of a pod's agent.
const sidecar = "istio-proxy"

// agent is the agent of a proxy in a cluster, or of a workload of pilot-discovery dev.
type agent struct {
	s               *session
	proxy           string // as control planes know it
	name, namespace string
}

// Agent implements logging.Session.
func (s *session) Agent(ctx context.Context, proxy string) (logging.Agent, error) {
	name, namespace, err := s.find(ctx, proxy)
	return agent{s, proxy, name, namespace}, err
}

// Request implements logging.Agent. A page that only shows something is asked for where the agent answers for Envoy. Only a caller with the
// agent's token may change something: in a cluster the agent's own program in its pod, for which the user needs the right to create
// pods/exec; on this machine, the user who runs the workload.
func (a agent) Request(ctx context.Context, method, path string) ([]byte, error) {
	inside, err := a.s.inCluster(ctx)
	if err != nil {
		return nil, err
	}
	if !inside {
		return a.here(ctx, method, path)
	}
	if method == http.MethodGet {
		at, err := a.s.forwardTo(ctx, a.proxy, adminPort)
		if err != nil {
			return nil, err
		}
		return a.s.EnvoyAt(at).Page(ctx, path)
	}
	r, err := cluster.Open(a.s.cluster)
	if err != nil {
		return nil, err
	}
	return r.Exec(ctx, cluster.Plane{Name: a.name, Namespace: a.namespace}, sidecar, []string{
		"pilot-agent", "request", method, strings.TrimPrefix(path, "/"),
	})
}

// here asks the agent of a workload of this machine.
func (a agent) here(ctx context.Context, method, path string) ([]byte, error) {
	at, err := folder.Default().Admin(a.name)
	if err != nil {
		return nil, fmt.Errorf("%s is not in a cluster that is asked here; its agent's user can ask it on its own machine: "+
			"pilot-agent request %s '%s'", printable.Text(a.name+"."+a.namespace, printable.Short), method, strings.TrimPrefix(path, "/"))
	}
	token := ""
	if method != http.MethodGet {
		if token, err = folder.Default().Token(a.name); err != nil {
			return nil, fmt.Errorf("read the token of the agent of %s: %w", printable.Text(a.name, printable.Short), err)
		}
	}
	return envoy{newClient(at)}.ask(ctx, method, path, token)
}
