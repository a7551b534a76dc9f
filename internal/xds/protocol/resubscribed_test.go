package protocol

import (
	"errors"
	"fmt"
	"slices"
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

// TestARefusedLoadAssignmentIsReplaced: Envoy takes a changed cluster once it has a load assignment for it. If it refuses the new one
// it gets the old one again.
func TestARefusedLoadAssignmentIsReplaced(t *testing.T) {
	runScenarios(t, true, []scenario{{
		"the cluster waits for it",
		subWarm,
		"Warming of Cluster is completed only when a ClusterLoadAssignment response is supplied",
		func(k *talk) {
			k.put(edsCluster("a", 1), load("a", 1))
			k.ask(xdstype.ClusterURL)
			k.ask(xdstype.EndpointURL, "a")
			k.expect("Cluster a", "ClusterLoadAssignment a")
			k.ack(xdstype.ClusterURL)
			k.ack(xdstype.EndpointURL)
			k.put(edsCluster("a", 2), load("a", 2))
			k.expect("Cluster a", "ClusterLoadAssignment a")
			k.nack(xdstype.EndpointURL, "bad")
			r := k.next()
			if r == nil {
				k.t.Fatal("the cluster waits for ever")
			}
			if g := decodeResponse(k.t, true, r.Data); g.String() != "ClusterLoadAssignment a" || readSpec(g.bodies["a"]).Version != 1 {
				k.t.Errorf("sent %s: %s", g, g.bodies["a"])
			}
		},
	}})
}

// TestNamesThatAreGivenUpDoNotCount: a client may use as many names in its time as it likes, but not at once.
func TestNamesThatAreGivenUpDoNotCount(t *testing.T) {
	for _, delta := range []bool{true, false} {
		k := newTalk(t, delta)
		k.m.limits.Names = 3
		for i := range 10 {
			names := []string{fmt.Sprint("a", i), fmt.Sprint("b", i), fmt.Sprint("c", i)}
			if !delta {
				k.state(xdstype.EndpointURL, "", "", names...)
				continue
			}
			k.ask(xdstype.EndpointURL, names...)
			k.ask(xdstype.EndpointURL, "-"+names[0], "-"+names[1], "-"+names[2])
		}
		more := &wire.Request{Delta: delta, Type: xdstype.EndpointURL, Subscribe: []string{"a", "b", "c", "d"}}
		if err := k.receive(more); !errors.As(err, new(*TooMany)) {
			t.Errorf("four names at once: %v", err)
		}
	}
}

// TestAcknowledgedNamesAreNotSentAgain: once a client has acknowledged a version it is known to hold just that.
func TestAcknowledgedNamesAreNotSentAgain(t *testing.T) {
	runScenarios(t, true, []scenario{{
		"other shelves with the same on them",
		subDelta,
		"the server can send updates only for those resources that have changed",
		func(k *talk) {
			k.put(load("a", 1))
			k.ask(xdstype.EndpointURL, "a")
			k.expect("ClusterLoadAssignment a")
			k.ack(xdstype.EndpointURL)
			k.put(load("a", 2))
			k.expect("ClusterLoadAssignment a")
			k.ack(xdstype.EndpointURL)
			k.attach("low", "high")
			k.expect()
		},
	}})
}

// TestAStormLosesNoRemoval: a client refuses so much that the search for the culprits ends before everything is tried. Removals
// from the refused response are still sent.
func TestAStormLosesNoRemoval(t *testing.T) {
	k := newTalk(t, true)
	k.put(cluster("x", 1))
	k.ask(xdstype.ClusterURL)
	k.expect("Cluster x")
	k.ack(xdstype.ClusterURL)
	k.publish(cluster("b0", 1).On("low"), cluster("b1", 1).On("low"), gone("low", xdstype.ClusterURL, "x"))
	sent := []*wire.Response{k.next()}
	var many []spec
	for i := range 900 {
		many = append(many, cluster(fmt.Sprintf("c%03d", i), 1))
	}
	k.put(many...)
	removed := false
	for sent = append(sent, k.next()); len(sent) > 0 && sent[0] != nil; {
		g := decodeResponse(t, true, sent[0].Data)
		text := ""
		if len(g.names) > 0 {
			text = "no"
		} else if slices.Contains(g.removed, "x") {
			removed = true
		}
		k.answer(xdstype.ClusterURL, text, g.nonce, nil)
		if sent = sent[1:]; len(sent) == 0 {
			sent = append(sent, k.next())
		}
	}
	if !removed {
		t.Error("the client has a cluster for ever that is gone")
	}
	if !k.m.Synced() {
		t.Error("not at rest")
	}
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
