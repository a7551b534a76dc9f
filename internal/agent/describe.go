package agent

import (
	"context"
	"fmt"
	"net"
	"time"

	"fairway/internal/agent/epoch"
	"fairway/internal/agent/exposition"
	"fairway/internal/agent/health"
	"fairway/internal/agent/relay"
	"fairway/internal/agent/secrets"
	"fairway/internal/mesh"
)

// description is /debug/agent.
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
		Discovery: now.Bootstrap.Discovery.String(),
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
		d.Patches, d.Refused = a.patches.names(), a.patches.why()
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
	return a.now.workload()
}

// workload is what metrics say of the workload, here and where it calls, by the metadata of its node.
func (o Options) workload() exposition.Workload {
	meta := o.Bootstrap.Node.Metadata
	return exposition.Workload{
		Name: text(
			meta,
			"WORKLOAD_NAME",
		),
		Namespace: text(meta, "NAMESPACE"),
		App:       label(meta, "app"),
		Version:   label(meta, "version"),
		Cluster:   text(meta, "CLUSTER_ID"),
		Service:   firstLabel(meta, mesh.NameLabels[:]),
		Revision:  firstLabel(meta, mesh.RevisionLabels[:]),
	}
}

// tellSystemd says once that the proxy is ready, where systemd waits for that (sd_notify): units that come after this one start then.
func (a *agent) tellSystemd(ctx context.Context, up func()) error {
	up()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for len(a.reasons(ctx)) > 0 {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
	conn, err := net.Dial("unixgram", a.notify)
	if err == nil {
		_, err = fmt.Fprint(conn, "READY=1\n")
		conn.Close()
	}
	if err != nil {
		a.log.Warn("systemd was not told that the proxy is ready", "socket", a.notify, "error", err)
	}
	<-ctx.Done()
	return nil
}
