package remote

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"fairway/internal/mesh"
	"fairway/internal/xdstype"
)

// Resources are those of a proxy by type and name, as messages.
type Resources map[xdstype.Type]map[string]proto.Message

// Bounds on one answer.
const (
	mostResponse  = 256 << 20 // bytes
	mostResponses = 10_000
	// quiet is how long nothing may come until the names that are still missing count as unknown: a control plane does not answer
	// names that it does not know.
	quiet = 2 * time.Second
)

// Ask returns the resources that the control plane behind conn would send a proxy. It fails if the stream does, or when ctx ends.
func Ask(ctx context.Context, conn *grpc.ClientConn, p mesh.Proxy) (Resources, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	node, err := nodeOf(p)
	if err != nil {
		return nil, err
	}
	service := discoveryv3.NewAggregatedDiscoveryServiceClient(conn)
	stream, err := service.StreamAggregatedResources(ctx, grpc.MaxCallRecvMsgSize(mostResponse))
	if err != nil {
		return nil, err
	}
	c := client{node: node, stream: stream, got: Resources{}, asked: map[xdstype.Type][]string{}}
	for _, typ := range []xdstype.Type{xdstype.Clusters, xdstype.Listeners} {
		if err := c.ask(typ, nil); err != nil {
			return nil, err
		}
	}
	return c.read(ctx)
}

// Named returns the resources without load assignments that no cluster names, and route configurations that no listener names.
func (r Resources) Named() Resources {
	out := Resources{xdstype.Clusters: r[xdstype.Clusters], xdstype.Listeners: r[xdstype.Listeners]}
	r.keep(out, xdstype.Loads, loads(r[xdstype.Clusters]))
	r.keep(out, xdstype.Routes, routes(r[xdstype.Listeners]))
	return out
}

// keep copies the resources of some names.
func (r Resources) keep(out Resources, typ xdstype.Type, names []string) {
	out[typ] = map[string]proto.Message{}
	for _, name := range names {
		if m := r[typ][name]; m != nil {
			out[typ][name] = m
		}
	}
}

// client is one conversation.
type client struct {
	node   *corev3.Node
	stream grpc.BidiStreamingClient[discoveryv3.DiscoveryRequest, discoveryv3.DiscoveryResponse]
	got    Resources
	asked  map[xdstype.Type][]string // names that were asked for; of clusters and listeners nil: all
}

func (c *client) ask(typ xdstype.Type, names []string) error {
	c.asked[typ] = names
	err := c.stream.Send(&discoveryv3.DiscoveryRequest{Node: c.node, TypeUrl: typ.URL(), ResourceNames: names})
	if err != nil {
		return fmt.Errorf("ask for %s: %w", typ, err)
	}
	return nil
}

