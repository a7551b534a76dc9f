package protocol

import (
	"testing"

	"fairway/internal/xds/library"
	"fairway/internal/xds/wire"
	"fairway/internal/xdstype"
)

// TestResubscribedRoute has a client give a route configuration up and ask for it again while a version is on the way, so that it
// may take that version. The cluster of that version has to stay until the client has taken another one.
func TestResubscribedRoute(t *testing.T) {
	const dropX = "then the RDS update repointing from X to Y and then a CDS/EDS update dropping X"
	// The client is sent a route to cluster a, and asks for it again without an answer to that. Meanwhile the route leaves a,
	// which goes, and another turn passes.
	resubscribe := func(k *talk) (nonce string) {
		k.put(cluster("a", 1), route("80", 1, "a"))
		k.ask(xdstype.ClusterURL)
		k.expect("Cluster a")
		k.ack(xdstype.ClusterURL)
		k.ask(xdstype.RouteURL, "80")
		k.expect("RouteConfiguration 80")
		k.ask(xdstype.RouteURL, "-80")
		k.publish(gone("low", xdstype.ClusterURL, "a"), route("80", 2).On("low"))
		k.put(cluster("b", 1))
		k.ask(xdstype.RouteURL, "80")
		return k.last[xdstype.RouteURL]
	}
	runScenarios(t, true, []scenario{
		{"the old version is taken before the new one is sent", subSequel, dropX, func(k *talk) {
			first := resubscribe(k)
			k.answer(xdstype.RouteURL, "", first, nil)
			k.expect("Cluster b", "RouteConfiguration 80")
			k.ack(xdstype.RouteURL)
			k.expect("Cluster -a")
		}},
		{"the old version is taken once the new one is sent", subSequel, dropX, func(k *talk) {
			first := resubscribe(k)
			k.expect("Cluster b", "RouteConfiguration 80")
			k.answer(xdstype.RouteURL, "", first, nil)
			k.expect()
			k.ack(xdstype.RouteURL)
			k.expect("Cluster -a")
		}},
		{"the old version stays, for the new one is refused", subSequel, dropX, func(k *talk) {
			first := resubscribe(k)
			k.expect("Cluster b", "RouteConfiguration 80")
			k.answer(xdstype.RouteURL, "", first, nil)
			k.expect()
			k.nack(xdstype.RouteURL, "bad")
			k.expect()
			k.put(route("80", 3))
			k.expect("RouteConfiguration 80")
			k.ack(xdstype.RouteURL)
			k.expect("Cluster -a")
		}},
	})
}

func TestDroppedRouteTakesItsHosts(t *testing.T) {
	runScenarios(t, true, []scenario{{
		"an unsubscribed route configuration",
		subUnsub,
		"to unsubscribe from a resource, the client sends its name in resource_names_unsubscribe",
		func(k *talk) {
			k.put(vhdsRoute("80", 1), vhdsRoute("90", 1), host("80/a", 1), host("90/a", 1))
			k.ask(xdstype.RouteURL, "80", "90")
			k.ask(xdstype.VirtualHostURL)
			k.expect("RouteConfiguration 80 90", "VirtualHost 80/a 90/a")
			k.ack(xdstype.RouteURL)
			k.ack(xdstype.VirtualHostURL)
			k.ask(xdstype.RouteURL, "-80")
			k.expect("VirtualHost -80/a")
		},
	}})
}

// TestAbsentLoadAssignments: Envoy acknowledges no clusters before it has the load assignment of each, so a client is sent an
// empty one for a cluster that it has. For a name that no cluster of it takes, nothing is made up.
func TestAbsentLoadAssignments(t *testing.T) {
	runScenarios(t, false, []scenario{{
		"only those of clusters are made up",
		subWarm,
		"Warming of Cluster is completed only when a ClusterLoadAssignment response is supplied",
		func(k *talk) {
			k.put(edsCluster("a", 1), edsCluster("b", 1), load("a", 1))
			k.state(xdstype.ClusterURL, "", "")
			k.expect("Cluster a b")
			k.state(xdstype.EndpointURL, "", "", "a", "b", "c")
			k.expect("ClusterLoadAssignment a b")
			k.ack(xdstype.EndpointURL, "a", "b", "c")
			k.put(load("c", 1))
			k.expect("ClusterLoadAssignment c")
		},
	}})
}

// TestStatesWithoutShelvesAreNotKept: a state is dropped when one of its shelves changes. One that has none would stay.
func TestStatesWithoutShelvesAreNotKept(t *testing.T) {
	r := newRig(t, true)
	r.attach()
	held := []wire.Reported{{Name: "a", Version: library.FormatVersion(1)}}
	if err := r.receive(&wire.Request{Delta: true, Type: xdstype.EndpointURL, Initial: held}); err != nil {
		t.Fatal(err)
	}
	if n := len(r.shared.firsts.known); n != 0 {
		t.Errorf("%d states are kept of a client that sees nothing", n)
	}
}
