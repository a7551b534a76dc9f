package protocol

import (
	"slices"
	"testing"

	"fairway/internal/xdstype"
)

func TestDeltaOrder(t *testing.T) {
	runScenarios(t, true, []scenario{
		{"routes wait for new clusters", subSequel, "CDS updates (if any) must always be pushed first", func(k *talk) {
			k.put(cluster("a", 1), host("r/h", 1, "a"))
			k.ask(xdstype.ClusterURL)
			k.ask(xdstype.VirtualHostURL)
			k.expect("Cluster a")
			k.ack(xdstype.ClusterURL)
			k.expect("VirtualHost r/h")
		}},
		{
			"at the grain of names",
			subSequel,
			"xDS updates can be pushed independently if no new clusters/routes/listeners are added",
			func(k *talk) {
				k.put(cluster("a", 1), host("r/h", 1, "a"), host("r/i", 1, "a"))
				k.ask(xdstype.ClusterURL)
				k.expect("Cluster a")
				k.ack(xdstype.ClusterURL)
				k.ask(xdstype.VirtualHostURL)
				k.expect("VirtualHost r/h r/i")
				k.ack(xdstype.VirtualHostURL)
				k.put(cluster("b", 1), cluster("a", 2), host("r/h", 2, "b"), host("r/i", 2, "a"))
				k.expect("Cluster b a", "VirtualHost r/i")
				k.put(host("r/i", 3, "a"))
				k.expect("VirtualHost r/i")
				k.ack(xdstype.ClusterURL)
				k.expect("VirtualHost r/h")
			},
		},
		{
			"endpoints wait for nothing",
			subSequel,
			"EDS updates (if any) must arrive after CDS updates for the respective clusters",
			func(k *talk) {
				k.put(edsCluster("a", 1), load("a", 1))
				k.ask(xdstype.ClusterURL)
				k.expect("Cluster a")
				k.ask(xdstype.EndpointURL, "a")
				k.expect("ClusterLoadAssignment a")
				k.put(cluster("b", 1), load("a", 2))
				k.expect("Cluster b", "ClusterLoadAssignment a")
			},
		},
		{
			"secrets go when no listener that may name them is to change",
			subSequel,
			"Stale CDS clusters and related EDS endpoints (ones no longer being referenced) can then be removed",
			func(k *talk) {
				k.put(listener("l", 1, ""), secret("s", 1), secret("t", 1))
				k.ask(xdstype.ListenerURL)
				k.ask(xdstype.SecretURL, "s", "t")
				k.expect("Secret s t", "Listener l")
				k.ack(xdstype.ListenerURL)
				k.ack(xdstype.SecretURL)
				k.put(secret("s", 2))
				k.expect("Secret s")
				k.ack(xdstype.SecretURL)
				k.publish(listener("l", 2, "").On("low"), secret("t", 2).On("low"), gone("low", xdstype.SecretURL, "s"))
				k.expect("Secret t", "Listener l")
				k.ack(xdstype.SecretURL)
				k.expect()
				k.ack(xdstype.ListenerURL)
				k.expect("Secret -s")
			},
		},
		{
			"load assignment unasked behind a changed cluster",
			subWarm,
			"Warming of Cluster is completed only when a new ClusterLoadAssignment response is supplied by management " +
				"server even though there is no change in endpoints",
			func(k *talk) {
				k.put(edsCluster("a", 1), edsCluster("b", 1), load("a", 1), load("b", 1))
				k.ask(xdstype.ClusterURL)
				k.ask(xdstype.EndpointURL, "a", "b")
				k.expect("Cluster a b", "ClusterLoadAssignment a b")
				k.ack(xdstype.ClusterURL)
				k.ack(xdstype.EndpointURL)
				k.put(edsCluster("a", 2))
				k.expect("Cluster a", "ClusterLoadAssignment a")
			},
		},
		{
			"load assignment owed across a reconnect",
			subWarm,
			"Management server is expected to provide the EDS/RDS updates during warming",
			func(k *talk) {
				k.put(edsCluster("a", 2), edsCluster("b", 1), load("a", 1), load("b", 1))
				k.initial(xdstype.ClusterURL, nil, edsCluster("a", 1), edsCluster("b", 1))
				k.expect("Cluster a")
				k.initial(xdstype.EndpointURL, []string{"a", "b"}, load("a", 1), load("b", 1))
				k.expect("ClusterLoadAssignment a")
			},
		},
		{
			"load assignment that does not exist",
			subWarm,
			"Warming of Cluster is completed only when a ClusterLoadAssignment response is supplied",
			func(k *talk) {
				k.put(edsCluster("a", 1))
				k.ask(xdstype.ClusterURL)
				k.ask(xdstype.EndpointURL, "a")
				k.expect("Cluster a", "ClusterLoadAssignment -a")
				k.put(edsCluster("a", 2))
				k.expect("Cluster a", "ClusterLoadAssignment -a")
			},
		},
		{
			"clusters are removed last",
			subSequel,
			"Stale CDS clusters and related EDS endpoints (ones no longer being referenced) can then be removed",
			func(k *talk) {
				k.put(cluster("a", 1), host("r/h", 1, "a"))
				k.ask(xdstype.ClusterURL)
				k.expect("Cluster a")
				k.ack(xdstype.ClusterURL)
				k.ask(xdstype.VirtualHostURL)
				k.expect("VirtualHost r/h")
				k.ack(xdstype.VirtualHostURL)
				k.publish(gone("low", xdstype.ClusterURL, "a"), gone("low", xdstype.VirtualHostURL, "r/h"))
				k.expect("VirtualHost -r/h")
				k.put(host("r/i", 1))
				k.expect("VirtualHost r/i")
				k.answer(xdstype.VirtualHostURL, "", "3", nil)
				k.expect("Cluster -a")
			},
		},
		{
			"repointed in one turn",
			subSequel,
			"providing a CDS/EDS update with both X and Y, then the RDS update repointing from X to Y and then a CDS/EDS update dropping X",
			func(k *talk) {
				k.put(cluster("x", 1), route("r", 1, "x"))
				k.ask(xdstype.ClusterURL)
				k.expect("Cluster x")
				k.ack(xdstype.ClusterURL)
				k.ask(xdstype.RouteURL, "r")
				k.expect("RouteConfiguration r")
				k.ack(xdstype.RouteURL)
				k.publish(gone("low", xdstype.ClusterURL, "x"), cluster("y", 1).On("low"), route("r", 2, "y").On("low"))
				k.expect("Cluster y")
				k.ack(xdstype.ClusterURL)
				k.expect("RouteConfiguration r")
				k.ack(xdstype.RouteURL)
				k.expect("Cluster -x")
			},
		},
		{"no waiting without clusters", subSequel, "For some applications, a temporary drop of traffic is acceptable", func(k *talk) {
			k.put(cluster("a", 1), route("r", 1, "a"))
			k.ask(xdstype.RouteURL, "r")
			k.expect("RouteConfiguration r")
		}},
		{"no waiting for clusters not in view", subSequel, "routes are not warmed", func(k *talk) {
			k.put(cluster("a", 1), route("r", 1, "none"))
			k.ask(xdstype.ClusterURL)
			k.ask(xdstype.RouteURL, "r")
			k.expect("Cluster a", "RouteConfiguration r")
		}},
		{
			"the first answer to a wildcard is whole",
			subSequel,
			"LDS updates must arrive after corresponding CDS/EDS updates",
			func(k *talk) {
				k.put(cluster("a", 1), listener("l", 1, "", "a"), listener("m", 1, ""))
				k.ask(xdstype.ClusterURL)
				k.ask(xdstype.ListenerURL)
				k.expect("Cluster a")
				k.ack(xdstype.ClusterURL)
				k.expect("Listener l m")
			},
		},
		{
			"virtual hosts follow their route configuration",
			subSequel,
			"VHDS updates (if any) related to the newly added RouteConfigurations must arrive after RDS updates",
			func(k *talk) {
				k.put(vhdsRoute("80", 1), vhdsRoute("90", 1), host("80/a", 1), host("90/b", 1))
				k.ask(xdstype.RouteURL, "80")
				k.expect("RouteConfiguration 80")
				k.ask(xdstype.VirtualHostURL)
				k.expect("VirtualHost 80/a")
				k.ask(xdstype.RouteURL, "90")
				k.expect("RouteConfiguration 90", "VirtualHost 90/b")
				k.ask(xdstype.RouteURL, "-80")
				k.put(host("80/a", 2))
				k.expect()
				k.ask(xdstype.RouteURL, "80")
				k.expect("RouteConfiguration 80", "VirtualHost 80/a")
				k.put(vhdsRoute("80", 2))
				k.expect("RouteConfiguration 80")
			},
		},
		{"what replaces goes with what is removed", subSequel, "make before break", func(k *talk) {
			k.put(cluster("a", 1), host("r/old", 1))
			k.ask(xdstype.ClusterURL)
			k.expect("Cluster a")
			k.ack(xdstype.ClusterURL)
			k.ask(xdstype.VirtualHostURL)
			k.expect("VirtualHost r/old")
			k.ack(xdstype.VirtualHostURL)
			k.publish(cluster("b", 1).On("low"), host("r/new", 1, "b").On("low"), gone("low", xdstype.VirtualHostURL, "r/old"))
			k.expect("Cluster b")
			k.ack(xdstype.ClusterURL)
			k.expect("VirtualHost r/new -r/old")
		}},
	})
}