// read takes responses until everything that was asked for has come, or nothing more comes.
func (c *client) read(ctx context.Context) (Resources, error) {
	type received struct {
		response *discoveryv3.DiscoveryResponse
		err      error
	}
	responses := make(chan received)
	go func() {
		for {
			r, err := c.stream.Recv()
			select {
			case responses <- received{r, err}:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	idle := time.NewTimer(quiet)
	defer idle.Stop()
	for n := 0; !c.complete(); n++ {
		select {
		case r := <-responses:
			if r.err != nil {
				return nil, r.err
			}
			if n > mostResponses {
				return nil, fmt.Errorf("more than %d responses came", mostResponses)
			}
			if err := c.take(r.response); err != nil {
				return nil, err
			}
			idle.Reset(quiet)
		case <-idle.C:
			if c.got[xdstype.Clusters] == nil || c.got[xdstype.Listeners] == nil {
				idle.Reset(quiet) // it may still be starting; the caller's context bounds the wait
				continue
			}
			return c.got, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return c.got, nil
}

func (c *client) complete() bool {
	if c.got[xdstype.Clusters] == nil || c.got[xdstype.Listeners] == nil {
		return false
	}
	for _, typ := range []xdstype.Type{xdstype.Loads, xdstype.Routes} {
		for _, name := range c.asked[typ] {
			if c.got[typ][name] == nil {
				return false
			}
		}
	}
	return true
}

// take keeps a response's resources, acknowledges it, and asks for what they name.
func (c *client) take(r *discoveryv3.DiscoveryResponse) error {
	typ, known := xdstype.Of(r.GetTypeUrl())
	if _, asked := c.asked[typ]; !known || !asked {
		return nil
	}
	if c.got[typ] == nil {
		c.got[typ] = map[string]proto.Message{}
	}
	for _, any := range r.GetResources() {
		m, err := any.UnmarshalNew()
		if err != nil {
			return fmt.Errorf("a %s cannot be read: %w", typ, err)
		}
		c.got[typ][nameOf(m)] = m
	}
	err := c.stream.Send(&discoveryv3.DiscoveryRequest{
		Node: c.node, TypeUrl: r.GetTypeUrl(), VersionInfo: r.GetVersionInfo(), ResponseNonce: r.GetNonce(), ResourceNames: c.asked[typ],
	})
	if err != nil {
		return fmt.Errorf("acknowledge a %s: %w", typ, err)
	}
	var names []string
	switch typ {
	case xdstype.Clusters:
		names = loads(c.got[typ])
		typ = xdstype.Loads
	case xdstype.Listeners:
		names = routes(c.got[typ])
		typ = xdstype.Routes
	default:
		return nil
	}
	if len(names) == 0 || slices.Equal(names, c.asked[typ]) {
		return nil
	}
	return c.ask(typ, names)
}

func nameOf(m proto.Message) string {
	switch m := m.(type) {
	case interface{ GetClusterName() string }:
		return m.GetClusterName()
	case interface{ GetName() string }:
		return m.GetName()
	}
	return ""
}

// loads lists the load assignments that clusters name, in order.
func loads(clusters map[string]proto.Message) (out []string) {
	for name, m := range clusters {
		c, is := m.(*clusterv3.Cluster)
		if !is || c.GetType() != clusterv3.Cluster_EDS || c.GetClusterType() != nil {
			continue
		}
		if s := c.GetEdsClusterConfig().GetServiceName(); s != "" {
			name = s
		}
		out = append(out, name)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// routes lists the route configurations that listeners name, in order.
func routes(listeners map[string]proto.Message) (out []string) {
	for _, m := range listeners {
		l, is := m.(*listenerv3.Listener)
		if !is {
			continue
		}
		for _, c := range append(slices.Clone(l.GetFilterChains()), l.GetDefaultFilterChain()) {
			for _, f := range c.GetFilters() {
				manager := &hcmv3.HttpConnectionManager{}
				if f.GetTypedConfig().MessageIs(manager) && f.GetTypedConfig().UnmarshalTo(manager) == nil {
					if name := manager.GetRds().GetRouteConfigName(); name != "" {
						out = append(out, name)
					}
				}
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// nodeOf describes a proxy as it described itself.
func nodeOf(p mesh.Proxy) (*corev3.Node, error) {
	said := map[string]any{}
	for k, v := range p.Metadata.All() {
		said[k] = v
	}
	labels := map[string]any{}
	for k, v := range p.Labels.Map() {
		labels[k] = v
	}
	said["LABELS"] = labels
	for _, field := range [][2]string{
		{"NAMESPACE", p.Namespace}, {"INSTANCE_IPS", p.IPs}, {"CLUSTER_ID", p.Cluster}, {"NETWORK", p.Network},
		{"SERVICE_ACCOUNT", p.ServiceAccount}, {"INTERCEPTION_MODE", strings.ToUpper(p.Interception.String())},
		{"ISTIO_VERSION", p.Version},
	} {
		if field[1] != "" {
			said[field[0]] = field[1]
		}
	}
	meta, err := structpb.NewStruct(said)
	if err != nil {
		return nil, fmt.Errorf("describe %s: %w", p.ID, err)
	}
	return &corev3.Node{
		Id: p.ID.Node(), Metadata: meta, Cluster: p.Name + "." + p.Namespace,
		Locality: &corev3.Locality{Region: p.Locality.Region, Zone: p.Locality.Zone, SubZone: p.Locality.SubZone},
	}, nil
}
