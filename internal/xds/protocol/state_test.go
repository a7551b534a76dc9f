package protocol

import (
	"slices"
	"strings"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"

	"fairway/internal/xds/wire"
	"fairway/internal/xdstype"
)

func TestStateSubscriptions(t *testing.T) {
	runScenarios(t, false, []scenario{
		{
			"legacy wildcard",
			subHints,
			"Client sends a request with resource_names unset. Server interprets this as a subscription to *",
			func(k *talk) {
				k.put(cluster("a", 1), cluster("b", 1))
				k.state(xdstype.ClusterURL, "", "")
				k.expect("Cluster a b")
			},
		},
		{
			"wildcard and named",
			subHints,
			"Server interprets this as continuing the existing subscription to * and adding a new subscription to A",
			func(k *talk) {
				k.put(cluster("a", 1), cluster("b", 1))
				k.state(xdstype.ClusterURL, "", "")
				k.expect("Cluster a b")
				k.ack(xdstype.ClusterURL, "*", "a")
				k.expect("Cluster a b")
				k.ack(xdstype.ClusterURL, "*", "a")
				k.expect()
			},
		},
		{
			"leaving the wildcard",
			subHints,
			"Client sends a request with resource_names set to A. Server interprets this as unsubscribing to * and " +
				"continuing the existing subscription to A",
			func(k *talk) {
				k.put(cluster("a", 1), cluster("b", 1))
				k.state(xdstype.ClusterURL, "", "", "*", "a")
				k.expect("Cluster a b")
				k.ack(xdstype.ClusterURL, "a")
				k.put(cluster("a", 2), cluster("b", 2))
				k.expect("Cluster a")
			},
		},
		{
			"nothing left is not a wildcard",
			subHints,
			"Although this request is identical to the first one, it is not interpreted as a wildcard subscription",
			func(k *talk) {
				k.put(cluster("a", 1))
				k.state(xdstype.ClusterURL, "", "", "a")
				k.expect("Cluster a")
				k.ack(xdstype.ClusterURL)
				k.put(cluster("a", 2), cluster("b", 1))
				for resp := k.next(); resp != nil; resp = k.next() {
					if g := decodeResponse(k.t, false, resp.Data); len(g.names) > 0 {
						k.t.Errorf("sent %s", g)
					}
				}
			},
		},
		{
			"empty wildcard is answered",
			subDelete,
			"a response containing no resources means to delete all resources of that type",
			func(k *talk) {
				k.state(xdstype.ListenerURL, "", "")
				k.expect("Listener")
			},
		},
		{
			"the whole state",
			subGroup,
			"the server must include the complete state of the world … even if they did not change since the last response",
			func(k *talk) {
				k.put(cluster("a", 1), cluster("b", 1), cluster("c", 1))
				k.state(xdstype.ClusterURL, "", "")
				k.expect("Cluster a b c")
				k.ack(xdstype.ClusterURL)
				k.put(cluster("b", 2))
				k.expect("Cluster a b c")
			},
		},
		{
			"removal by absence",
			subDelete,
			"if a previously seen resource is not present in a new response, that indicates that the resource has been removed",
			func(k *talk) {
				k.put(cluster("a", 1), cluster("b", 1))
				k.state(xdstype.ClusterURL, "", "")
				k.expect("Cluster a b")
				k.ack(xdstype.ClusterURL)
				k.del(xdstype.ClusterURL, "a")
				k.expect("Cluster b")
			},
		},
		{
			"only what changed, by reference",
			subGroup,
			"all resource types except for Listener and Cluster are grouped into responses in the same way as in the " +
				"incremental protocol variants",
			func(k *talk) {
				k.put(load("a", 1), load("b", 1))
				k.state(xdstype.EndpointURL, "", "", "a", "b")
				k.expect("ClusterLoadAssignment a b")
				k.ack(xdstype.EndpointURL, "a", "b")
				k.put(load("b", 2))
				k.expect("ClusterLoadAssignment b")
			},
		},
		{
			"no removal by reference",
			subDelete,
			"for other resource types, the API provides no mechanism for the server to tell the client that resources have been deleted",
			func(k *talk) {
				k.put(load("a", 1))
				k.state(xdstype.EndpointURL, "", "", "a")
				k.expect("ClusterLoadAssignment a")
				k.ack(xdstype.EndpointURL, "a")
				k.del(xdstype.EndpointURL, "a")
				k.expect()
			},
		},
		{
			"missing resource comes into being",
			subMissing,
			"if one of those resources springs into existence later, the server must send an update",
			func(k *talk) {
				k.state(xdstype.EndpointURL, "", "", "a")
				k.expect()
				k.put(load("a", 1))
				k.expect("ClusterLoadAssignment a")
			},
		},
		{
			"load assignment that went meanwhile",
			"Resource warming",
			"warming of Cluster is completed only when a new ClusterLoadAssignment response is supplied by management server",
			func(k *talk) {
				k.put(edsCluster("a", 1), edsCluster("b", 1), load("a", 1))
				k.state(xdstype.ClusterURL, "", "")
				k.expect("Cluster a b")
				k.ack(xdstype.ClusterURL)
				k.state(xdstype.EndpointURL, "", "", "a", "b")
				k.expect("ClusterLoadAssignment a b") // b without endpoints: it would wait for ever
				k.ack(xdstype.EndpointURL, "a", "b")
				k.put(edsCluster("a", 2))
				k.del(xdstype.EndpointURL, "a")
				k.expect("Cluster a b", "ClusterLoadAssignment a") // the version that it has already
			},
		},
		{
			"newly requested",
			subHints,
			"the server must resend any newly requested resources, even if it previously sent those resources",
			func(k *talk) {
				k.put(load("a", 1), load("b", 1))
				k.state(xdstype.EndpointURL, "", "", "a", "b")
				k.expect("ClusterLoadAssignment a b")
				k.ack(xdstype.EndpointURL, "a")
				k.expect()
				k.put(load("b", 2))
				k.expect()
				k.ack(xdstype.EndpointURL, "a", "b")
				k.expect("ClusterLoadAssignment b")
			},
		},
		{
			"stale nonce",
			subUpdate,
			"The management server should not send a DiscoveryResponse for any DiscoveryRequest that has a stale nonce",
			func(k *talk) {
				k.put(load("a", 1), load("b", 1))
				k.state(xdstype.EndpointURL, "", "", "a")
				k.expect("ClusterLoadAssignment a")
				stale := k.last[xdstype.EndpointURL]
				k.put(load("a", 2))
				k.expect("ClusterLoadAssignment a")
				k.state(xdstype.EndpointURL, stale, "", "a", "b")
				k.expect()
				k.ack(xdstype.EndpointURL, "a", "b")
				k.expect("ClusterLoadAssignment b")
			},
		},
		{"new version, new version_info", subAck, "Whenever one resource of that type changes, the version is changed", func(k *talk) {
			k.put(cluster("a", 1))
			k.state(xdstype.ClusterURL, "", "")
			k.expect("Cluster a")
			first := k.vers[xdstype.ClusterURL]
			k.ack(xdstype.ClusterURL)
			k.put(cluster("a", 2))
			k.expect("Cluster a")
			if k.vers[xdstype.ClusterURL] == first {
				k.t.Error("the version stayed")
			}
			k.ack(xdstype.ClusterURL)
			k.put(cluster("a", 1))
			k.expect("Cluster a")
			if k.vers[xdstype.ClusterURL] != first {
				k.t.Error("the same content has another version")
			}
		}},
		{
			"refused",
			subAck,
			"NACK signifies unsuccessful configuration and is indicated by the presence of the error_detail field",
			func(k *talk) {
				k.put(cluster("a", 1), cluster("b", 1))
				k.state(xdstype.ClusterURL, "", "")
				k.expect("Cluster a b")
				k.ack(xdstype.ClusterURL)
				k.put(cluster("b", 2))
				k.expect("Cluster a b")
				k.nack(xdstype.ClusterURL, "bad")
				k.expect()
				if have := k.rejected(); !slices.Equal(have, []string{"Cluster b"}) {
					k.t.Errorf("rejected %q", have)
				}
				k.put(cluster("c", 1))
				k.expect("Cluster a b c")
				if held := k.m.subs[xdstype.ClusterURL].clientResources(); !held[1].Same(cluster("b", 1).Resource()) {
					k.t.Error("what it had did not stay")
				}
			},
		},
	})
}