func TestDeltaNack(t *testing.T) {
	const says = "ACK or NACK is determined by the absence or presence of error_detail"
	refused := func(k *talk, want ...string) {
		k.t.Helper()
		if have := k.rejected(); !slices.Equal(have, want) {
			k.t.Errorf("rejected %q, want %q", have, want)
		}
	}
	runScenarios(t, true, []scenario{
		{"one resource", subDelta, says, func(k *talk) {
			k.put(load("a", 1))
			k.ask(xdstype.EndpointURL, "a")
			k.expect("ClusterLoadAssignment a")
			k.ack(xdstype.EndpointURL)
			k.put(load("a", 2))
			k.expect("ClusterLoadAssignment a")
			k.nack(xdstype.EndpointURL, "bad")
			k.expect()
			refused(k, "ClusterLoadAssignment a")
			if held := k.m.subs[xdstype.EndpointURL].clientResources(); len(held) != 1 || !held[0].Same(load("a", 1).Resource()) {
				k.t.Error("what it had did not stay")
			}
			k.put(load("a", 1))
			k.expect()
			k.put(load("a", 3))
			k.expect("ClusterLoadAssignment a")
		}},
		{"found by halves", subDelta, says, func(k *talk) {
			k.put(cluster("a", 1), cluster("b", 1), cluster("c", 1), cluster("d", 1))
			k.ask(xdstype.ClusterURL)
			k.expect("Cluster a b c d")
			k.nack(xdstype.ClusterURL, "bad")
			k.expect("Cluster a b")
			k.ack(xdstype.ClusterURL)
			k.expect("Cluster c d")
			k.nack(xdstype.ClusterURL, "bad")
			k.expect("Cluster c")
			k.ack(xdstype.ClusterURL)
			k.expect("Cluster d")
			k.nack(xdstype.ClusterURL, "bad")
			k.expect()
			refused(k, "Cluster d")
		}},
		{"named by the client", subDelta, says, func(k *talk) {
			k.put(cluster("aa", 1), cluster("bb", 1), cluster("cc", 1), cluster("dd", 1))
			k.ask(xdstype.ClusterURL)
			k.expect("Cluster aa bb cc dd")
			k.nack(xdstype.ClusterURL, "Error adding/updating cluster(s) cc: no good")
			k.expect("Cluster aa bb dd")
			k.ack(xdstype.ClusterURL)
			k.expect("Cluster cc")
			k.nack(xdstype.ClusterURL, "Error adding/updating cluster(s) cc: no good")
			k.expect()
			refused(k, "Cluster cc")
		}},
		{"a refused cluster holds nothing up", subDelta, says, func(k *talk) {
			k.put(cluster("a", 1), host("r/h", 1, "a"))
			k.ask(xdstype.ClusterURL)
			k.ask(xdstype.VirtualHostURL)
			k.expect("Cluster a")
			k.nack(xdstype.ClusterURL, "bad")
			k.expect("VirtualHost r/h")
		}},
		{"the old version's cluster stays", subDelta, says, func(k *talk) {
			k.put(cluster("a", 1), host("r/h", 1, "a"))
			k.ask(xdstype.ClusterURL)
			k.expect("Cluster a")
			k.ack(xdstype.ClusterURL)
			k.ask(xdstype.VirtualHostURL)
			k.expect("VirtualHost r/h")
			k.ack(xdstype.VirtualHostURL)
			k.publish(gone("low", xdstype.ClusterURL, "a"), host("r/h", 2).On("low"))
			k.expect("VirtualHost r/h")
			k.nack(xdstype.VirtualHostURL, "bad")
			k.expect()
			k.put(host("r/h", 3))
			k.expect("VirtualHost r/h")
			k.ack(xdstype.VirtualHostURL)
			k.expect("Cluster -a")
		}},
		{"a storm is bounded", subDelta, says, func(k *talk) {
			var all []spec
			for i := range 900 {
				all = append(all, load(string(rune(0x4e00+i)), 1))
			}
			k.put(all...)
			var names []string
			for _, s := range all {
				names = append(names, s.Name)
			}
			k.ask(xdstype.EndpointURL, names...)
			sent := 0
			for resp := k.next(); resp != nil; resp = k.next() {
				sent++
				k.nack(xdstype.EndpointURL, "no")
				g := decodeResponse(k.t, true, resp.Data)
				k.answer(xdstype.EndpointURL, "no", g.nonce, nil)
			}
			if sent > maxTrials+1 {
				k.t.Errorf("%d responses to a client that refuses everything", sent)
			}
			if have := k.m.countQuarantined(); have != len(all) {
				k.t.Errorf("%d of %d quarantined", have, len(all))
			}
			if told := k.rejected(); len(told) != maxRejected {
				k.t.Errorf("%d are told of, of a client that refuses %d", len(told), len(all))
			}
			if !k.m.Synced() {
				k.t.Error("not at rest")
			}
			soundMachine(k.t, k.m)
		}},
	})
}
