package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

const (
	typePrefix = "type.googleapis.com/envoy.config."
	cdsType    = typePrefix + "cluster.v3.Cluster"
	edsType    = typePrefix + "endpoint.v3.ClusterLoadAssignment"
	ldsType    = typePrefix + "listener.v3.Listener"
	rdsType    = typePrefix + "route.v3.RouteConfiguration"
	vhdsType   = typePrefix + "route.v3.VirtualHost"
)

// reader tells what a resource refers to, decoding each name and version once for all clients, so that the clients' cost stays small beside the server's.
type reader struct {
	mu   sync.Mutex
	refs map[string][]string
}

// references lists the names that a client asks for next because of the resource: a cluster's load assignment, a listener's route configurations,
// a route configuration's virtual hosts (as the one wildcard "*").
func (r *reader) references(typeURL string, res *discoveryv3.Resource) ([]string, error) {
	key := typeURL + "\x00" + res.Name + "\x00" + res.Version
	r.mu.Lock()
	defer r.mu.Unlock()
	if names, ok := r.refs[key]; ok {
		return names, nil
	}
	names, err := decodeReferences(typeURL, res.Resource.GetValue())
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", typeURL, res.Name, err)
	}
	r.refs[key] = names
	return names, nil
}

func decodeReferences(typeURL string, body []byte) ([]string, error) {
	switch typeURL {
	case cdsType:
		var c clusterv3.Cluster
		if err := proto.Unmarshal(body, &c); err != nil || c.GetType() != clusterv3.Cluster_EDS {
			return nil, err
		}
		if name := c.GetEdsClusterConfig().GetServiceName(); name != "" {
			return []string{name}, nil
		}
		return []string{c.Name}, nil
	case ldsType:
		var l listenerv3.Listener
		if err := proto.Unmarshal(body, &l); err != nil {
			return nil, err
		}
		var names []string
		for _, chain := range append(l.FilterChains, l.DefaultFilterChain) {
			for _, f := range chain.GetFilters() {
				var hcm hcmv3.HttpConnectionManager
				if f.GetTypedConfig().MessageIs(&hcm) {
					if err := f.GetTypedConfig().UnmarshalTo(&hcm); err != nil {
						return nil, err
					}
					if name := hcm.GetRds().GetRouteConfigName(); name != "" {
						names = append(names, name)
					}
				}
			}
		}
		return names, nil
	case rdsType:
		var rc routev3.RouteConfiguration
		if err := proto.Unmarshal(body, &rc); err != nil || rc.Vhds == nil {
			return nil, err
		}
		return []string{"*"}, nil
	}
	return nil, nil
}

// client is one delta ADS client that behaves as Envoy does: clusters and listeners by wildcard, load assignments and route configurations by reference,
// virtual hosts as one subscription without names once a route configuration carries vhds; it ACKs, and after a reconnect says what it holds.
type client struct {
	id     int
	node   *corev3.Node
	reader *reader
	events chan<- event

	conn   *grpc.ClientConn
	cancel context.CancelFunc
	done   chan struct{}

	mu       sync.Mutex
	held     map[string]map[string]string // type → name → version
	wanted   map[string]map[string]bool   // type → names asked for
	asked    map[string]bool              // types asked for on this stream
	received totals
}

type totals struct {
	Responses int
	Resources int
	Removed   int
	Bytes     int
}

// event says that a client got resources.
type event struct {
	client int
	at     time.Time
	typ    string
	names  []string
	gone   []string
	bytes  int
	err    error
}

func newClient(id int, namespace string, r *reader, events chan<- event) *client {
	meta, err := structpb.NewStruct(map[string]any{
		"NAMESPACE": namespace, "ISTIO_VERSION": "1.31.1", "CLUSTER_ID": "Kubernetes", "INSTANCE_IPS": address(id),
		"LABELS": map[string]any{"app": "client"}, "NAME": fmt.Sprintf("client-%d", id),
	})
	if err != nil {
		panic(err)
	}
	return &client{
		id: id, reader: r, events: events,
		node: &corev3.Node{
			Id:       fmt.Sprintf("sidecar~%s~client-%d.%s~%s.svc.cluster.local", address(id), id, namespace, namespace),
			Cluster:  "client." + namespace,
			Metadata: meta,
		},
		held:   map[string]map[string]string{},
		wanted: map[string]map[string]bool{},
	}
}

func address(id int) string { return fmt.Sprintf("10.61.%d.%d", id>>8, id&255) }

// connect opens the stream and starts reading; what the client holds from before is told to the server.
func (c *client) connect(ctx context.Context, target string) error {
	conn, err := grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20)))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx, grpc.WaitForReady(true))
	if err != nil {
		cancel()
		conn.Close()
		return err
	}
	c.conn, c.cancel, c.done = conn, cancel, make(chan struct{})
	c.asked = map[string]bool{}
	for _, typeURL := range []string{cdsType, ldsType} {
		if err := c.ask(stream, typeURL, nil, nil); err != nil {
			cancel()
			return err
		}
	}
	if len(c.held) > 0 { // Envoy asks again for all it refers to, before it hears anything
		for _, typeURL := range []string{edsType, rdsType, vhdsType} {
			if len(c.wanted[typeURL]) == 0 {
				continue
			}
			var names []string
			for name := range c.wanted[typeURL] {
				if name != "*" {
					names = append(names, name)
				}
			}
			if err := c.ask(stream, typeURL, names, nil); err != nil {
				cancel()
				return err
			}
		}
	}
	go c.read(stream)
	return nil
}

