package histories

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"

	"fairway/internal/mesh"
	"fairway/internal/xds"
	"fairway/test/ads"
)

// client is a proxy at a control plane.
type client struct {
	*ads.Client
	proxy   proxy
	since   time.Time // when its stream was opened
	reports int       // how often it said on that how its application is

	mu     sync.Mutex
	failed error // how its stream ended by itself
	record *record
}

func newClient(p proxy) *client {
	c := &client{proxy: p}
	c.Client = ads.New(p.node(), ads.NewReader(), c.heard)
	c.become(p)
	return c
}

// become changes the client's description of itself, from its next stream on.
func (c *client) become(p proxy) {
	c.proxy = p
	c.Node, c.SotW, c.Prompt, c.Tables, c.Bodies = p.node(), p.SotW, p.Prompt, p.Metadata["DNS_CAPTURE"] != "", true
}

func (p proxy) node() *corev3.Node {
	labels, said := map[string]any{}, map[string]any{"NAMESPACE": p.Namespace, "INSTANCE_IPS": p.Addresses, "ISTIO_VERSION": "1.31.1"}
	for k, v := range p.Labels {
		labels[k] = v
	}
	for k, v := range p.Metadata {
		if k != "PROXY_CONFIG" {
			said[k] = v
			continue
		}
		var config map[string]any
		if err := json.Unmarshal([]byte(v), &config); err != nil {
			panic(err) // this folder wrote it
		}
		said[k] = config
	}
	said["LABELS"] = labels
	if p.Account != "" {
		said["SERVICE_ACCOUNT"] = p.Account
	}
	meta, err := structpb.NewStruct(said)
	if err != nil {
		panic(err) // strings and maps of strings always fit
	}
	first, _, _ := strings.Cut(p.Addresses, ",")
	where := mesh.ParseLocality(p.Locality)
	return &corev3.Node{
		Locality: &corev3.Locality{Region: where.Region, Zone: where.Zone, SubZone: where.SubZone},
		Id:       fmt.Sprintf("%s~%s~%s.%s~%s.svc.cluster.local", p.Type, first, p.Name, p.Namespace, p.Namespace),
		Metadata: meta,
	}
}

// connect opens a stream, and does not wait for anything to come.
func (c *client) connect(ctx context.Context, to control) error {
	c.Disconnect()
	c.mu.Lock()
	c.failed = nil
	c.mu.Unlock()
	address, shown := to.dial(&c.proxy)
	c.Credentials, c.since, c.reports = shown, time.Now(), 0
	return c.Connect(ctx, address)
}

func (c *client) heard(ev ads.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if ev.Err != nil {
		c.failed = ev.Err
	}
	if c.record != nil {
		c.record.take(c, ev)
	}
}

func (c *client) err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failed
}

// report sends the application's health, as the proxy's agent does, and waits until a control plane has received it.
func (c *client) report(ctx context.Context, to control, failure string) error {
	if err := c.Report(healthType, failure); err != nil {
		return err
	}
	c.reports++
	return to.settle(ctx, to, []*client{c})
}

// isServed reports whether a stream is the client's own, its reports have arrived, and it has acknowledged all that it is due.
func (c *client) isServed(s xds.ProxyStatus) bool {
	return mesh.ProxyID(s.Proxy).Node() == c.Node.Id && !s.ConnectedAt.Before(c.since) && len(s.Types) >= c.Asked() &&
		s.Reports >= c.reports &&
		s.Synced
}

// diff describes the differences between the resources of the client and those of another client; empty: none.
func (c *client) diff(other *client) string {
	var b strings.Builder
	have, want := c.InUse(), other.InUse()
	for _, typ := range append(ads.Types[:], ads.NameTableType) {
		for _, name := range slices.Sorted(maps.Keys(want[typ])) {
			body, there := have[typ][name]
			switch wanted := want[typ][name]; {
			case !there:
				fmt.Fprintf(&b, "%s %s: missing\n", ads.Short(typ), name)
			case string(body) != string(wanted):
				fmt.Fprintf(&b, "%s %s: has\n%s\nwant\n%s\n", ads.Short(typ), name, show(typ, body), show(typ, wanted))
			}
		}
		for _, name := range slices.Sorted(maps.Keys(have[typ])) {
			// The state-of-the-world protocol has no response that removes a resource requested by name (xDS protocol, "Deleting
			// Resources").
			kept := c.SotW && typ == ads.SecretType
			if _, there := want[typ][name]; !there && !kept {
				fmt.Fprintf(&b, "%s %s: should have gone\n", ads.Short(typ), name)
			}
		}
	}
	return b.String()
}

func show(typ string, body []byte) string {
	m, err := (&anypb.Any{TypeUrl: typ, Value: body}).UnmarshalNew()
	if err != nil {
		return fmt.Sprintf("%q (%v)", body, err)
	}
	return prototext.MarshalOptions{Multiline: false}.Format(m)
}
