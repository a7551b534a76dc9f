package session

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"fairway/internal/mesh"
	"fairway/internal/printable"
)

// Machines is told of proxies that name the WorkloadGroup which their machine is to be registered with. It does not
// block.
type Machines interface {
	Connected(p mesh.Proxy, group string)
	Disconnected(p mesh.Proxy, group string)
}

// groupField is the metadata by which an agent names the group.
const groupField = "AUTO_REGISTER_GROUP"

// longestName is how long a name of Kubernetes' may be.
const longestName = 253

// groupOf is the group that a node names; empty: none.
func groupOf(node *corev3.Node) string {
	group := node.GetMetadata().GetFields()[groupField].GetStringValue()
	if !printable.Is(group, longestName) {
		return ""
	}
	return group
}

// registered is what Machines was told of a proxy.
type registered struct {
	proxy mesh.Proxy
	group string // empty: it was told nothing
}

// register tells Machines which group a connected proxy names; empty: it names none, or is gone. The lock is held.
func (p *Register) register(c *connected, group string) {
	if p.opts.Machines == nil {
		return
	}
	now := registered{c.proxy, group}
	if group == "" {
		now = registered{}
	}
	if c.registered == now {
		return
	}
	if c.registered.group != "" {
		p.opts.Machines.Disconnected(c.registered.proxy, c.registered.group)
	}
	if c.registered = now; group != "" {
		p.opts.Machines.Connected(now.proxy, group)
	}
}