// disconnect ends the stream and waits for its reader.
func (c *client) disconnect() {
	if c.cancel != nil {
		c.cancel()
		<-c.done
		c.conn.Close()
		c.cancel = nil
	}
}

type deltaStream = discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesClient

func (c *client) ask(stream deltaStream, typeURL string, subscribe, unsubscribe []string) error {
	req := &discoveryv3.DeltaDiscoveryRequest{TypeUrl: typeURL, ResourceNamesSubscribe: subscribe, ResourceNamesUnsubscribe: unsubscribe}
	if len(c.asked) == 0 {
		req.Node = c.node
	}
	if !c.asked[typeURL] {
		c.asked[typeURL] = true
		req.InitialResourceVersions = c.held[typeURL]
	}
	return stream.Send(req)
}

func (c *client) read(stream deltaStream) {
	defer close(c.done)
	for {
		resp, err := stream.Recv()
		if err != nil {
			if stream.Context().Err() == nil {
				c.events <- event{client: c.id, err: err}
			}
			return
		}
		at := time.Now()
		ev, err := c.take(stream, resp)
		ev.client, ev.at, ev.err = c.id, at, err
		c.events <- ev
		if err != nil {
			return
		}
	}
}

// take stores a response, ACKs it, and asks for what it newly refers to.
func (c *client) take(stream deltaStream, resp *discoveryv3.DeltaDiscoveryResponse) (event, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ev := event{typ: resp.TypeUrl, bytes: proto.Size(resp), gone: resp.RemovedResources}
	c.received.Responses++
	c.received.Resources += len(resp.Resources)
	c.received.Removed += len(resp.RemovedResources)
	c.received.Bytes += ev.bytes
	held := c.held[resp.TypeUrl]
	if held == nil {
		held = map[string]string{}
		c.held[resp.TypeUrl] = held
	}
	next := map[string][]string{cdsType: nil}
	for _, res := range resp.Resources {
		held[res.Name] = res.Version
		ev.names = append(ev.names, res.Name)
		refs, err := c.reader.references(resp.TypeUrl, res)
		if err != nil {
			return ev, err
		}
		if to := follows(resp.TypeUrl); to != "" {
			next[to] = append(next[to], c.want(to, refs)...)
		}
	}
	var drop []string
	for _, name := range resp.RemovedResources {
		delete(held, name)
		if resp.TypeUrl == cdsType && c.wanted[edsType][name] {
			delete(c.wanted[edsType], name)
			delete(c.held[edsType], name)
			drop = append(drop, name)
		}
	}
	if err := stream.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: resp.TypeUrl, ResponseNonce: resp.Nonce}); err != nil {
		return ev, err
	}
	if len(drop) > 0 {
		if err := c.ask(stream, edsType, nil, drop); err != nil {
			return ev, err
		}
	}
	for _, typeURL := range []string{edsType, rdsType, vhdsType} {
		names := next[typeURL]
		if len(names) == 0 {
			continue
		}
		if typeURL == vhdsType { // one subscription without names
			names = nil
		}
		if err := c.ask(stream, typeURL, names, nil); err != nil {
			return ev, err
		}
	}
	return ev, nil
}

// follows is the type that a resource's references are of.
func follows(typeURL string) string {
	switch typeURL {
	case cdsType:
		return edsType
	case ldsType:
		return rdsType
	case rdsType:
		return vhdsType
	}
	return ""
}

// want notes names as wanted and returns those that are new.
func (c *client) want(typeURL string, names []string) []string {
	have := c.wanted[typeURL]
	if have == nil {
		have = map[string]bool{}
		c.wanted[typeURL] = have
	}
	var fresh []string
	for _, name := range names {
		if !have[name] {
			have[name] = true
			fresh = append(fresh, name)
		}
	}
	return fresh
}

// synced says whether the client holds all that it asked for and at least that many virtual hosts.
func (c *client) synced(hosts int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.held[cdsType]) == 0 || len(c.held[ldsType]) == 0 || len(c.held[vhdsType]) < hosts {
		return false
	}
	for _, typeURL := range []string{edsType, rdsType} {
		for name := range c.wanted[typeURL] {
			if _, ok := c.held[typeURL][name]; !ok {
				return false
			}
		}
		if len(c.wanted[typeURL]) == 0 {
			return false
		}
	}
	return true
}

// state describes what the client holds, for a message that says why it is not synced.
func (c *client) state() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var b strings.Builder
	for _, typeURL := range []string{cdsType, edsType, ldsType, rdsType, vhdsType} {
		fmt.Fprintf(&b, "%s %d of %d wanted; ", strings.TrimPrefix(typeURL, typePrefix), len(c.held[typeURL]), len(c.wanted[typeURL]))
	}
	return b.String()
}

func (c *client) takeTotals() totals {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.received
	c.received = totals{}
	return t
}
