package ads

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/proto"
)

// Synced reports whether the client holds all the resources that it asked for, except those that the server reported as
// missing, and at least that many virtual hosts.
func (c *Client) Synced(hosts int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.held[ClusterType]) == 0 || len(c.held[ListenerType]) == 0 || len(c.held[VirtualHostType]) < hosts {
		return false
	}
	for _, typ := range []string{EndpointType, SecretType, RouteType} {
		for name, refs := range c.wanted[typ] {
			if _, ok := c.held[typ][name]; refs > 0 && !ok && !c.absent[typ][name] {
				return false
			}
		}
	}
	return true
}

// Complete reports whether the client holds all that it refers to so far, as a connected proxy does once the mesh has settled.
func (c *Client) Complete() bool {
	c.mu.Lock()
	hosts := min(len(c.wanted[VirtualHostType]), 1)
	c.mu.Unlock()
	return c.Synced(hosts)
}

// Asked is how many types the client has asked for on its stream.
func (c *Client) Asked() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.asked)
}

// State describes what the client holds, for a message that says why it is not synced.
func (c *Client) State() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var b strings.Builder
	for _, typ := range Types {
		fmt.Fprintf(&b, "%s %d of %d wanted; ", Short(typ), len(c.held[typ]), len(c.wanted[typ]))
	}
	return b.String()
}

// Names lists what the client holds of a type, in order.
func (c *Client) Names(typ string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Keys(c.held[typ]))
}

// Versions lists what the client holds, by type and name.
func (c *Client) Versions() map[string]map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := map[string]map[string]string{}
	for typ, all := range c.held {
		out[typ] = map[string]string{}
		for name, h := range all {
			out[typ][name] = h.Version
		}
	}
	return out
}

// InUse returns the bytes of all that the client holds and that something it holds refers to, by type and name; it must keep bodies.
func (c *Client) InUse() map[string]map[string][]byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := map[string]map[string][]byte{}
	for typ, all := range c.held {
		out[typ] = map[string][]byte{}
		for name, h := range all {
			if c.inUse(typ, name) {
				out[typ][name] = h.Body
			}
		}
	}
	return out
}

func (c *Client) inUse(typ, name string) bool {
	switch {
	case typ == NameTableType:
		return c.Tables
	case typ == VirtualHostType:
		route, _, _ := strings.Cut(name, "/")
		return c.wanted[RouteType][route] > 0
	case slices.Contains(referred[:], typ):
		return c.wanted[typ][name] > 0
	}
	return true
}

// Body returns the bytes of a resource that the client holds; it must keep bodies.
func (c *Client) Body(typ, name string) ([]byte, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	h, ok := c.held[typ][name]
	return h.Body, ok
}

// Endpoints are the healthy ones of a cluster's load assignment, "address:port" in order. The client must keep bodies.
func (c *Client) Endpoints(cluster string) (all []string, err error) {
	var load endpointv3.ClusterLoadAssignment
	body, _ := c.Body(EndpointType, cluster)
	if err := proto.Unmarshal(body, &load); err != nil {
		return nil, err
	}
	for _, l := range load.GetEndpoints() {
		for _, e := range l.GetLbEndpoints() {
			if a := e.GetEndpoint().GetAddress().GetSocketAddress(); e.GetHealthStatus() == corev3.HealthStatus_HEALTHY {
				all = append(all, net.JoinHostPort(a.GetAddress(), strconv.Itoa(int(a.GetPortValue()))))
			}
		}
	}
	slices.Sort(all)
	return all, nil
}

// TakeTotals returns the totals since the last call and resets them.
func (c *Client) TakeTotals() Totals {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.received
	c.received = Totals{}
	return t
}
