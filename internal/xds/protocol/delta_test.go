package protocol

import (
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

	"fairway/internal/xds/library"
	"fairway/internal/xdstype"
)

func TestDeltaSubscriptions(t *testing.T) {
	runScenarios(t, true, []scenario{
		{
			"legacy wildcard",
			subHints,
			"if the client … has never explicitly subscribed to any resource names … the server should treat that " +
				"identically to … subscribed to *",
			func(k *talk) {
				k.put(cluster("a", 1), cluster("b", 1))
				k.ask(xdstype.ClusterURL)
				k.expect("Cluster a b")
				k.ack(xdstype.ClusterURL)
				k.put(cluster("c", 1))
				k.expect("Cluster c")
			},
		},
		{
			"no legacy wildcard by reference",
			subHints,
			"If the list of resource names becomes empty, that means that the client is no longer interested in any " +
				"resources of the specified type",
			func(k *talk) {
				k.put(load("a", 1))
				k.ask(xdstype.EndpointURL)
				k.expect()
				k.put(load("a", 2))
				k.expect()
			},
		},
		{"explicit wildcard", subHints, "a wildcard subscription … is triggered when subscribing to the special name *", func(k *talk) {
			k.put(cluster("a", 1))
			k.ask(xdstype.ClusterURL, "*")
			k.expect("Cluster a")
		}},
		{
			"wildcard and named",
			subHints,
			"Server interprets this as continuing the existing subscription to * and adding a new subscription to A",
			func(k *talk) {
				k.put(cluster("a", 1), cluster("b", 1))
				k.ask(xdstype.ClusterURL)
				k.expect("Cluster a b")
				k.ask(xdstype.ClusterURL, "a")
				k.expect("Cluster a")
				k.put(cluster("b", 2))
				k.expect("Cluster b")
			},
		},
		{
			"unsubscribing the wildcard keeps the named",
			subHints,
			"Server interprets this as unsubscribing to * and continuing the existing subscription to A",
			func(k *talk) {
				k.put(cluster("a", 1), cluster("b", 1))
				k.ask(xdstype.ClusterURL)
				k.ask(xdstype.ClusterURL, "a")
				k.expect("Cluster a b")
				k.ask(xdstype.ClusterURL, "-*")
				k.put(cluster("a", 2), cluster("b", 2))
				k.expect("Cluster a")
			},
		},
		{
			"nothing left is not a wildcard",
			subHints,
			"Although the set of subscribed resources is now empty … it is not interpreted as a wildcard subscription",
			func(k *talk) {
				k.put(cluster("a", 1))
				k.ask(xdstype.ClusterURL, "a")
				k.expect("Cluster a")
				k.ask(xdstype.ClusterURL, "-a")
				k.ask(xdstype.ClusterURL)
				k.put(cluster("a", 2), cluster("b", 1))
				k.expect()
			},
		},
		{
			"empty wildcard is answered",
			subMissing,
			"clients are expected to use a timeout … after which they will consider the requested resource to not exist",
			func(k *talk) {
				k.ask(xdstype.ClusterURL)
				k.expect("Cluster")
				k.ask("type.googleapis.com/unknown.Type")
				k.expect("Type")
			},
		},
		{
			"named subscribe",
			subSub,
			"The client can send … the name of a resource in the resource_names_subscribe field … in order to subscribe to a resource",
			func(k *talk) {
				k.put(load("a", 1), load("b", 1))
				k.ask(xdstype.EndpointURL, "a")
				k.expect("ClusterLoadAssignment a")
				k.ask(xdstype.EndpointURL, "b")
				k.expect("ClusterLoadAssignment b")
			},
		},
		{
			"re-subscription is answered",
			subSub,
			"the server must still provide those resources in the response; … the client may have forgotten those resources",
			func(k *talk) {
				k.put(load("a", 1))
				k.ask(xdstype.EndpointURL, "a")
				k.expect("ClusterLoadAssignment a")
				k.ack(xdstype.EndpointURL)
				k.expect()
				k.ask(xdstype.EndpointURL, "a")
				k.expect("ClusterLoadAssignment a")
			},
		},
		{"on-demand virtual hosts", subSub, "the server must still provide those resources in the response", func(k *talk) {
			k.put(host("80/a", 1), host("80/b", 1))
			k.ask(xdstype.VirtualHostURL)
			k.expect("VirtualHost 80/a 80/b")
			k.ask(xdstype.VirtualHostURL, "80/a", "80/none")
			k.expect("VirtualHost 80/a -80/none")
			k.put(host("80/none", 1))
			k.expect("VirtualHost 80/none")
		}},
		{
			"unsubscribed resources are not sent",
			subUnsub,
			"a server does not need to send any response if a request does nothing except unsubscribe from a resource",
			func(k *talk) {
				k.put(load("a", 1))
				k.ask(xdstype.EndpointURL, "a")
				k.expect("ClusterLoadAssignment a")
				k.ask(xdstype.EndpointURL, "-a")
				k.expect()
				k.put(load("a", 2))
				k.expect()
				k.ask(xdstype.EndpointURL, "a")
				k.expect("ClusterLoadAssignment a")
			},
		},
		{
			"phantom unsubscription",
			subUnsub,
			"The server must cleanly process such a request; it can simply ignore these phantom unsubscriptions",
			func(k *talk) {
				k.put(load("a", 1))
				k.ask(xdstype.EndpointURL, "-a", "-b")
				k.expect()
			},
		},
		{
			"unsubscribing a name of a wildcard",
			subUnsub,
			"the server must send a response that includes the specific resource in either the removed_resources field … " +
				"or in the resources field",
			func(k *talk) {
				k.put(cluster("a", 1))
				k.ask(xdstype.ClusterURL, "*", "a", "b")
				k.expect("Cluster a -b")
				k.ask(xdstype.ClusterURL, "-a", "-b")
				k.expect("Cluster a -b")
			},
		},
		{
			"missing resource",
			subMissing,
			"the server will send a DeltaDiscoveryResponse message that contains that resource's name in the removed_resources field",
			func(k *talk) {
				k.ask(xdstype.EndpointURL, "a")
				k.expect("ClusterLoadAssignment -a")
				k.put(load("b", 1))
				k.expect()
			},
		},
		{
			"missing resource comes into being",
			subMissing,
			"if one of those resources springs into existence later, the server must send an update",
			func(k *talk) {
				k.ask(xdstype.EndpointURL, "a")
				k.expect("ClusterLoadAssignment -a")
				k.put(load("a", 1))
				k.expect("ClusterLoadAssignment a")
			},
		},
		{
			"removal",
			subDelete,
			"the server signals the client that a resource should be deleted via the removed_resources field of the response",
			func(k *talk) {
				k.put(cluster("a", 1), cluster("b", 1))
				k.ask(xdstype.ClusterURL)
				k.expect("Cluster a b")
				k.ack(xdstype.ClusterURL)
				k.del(xdstype.ClusterURL, "a")
				k.expect("Cluster -a")
			},
		},
		{"only what changed", subGroup, "it may send a response containing only the changed resource", func(k *talk) {
			k.put(cluster("a", 1), cluster("b", 1), cluster("c", 1))
			k.ask(xdstype.ClusterURL)
			k.expect("Cluster a b c")
			k.put(cluster("a", 1), cluster("b", 2))
			k.expect("Cluster b")
		}},
		{"changed and back while unsent", subGroup, "it does not need to resend the 99 resources that have not changed", func(k *talk) {
			k.put(cluster("a", 1))
			k.ask(xdstype.ClusterURL)
			k.expect("Cluster a")
			k.put(cluster("a", 2))
			k.put(cluster("a", 1))
			k.expect()
		}},
		{
			"reconnect with everything",
			subDelta,
			"On reconnect the Incremental xDS client may tell the server of its known resources to avoid resending them",
			func(k *talk) {
				k.put(cluster("a", 1), load("x", 1), listener("l", 1, ""), route("r", 1), host("r/h", 1))
				k.initial(xdstype.ClusterURL, nil, cluster("a", 1))
				k.initial(xdstype.EndpointURL, []string{"x"}, load("x", 1))
				k.initial(xdstype.ListenerURL, nil, listener("l", 1, ""))
				k.initial(xdstype.RouteURL, []string{"r"}, route("r", 1))
				k.initial(xdstype.VirtualHostURL, nil, host("r/h", 1))
				k.expect()
				k.put(host("r/h", 2))
				k.expect("VirtualHost r/h")
			},
		},
		{
			"reconnect with some of it",
			subDelta,
			"to avoid resending them over the network by sending them in initial_resource_versions",
			func(k *talk) {
				k.put(cluster("a", 1), cluster("b", 2), cluster("d", 1))
				k.initial(xdstype.ClusterURL, nil, cluster("a", 1), cluster("b", 1), cluster("c", 1))
				k.expect("Cluster b d")
				k.ack(xdstype.ClusterURL)
				k.expect("Cluster -c")
				k.initial(xdstype.EndpointURL, []string{"x", "y"}, load("x", 1))
				k.expect("ClusterLoadAssignment -x -y")
			},
		},
		{
			"a reconnected client loses clusters once its routes are known",
			subSequel,
			"Stale CDS clusters … (ones no longer being referenced) can then be removed",
			func(k *talk) {
				k.put(host("r/h", 2))
				k.initial(xdstype.ClusterURL, nil, cluster("a", 1))
				k.expect("Cluster")
				k.initial(xdstype.VirtualHostURL, nil, host("r/h", 1, "a"))
				k.ack(xdstype.ClusterURL)
				k.expect("VirtualHost r/h")
				k.ack(xdstype.VirtualHostURL)
				k.expect("Cluster -a")
			},
		},
		{"initial versions count once", subDelta, "initial_resource_versions", func(k *talk) {
			k.put(cluster("a", 1))
			k.ask(xdstype.ClusterURL)
			k.expect("Cluster a")
			k.ack(xdstype.ClusterURL)
			k.initial(xdstype.ClusterURL, nil, cluster("a", 9), cluster("z", 1))
			k.expect()
		}},
		{
			"stale nonce, honoured interest",
			subDelta,
			"the server must honor changes to the subscription state even if the nonce is stale",
			func(k *talk) {
				k.put(load("a", 1), load("b", 1))
				k.ask(xdstype.EndpointURL, "a")
				k.expect("ClusterLoadAssignment a")
				k.deliver(encoded(k.t, true, &discoveryv3.DeltaDiscoveryRequest{
					TypeUrl: xdstype.EndpointURL, ResponseNonce: "stale", ResourceNamesSubscribe: []string{"b"},
				}))
				k.expect("ClusterLoadAssignment b")
			},
		},
		{
			"whiteout and shadow",
			subDelete,
			"the server signals the client that a resource should be deleted via the removed_resources field",
			func(k *talk) {
				k.attach("low", "high")
				k.put(cluster("a", 1), cluster("b", 1))
				k.ask(xdstype.ClusterURL)
				k.expect("Cluster a b")
				k.ack(xdstype.ClusterURL)
				k.publish(cluster("a", 2).On("high"), library.Change{Shelf: "high", Type: xdstype.ClusterURL, Name: "b", Whiteout: true})
				k.expect("Cluster a -b")
				k.ack(xdstype.ClusterURL)
				k.put(cluster("a", 3), cluster("b", 3))
				k.expect()
				k.publish(gone("high", xdstype.ClusterURL, "a"), gone("high", xdstype.ClusterURL, "b"))
				k.expect("Cluster a b")
			},
		},
		{"other stacks", subDelta, "the server can send updates only for those resources that have changed", func(k *talk) {
			k.put(cluster("a", 1), cluster("b", 1))
			k.ask(xdstype.ClusterURL)
			k.expect("Cluster a b")
			k.ack(xdstype.ClusterURL)
			k.publish(cluster("a", 1).On("other"), cluster("c", 1).On("other"))
			k.attach("other")
			k.expect("Cluster c -b")
		}},
		{
			"a change behind forgotten tombstones",
			subDelete,
			"the server signals the client that a resource should be deleted",
			func(k *talk) {
				k.put(cluster("keep", 1))
				for i := range 200 {
					k.put(cluster(string(rune('A'+i)), 1))
				}
				k.ask(xdstype.ClusterURL)
				for k.next() != nil {
				}
				for i := range 200 {
					k.del(xdstype.ClusterURL, string(rune('A'+i)))
				}
				k.ack(xdstype.ClusterURL)
				for k.next() != nil {
				}
				if have := k.m.subs[xdstype.ClusterURL].clientResources(); len(have) != 1 || have[0].Name != "keep" {
					k.t.Errorf("holds %d resources", len(have))
				}
			},
		},
	})
}
