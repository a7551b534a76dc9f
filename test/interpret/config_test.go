package interpret

import (
	"testing"

	adminv3 "github.com/envoyproxy/go-control-plane/envoy/admin/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	_ "fairway/internal/envoy/known"
	"fairway/internal/interpret"
	"fairway/test/envoy/live"
)

// into reads a message of a dump.
func into[M proto.Message](t testing.TB, a *anypb.Any, m M) M {
	t.Helper()
	if err := a.UnmarshalTo(m); err != nil {
		t.Fatal(err)
	}
	return m
}

// configOf reads the configuration that an Envoy reports.
func configOf(t testing.TB, e *live.Envoy) interpret.Config {
	t.Helper()
	var dump adminv3.ConfigDump
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal([]byte(e.Dump(t)), &dump); err != nil {
		t.Fatal(err)
	}
	c := interpret.Config{
		Listeners: map[string]*listenerv3.Listener{}, Routes: map[string]*routev3.RouteConfiguration{},
		Clusters: map[string]*clusterv3.Cluster{}, LoadAssignments: map[string]*endpointv3.ClusterLoadAssignment{},
	}
	addCluster := func(a *anypb.Any) {
		m := into(t, a, &clusterv3.Cluster{})
		c.Clusters[m.GetName()] = m
	}
	for _, part := range dump.GetConfigs() {
		m, err := part.UnmarshalNew()
		if err != nil {
			t.Fatal(err)
		}
		switch m := m.(type) {
		case *adminv3.ListenersConfigDump:
			for _, l := range m.GetDynamicListeners() {
				one := into(t, l.GetActiveState().GetListener(), &listenerv3.Listener{})
				c.Listeners[one.GetName()] = one
			}
		case *adminv3.RoutesConfigDump:
			for _, r := range m.GetDynamicRouteConfigs() {
				one := into(t, r.GetRouteConfig(), &routev3.RouteConfiguration{})
				c.Routes[one.GetName()] = one
			}
		case *adminv3.ClustersConfigDump:
			for _, one := range m.GetStaticClusters() {
				addCluster(one.GetCluster())
			}
			for _, one := range m.GetDynamicActiveClusters() {
				addCluster(one.GetCluster())
			}
		case *adminv3.EndpointsConfigDump:
			for _, e := range m.GetDynamicEndpointConfigs() {
				one := into(t, e.GetEndpointConfig(), &endpointv3.ClusterLoadAssignment{})
				for _, l := range one.GetEndpoints() {
					if l.GetLoadBalancingWeight().GetValue() == 0 { // Envoy writes 0 where nothing was sent
						l.LoadBalancingWeight = nil
					}
				}
				c.LoadAssignments[one.GetClusterName()] = one
			}
		}
	}
	return c
}
