package proxy

import (
	"context"
	"slices"
	"strings"
	"time"

	"fairway/internal/agent/epoch"
	"fairway/internal/agent/exposition"
	"fairway/internal/agent/health"
	"fairway/internal/agent/relay"
	"fairway/internal/agent/secrets"
)

// description is the content of /debug/agent.
type description struct {
	Node      string
	Discovery string
	Admin     string
	Ready     bool
	Reasons   []string `json:",omitempty"`
	Draining  bool
	Envoys    epoch.State
	Restarts  struct {
		Hot                   bool
		Drain, ParentShutdown string
		Concurrency           int
	}
	Watched      []string
	Patches      []string              `json:",omitempty"` // of the bootstrap, by EnvoyFilter objects
	Refused      map[string]string     `json:",omitempty"` // patches that are left out, and why
	Certificates []secrets.Certificate `json:",omitempty"`
	Relay        *relay.Status         `json:",omitempty"`
	Application  *health.Status        `json:",omitempty"`
}

func (a *agent) describe() any {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	a.mu.Lock()
	now := a.now
	a.mu.Unlock()
	d := description{
		Node:      now.Bootstrap.Node.ID(),
		Discovery: strings.Join(now.Bootstrap.Discoveries(), ","),
		Admin:     adminName(a.o.Bootstrap, a.at),
		Reasons:   a.reasons(ctx),
		Draining:  a.draining.Load(),
		Envoys:    a.envoys.State(),
		Watched:   a.watched(),
	}
	if a.secrets != nil {
		d.Certificates = a.secrets.Status()
	}
	if a.patches != nil {
		d.Patches, d.Refused = slices.Sorted(slices.Values(a.patches.Merged())), a.patches.Refused()
	}
	d.Relay = a.relayStatus()
	if a.health != nil {
		s := a.health.Status()
		d.Application = &s
	}
	d.Ready = len(d.Reasons) == 0
	d.Restarts.Hot, d.Restarts.Concurrency = now.Restarts.Hot, now.Concurrency
	d.Restarts.Drain, d.Restarts.ParentShutdown = now.Restarts.Drain.String(), now.Restarts.ParentShutdown.String()
	return d
}

func (a *agent) workload() exposition.Workload {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.now.Workload()
}
