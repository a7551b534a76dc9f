package session

import (
	"net"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"fairway/internal/compile/input"
	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/printable"
)

// Machines receives machines with a proxy that names a WorkloadGroup and is authenticated. Its methods do not block.
type Machines interface {
	Connected(config.Member)
	Disconnected(config.Member)
}

// groupField is the metadata field in which an agent names the group.
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

// membership is the machine of a proxy, as it is registered.
type membership struct {
	input.Member           // zero: the proxy names no group
	until        time.Time // when its registration ends; zero: with the proxy's connection
}

// memberOf is the machine of a proxy that names a group; zero: it names none.
func memberOf(p mesh.Proxy, group string, from net.Addr) input.Member {
	if group == "" {
		return input.Member{}
	}
	address, _, _ := strings.Cut(p.IPs, ",")
	return input.Member{
		Member:   config.Member{Namespace: p.Namespace, Group: group, Account: p.ServiceAccount, Address: address, Network: p.Network},
		Standing: p.Standing,
		Here:     ipOf(from).IsLoopback(),
	}
}

// register registers the machine of a connected proxy, in place of its previous one. The lock is held.
func (p *Register) register(c *connected, now input.Member) {
	was := c.machine.Member
	if c.machine = (membership{Member: now}); now == was {
		return
	}
	p.registered++
	if p.opts.Machines == nil {
		if now == (input.Member{}) {
			p.graph.In.Members.Delete(c.proxy.ID)
		} else {
			p.graph.In.Members.Set(c.proxy.ID, now)
		}
		return
	}
	if was.Standing == mesh.Proven {
		p.opts.Machines.Disconnected(was.Member)
	}
	if now.Standing == mesh.Proven {
		p.opts.Machines.Connected(now.Member)
	}
}

// leave starts the grace of the machine of a proxy that has gone. Machines has a grace of its own. The lock is held.
func (p *Register) leave(c *connected) {
	switch {
	case c.machine.Member == (input.Member{}):
	case p.opts.Machines != nil:
		p.register(c, input.Member{})
	default:
		c.machine.until = time.Now().Add(p.opts.Grace)
	}
}

// linger returns how long the row of a disconnected proxy is kept. A registered machine counts for its owner until then, so that an owner
// has no more machines than proxies.
func (p *Register) linger(c *connected) time.Duration {
	if c.machine.until.IsZero() {
		return p.opts.Linger
	}
	return max(p.opts.Linger, p.opts.Grace)
}
