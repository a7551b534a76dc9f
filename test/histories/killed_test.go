package histories

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/proto"

	"fairway/internal/xdstype"
	"fairway/test/ads"
)

// TestClusterPrograms: the histories of TestCluster, over pilot-discovery as users run it: it is killed where it ends, while
// the cluster changes and its API server is away.
func TestClusterPrograms(t *testing.T) {
	shared := newPlanes(t)
	shared.folder = nil
	w := newKubernetes(t, shared)
	path := discovery.Path(t)
	fit := func(s script) script { return killing(single(alone(quietly(s)))) }
	hunt(t, hunting{usual: 8, platform: true, fit: fit, patience: time.Minute}, func(t *testing.T, _ uint64) (*player, error) {
		if err := w.empty(t.Context()); err != nil {
			return nil, err
		}
		return &player{
			world: w, clients: map[string]*client{}, said: map[string]saying{},
			start: func(ctx context.Context) (control, error) { return shared.launch(ctx, path) },
		}, nil
	})
}

// alone removes the actions on the other cluster: its state is not kept here, so a control plane that starts while that cluster is away
// correctly removes its endpoints.
func alone(s script) script {
	var out script
	for _, st := range s {
		st = slices.DeleteFunc(slices.Clone(st), func(a action) bool {
			other := func(d *document) bool { return d != nil && d.West }
			return a.West != "" || a.Outage == westCut || other(a.Put) || other(a.Drop)
		})
		if len(st) > 0 {
			out = append(out, st)
		}
	}
	return out
}

// killing has the control plane end at every other step.
func killing(s script) script {
	for i := range s {
		if i%2 == 1 && !slices.ContainsFunc(s[i], func(a action) bool { return a.Restart }) {
			s[i] = append(step{{Restart: true}}, s[i]...)
		}
	}
	return s
}

// record has the responses that a proxy got after its control plane ended, and its resources from before.
type record struct {
	before  map[string]map[string][]byte
	removed [][2]string                // types and names, in order
	loads   map[string]map[string]bool // by load assignment, the addresses that all that were sent have
}

// remember begins a record.
func (c *client) remember() {
	held := c.InUse()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.record = &record{before: held, loads: map[string]map[string]bool{}}
}

// take records an event.
func (r *record) take(c *client, ev ads.Event) {
	for _, name := range ev.Removed {
		r.removed = append(r.removed, [2]string{ev.Type, name})
	}
	if ev.Type != xdstype.EndpointURL {
		return
	}
	for _, name := range ev.Names {
		body, _ := c.Body(ev.Type, name)
		now, was := addresses(body), r.loads[name]
		for a := range was {
			now[a] = now[a] && was[a]
		}
		r.loads[name] = now
	}
}

// less returns the changes that no input justified: resources that the server reported as missing, and addresses that
// left a load assignment, although the proxy had them before and has them now. A record is for one control plane alone.
func (c *client) less() string {
	now := c.InUse()
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.record
	c.record = nil
	if r == nil {
		return ""
	}
	var b strings.Builder
	for _, at := range r.removed {
		_, was := r.before[at[0]][at[1]]
		if _, is := now[at[0]][at[1]]; was && is {
			fmt.Fprintf(&b, "%s was told that there is no %s %s\n", c.proxy.Name, ads.Short(at[0]), at[1])
		}
	}
	for name, all := range r.loads {
		is := addresses(now[xdstype.EndpointURL][name])
		for a := range addresses(r.before[xdstype.EndpointURL][name]) {
			if is[a] && !all[a] {
				fmt.Fprintf(&b, "%s was sent %s without %s\n", c.proxy.Name, name, a)
			}
		}
	}
	return b.String()
}

// addresses are those of a load assignment's endpoints.
func addresses(body []byte) map[string]bool {
	var load endpointv3.ClusterLoadAssignment
	if proto.Unmarshal(body, &load) != nil {
		return nil
	}
	out := map[string]bool{}
	for _, l := range load.GetEndpoints() {
		for _, e := range l.GetLbEndpoints() {
			out[e.GetEndpoint().GetAddress().String()] = true
		}
	}
	return out
}