func TestStateOrder(t *testing.T) {
	runScenarios(t, false, []scenario{
		{
			"clusters first, removed last",
			subSequel,
			"providing a CDS/EDS update with both X and Y, then the RDS update repointing from X to Y and then a CDS/EDS update dropping X",
			func(k *talk) {
				k.put(cluster("x", 1), route("r", 1, "x"))
				k.state(xdstype.ClusterURL, "", "")
				k.expect("Cluster x")
				k.ack(xdstype.ClusterURL)
				k.state(xdstype.RouteURL, "", "", "r")
				k.expect("RouteConfiguration r")
				k.ack(xdstype.RouteURL, "r")
				k.publish(gone("low", xdstype.ClusterURL, "x"), cluster("y", 1).On("low"), route("r", 2, "y").On("low"))
				k.expect("Cluster x y")
				k.ack(xdstype.ClusterURL)
				k.expect("RouteConfiguration r")
				k.ack(xdstype.RouteURL, "r")
				k.expect("Cluster y")
			},
		},
		{
			"load assignment unasked behind a changed cluster",
			subWarm,
			"Warming of Cluster is completed only when a new ClusterLoadAssignment response is supplied",
			func(k *talk) {
				k.put(edsCluster("a", 1), edsCluster("b", 1), load("a", 1), load("b", 1))
				k.state(xdstype.ClusterURL, "", "")
				k.expect("Cluster a b")
				k.ack(xdstype.ClusterURL)
				k.state(xdstype.EndpointURL, "", "", "a", "b")
				k.expect("ClusterLoadAssignment a b")
				k.ack(xdstype.EndpointURL, "a", "b")
				k.put(edsCluster("a", 2))
				k.expect("Cluster a b", "ClusterLoadAssignment a")
			},
		},
		{"virtual hosts within their route configuration", subGroup, "VHDS … SotW: N/A", func(k *talk) {
			k.put(vhdsRoute("80", 1), host("80/b", 1), host("80/a", 1), host("90/a", 1))
			k.state(xdstype.RouteURL, "", "", "80")
			resp := k.next()
			want := string(route("80", 1).Body()) + members(host("80/a", 1), host("80/b", 1))
			if got := onlyBody(k.t, resp); got != want {
				k.t.Fatalf("assembled %q, want %q", got, want)
			}
			k.last[xdstype.RouteURL] = k.m.subs[xdstype.RouteURL].sent.Nonce
			k.ack(xdstype.RouteURL, "80")
			k.expect()
			k.put(host("90/a", 2))
			k.expect()
			k.put(host("80/a", 2))
			if got := onlyBody(k.t, k.next()); !strings.Contains(got, members(host("80/a", 2), host("80/b", 1))) {
				k.t.Errorf("assembled %q", got)
			}
			k.del(xdstype.VirtualHostURL, "80/b")
			if got := onlyBody(k.t, k.next()); !strings.HasSuffix(got, members(host("80/a", 2))) {
				k.t.Errorf("assembled %q", got)
			}
		}},
		{
			"members wait for their clusters",
			subSequel,
			"routes are not warmed, i.e., the management plane must ensure that clusters referenced by a route are in place",
			func(k *talk) {
				k.put(vhdsRoute("80", 1), cluster("a", 1))
				k.state(xdstype.ClusterURL, "", "")
				k.expect("Cluster a")
				k.ack(xdstype.ClusterURL)
				k.state(xdstype.RouteURL, "", "", "80")
				k.expect("RouteConfiguration 80")
				k.ack(xdstype.RouteURL, "80")
				k.put(host("80/h", 1, "b"), cluster("b", 1))
				k.expect("Cluster a b")
				k.ack(xdstype.ClusterURL)
				k.expect("RouteConfiguration 80")
			},
		},
		{
			"what members that changed twice needed is removed last",
			subSequel,
			"providing a CDS/EDS update with both X and Y, then the RDS update repointing from X to Y and then a CDS/EDS update dropping X",
			func(k *talk) {
				k.put(vhdsRoute("80", 1), host("80/h", 1, "x"), cluster("x", 1))
				k.state(xdstype.ClusterURL, "", "")
				k.expect("Cluster x")
				k.ack(xdstype.ClusterURL)
				k.state(xdstype.RouteURL, "", "", "80")
				k.expect("RouteConfiguration 80")
				k.ack(xdstype.RouteURL, "80")
				// The stream looks after both turns: the member's last change is younger than the removal.
				k.publish(gone("low", xdstype.ClusterURL, "x"), cluster("y", 1).On("low"), host("80/h", 2, "y").On("low"))
				k.put(host("80/h", 3, "y"))
				k.expect("Cluster x y")
				k.ack(xdstype.ClusterURL)
				k.expect("RouteConfiguration 80")
				k.ack(xdstype.RouteURL, "80")
				k.expect("Cluster y")
			},
		},
		{
			"what members need of a route configuration that is refused stays",
			subSequel,
			"providing a CDS/EDS update with both X and Y, then the RDS update repointing from X to Y and then a CDS/EDS update dropping X",
			func(k *talk) {
				k.put(vhdsRoute("80", 1), host("80/h", 1, "x"), cluster("x", 1))
				k.state(xdstype.ClusterURL, "", "")
				k.expect("Cluster x")
				k.ack(xdstype.ClusterURL)
				k.state(xdstype.RouteURL, "", "", "80")
				k.expect("RouteConfiguration 80")
				k.ack(xdstype.RouteURL, "80")
				k.publish(gone("low", xdstype.ClusterURL, "x"), cluster("y", 1).On("low"), host("80/h", 2, "y").On("low"))
				k.expect("Cluster x y")
				k.ack(xdstype.ClusterURL)
				k.expect("RouteConfiguration 80")
				k.nack(xdstype.RouteURL, "refused", "80")
				k.expect()
				k.put(cluster("y", 2))
				k.expect("Cluster x y")
				k.ack(xdstype.ClusterURL)
				k.put(host("80/h", 3, "y"))
				k.expect("RouteConfiguration 80")
				k.ack(xdstype.RouteURL, "80")
				k.expect("Cluster y")
			},
		},
	})
}

// members is the encoding of virtual hosts within a route configuration.
func onlyBody(t testing.TB, resp *wire.Response) string {
	t.Helper()
	var d discoveryv3.DiscoveryResponse
	if resp == nil {
		t.Fatal("nothing sent")
	}
	if err := proto.Unmarshal(resp.Data.Materialize(), &d); err != nil || len(d.Resources) != 1 {
		t.Fatalf("%v: %v", err, &d)
	}
	return string(d.Resources[0].Value)
}
