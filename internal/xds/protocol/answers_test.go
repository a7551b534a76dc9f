package protocol

import (
	"fmt"
	"slices"
	"testing"

	"fairway/internal/xds/library"
	"fairway/internal/xds/slots"
	"fairway/internal/xds/wire"
	"fairway/internal/xdstype"
)

// attachEach gives the proxy the low shelf of each type, and more shelves of one type.
func (k *talk) attachEach(typ string, keys ...library.ShelfKey) {
	at := k.attachment()
	at.Stacks[typ] = keys
	k.turn++
	k.lib.Publish(k.turn, nil, library.Attach{Proxy: "p", To: at})
}

// acked returns the ACK events since the last call.
func (k *talk) acked() (out []Event) {
	all := append(k.events, k.m.Events()...)
	k.events = nil
	return slices.DeleteFunc(all, func(e Event) bool { return e.Kind != EventAck })
}

// TestAcksTellWhenTheOldestChangeWasMade: the event of an ACK has the turn of the oldest change in the response, so that its age can be
// measured; a response to a subscription has none.
func TestAcksTellWhenTheOldestChangeWasMade(t *testing.T) {
	k := newTalk(t, true)
	want := func(resources int, turn uint64) {
		t.Helper()
		if have := k.acked(); len(have) != 1 || have[0].Resources != resources || have[0].Turn != turn {
			t.Errorf("ACKs are %+v, want %d resources since turn %d", have, resources, turn)
		}
	}
	k.put(secret("a", 1), secret("b", 1))
	k.ask(xdstype.SecretURL, "a", "b", "c")
	k.expect("Secret a b -c")
	k.ack(xdstype.SecretURL)
	want(3, 0)
	k.put(secret("b", 2))
	oldest := k.turn
	if k.view(); k.m.Turn() != oldest-1 {
		t.Errorf("the machine has seen turn %d, not %d", k.m.Turn(), oldest-1)
	}
	k.put(secret("a", 2))
	k.expect("Secret b a")
	k.ack(xdstype.SecretURL)
	want(2, oldest)

	// A refused version is behind since the turn in which it was due.
	k.ask(xdstype.SecretURL, "a")
	asked := k.turn
	k.expect("Secret a")
	k.nack(xdstype.SecretURL, "no")
	k.put(secret("b", 3))
	k.put(secret("a", 3))
	k.expect("Secret b a")
	k.ack(xdstype.SecretURL)
	want(2, asked)
}

// TestStatusOfARefusal: the status has the client's words while something that it refused is quarantined, and no longer.
func TestStatusOfARefusal(t *testing.T) {
	k := newTalk(t, true)
	want := func(rejected string, refused []string, resources, pending int) {
		t.Helper()
		st := k.m.Status()[xdstype.SecretURL]
		if st.Rejected != rejected || !slices.Equal(k.m.Refused(), refused) || st.Pending != pending ||
			k.m.holds(xdstype.SecretURL) != resources {
			t.Errorf("the status is %+v, refused are %v; want %q, %v, %d resources, %d pending", st, k.m.Refused(), rejected, refused,
				resources, pending)
		}
	}
	k.put(secret("a", 1), secret("b", 1))
	k.ask(xdstype.SecretURL, "a", "b")
	want("", nil, 0, 2)
	k.expect("Secret a b")
	want("", nil, 2, 0)
	k.ack(xdstype.SecretURL)
	k.put(secret("a", 2))
	k.expect("Secret a")
	k.nack(xdstype.SecretURL, "no key")
	want("no key", []string{xdstype.SecretURL}, 2, 0)
	if held := k.m.ClientResources(xdstype.SecretURL); len(held) != 2 || !held[0].Same(secret("a", 1).Resource()) {
		t.Errorf("the client holds %v", held)
	}
	k.put(secret("a", 3))
	k.expect("Secret a")
	k.ack(xdstype.SecretURL)
	want("", nil, 2, 0)
	if k.m.ClientResources("unknown") != nil {
		t.Error("the client holds resources of a type that it did not ask for")
	}
}

// TestARefusedRemoval: if a client refuses a response, it goes on holding what the response removed, until it takes the removal.
func TestARefusedRemoval(t *testing.T) {
	k := newTalk(t, true)
	k.put(secret("a", 1), secret("b", 1))
	k.ask(xdstype.SecretURL, "a", "b")
	k.expect("Secret a b")
	k.ack(xdstype.SecretURL)
	k.publish(secret("a", 2).On("low"), gone("low", xdstype.SecretURL, "b"))
	k.expect("Secret a -b")
	k.nack(xdstype.SecretURL, "no")
	held := k.m.ClientResources(xdstype.SecretURL)
	if len(held) != 2 || held[1].Name != "b" || k.m.Status()[xdstype.SecretURL].Pending != 1 {
		t.Errorf("the client holds %v, and the status is %+v", held, k.m.Status())
	}
	k.expect("Secret -b")
	k.ack(xdstype.SecretURL)
	if held := k.m.ClientResources(xdstype.SecretURL); len(held) != 1 || held[0].Name != "a" {
		t.Errorf("the client holds %v", held)
	}
	k.expect()
}

// TestNamesOfOthersQueueNothing: changes of names that a client is not subscribed to leave no trace in its stream.
func TestNamesOfOthersQueueNothing(t *testing.T) {
	k := newTalk(t, true)
	k.put(secret("a", 1))
	k.ask(xdstype.SecretURL, "a")
	k.expect("Secret a")
	k.ack(xdstype.SecretURL)
	before := k.m.Bytes()
	for range 3 {
		var all []spec
		for i := range 200 {
			all = append(all, secret(string(rune(0x4e00+i)), k.turn))
		}
		k.put(all...)
		k.viewer.Read(k.m.pull)
		if st := k.m.Status()[xdstype.SecretURL]; st.Pending != 0 || k.m.Bytes() != before {
			t.Fatalf("%d names are pending, and the state takes %d bytes, not %d", st.Pending, k.m.Bytes(), before)
		}
	}
	k.expect()
}

// TestLoadAssignmentsGoAfterTheirClusters: the endpoints of a cluster that is still in force are not taken away.
func TestLoadAssignmentsGoAfterTheirClusters(t *testing.T) {
	runScenarios(t, true, []scenario{{
		"a cluster, its endpoints and its last route go in one turn",
		subSequel,
		"Stale CDS clusters and related EDS endpoints (ones no longer being referenced) can then be removed",
		func(k *talk) {
			k.put(edsCluster("a", 1), load("a", 1), host("r/h", 1, "a"))
			k.ask(xdstype.ClusterURL)
			k.ask(xdstype.EndpointURL, "a")
			k.expect("Cluster a", "ClusterLoadAssignment a")
			k.ack(xdstype.ClusterURL)
			k.ack(xdstype.EndpointURL)
			k.ask(xdstype.VirtualHostURL)
			k.expect("VirtualHost r/h")
			k.ack(xdstype.VirtualHostURL)
			k.publish(gone("low", xdstype.ClusterURL, "a"), gone("low", xdstype.EndpointURL, "a"), host("r/h", 2).On("low"))
			k.expect("VirtualHost r/h")
			k.ack(xdstype.VirtualHostURL)
			k.expect("Cluster -a")
			k.ack(xdstype.ClusterURL)
			k.expect("ClusterLoadAssignment -a")
		},
	}})
}

// TestFirstAnswersMayLeaveThingsInForce: before a state-of-the-world client has ACKed the first listeners, it may have others, from before
// this stream. An incremental client has reported all that it has.
func TestFirstAnswersMayLeaveThingsInForce(t *testing.T) {
	const dropX = "Stale CDS clusters … (ones no longer being referenced) can then be removed"
	runScenarios(t, false, []scenario{
		{"the first listeners are on the way", subSequel, dropX, func(k *talk) {
			k.put(cluster("x", 1))
			k.state(xdstype.ClusterURL, "", "")
			k.expect("Cluster x")
			k.ack(xdstype.ClusterURL)
			k.state(xdstype.ListenerURL, "", "")
			k.expect("Listener")
			k.del(xdstype.ClusterURL, "x")
			k.expect()
			k.ack(xdstype.ListenerURL)
			k.expect("Cluster")
		}},
		{"a route configuration that was asked for comes into being", subSequel, dropX, func(k *talk) {
			k.put(cluster("x", 1), cluster("y", 1))
			k.state(xdstype.ClusterURL, "", "")
			k.expect("Cluster x y")
			k.ack(xdstype.ClusterURL)
			k.state(xdstype.RouteURL, "", "", "r") // the client may have one of another server's
			k.expect()
			k.del(xdstype.ClusterURL, "x")
			k.put(route("r", 1, "y"))
			k.expect("RouteConfiguration r")
			k.ack(xdstype.RouteURL, "r")
			k.expect("Cluster y")
		}},
	})
	runScenarios(t, true, []scenario{{"the first listeners are on the way", subSequel, dropX, func(k *talk) {
		k.put(cluster("x", 1))
		k.ask(xdstype.ClusterURL)
		k.expect("Cluster x")
		k.ack(xdstype.ClusterURL)
		k.ask(xdstype.ListenerURL)
		k.expect("Listener")
		k.del(xdstype.ClusterURL, "x")
		k.expect("Cluster -x")
	}}})
}

// TestOtherShelvesOfMembers: a state-of-the-world client gets a route configuration again when the proxy sees other virtual hosts, and
// only then.
func TestOtherShelvesOfMembers(t *testing.T) {
	runScenarios(t, false, []scenario{{"VHDS … SotW: N/A", subGroup, "VHDS … SotW: N/A", func(k *talk) {
		k.publish(vhdsRoute("80", 1).On("low"), host("80/a", 1).On("low"), host("80/b", 1).On("high"))
		k.state(xdstype.RouteURL, "", "", "80")
		k.expect("RouteConfiguration 80")
		k.ack(xdstype.RouteURL, "80")
		k.attachEach(xdstype.VirtualHostURL, "low", "high")
		if got, want := onlyBody(t, k.next()), string(route("80", 1).Body())+members(host("80/a", 1), host("80/b", 1)); got != want {
			t.Fatalf("assembled %q, want %q", got, want)
		}
		k.state(xdstype.RouteURL, k.m.subs[xdstype.RouteURL].sent.Nonce, "", "80")
		k.attachEach(xdstype.ClusterURL, "low", "high")
		k.expect("RouteConfiguration 80") // back to one virtual host
		k.ack(xdstype.RouteURL, "80")
		k.attachEach(xdstype.ListenerURL, "low", "high")
		k.expect()
		k.put(host("of no route configuration", 1))
		k.expect()
		if sub := k.m.subs[xdstype.RouteURL]; sub.queue != nil {
			t.Errorf("names wait: %v", sub.queue)
		}
	}}})
}

// TestMadeUpLoadAssignments: a state-of-the-world client whose cluster waits for a load assignment that has gone gets the one that it has,
// or one without endpoints.
func TestMadeUpLoadAssignments(t *testing.T) {
	k := newTalk(t, false)
	next := func(typ string) got {
		t.Helper()
		resp := k.next()
		if resp == nil || resp.Type != typ {
			t.Fatalf("sent %+v, not of %s", resp, typ)
		}
		g := decodeResponse(t, false, resp.Data)
		k.last[typ], k.vers[typ] = g.nonce, g.version
		return g
	}
	k.put(edsCluster("a", 1), edsCluster("b", 1), load("a", 7))
	k.state(xdstype.ClusterURL, "", "")
	k.expect("Cluster a b")
	k.ack(xdstype.ClusterURL)
	k.state(xdstype.EndpointURL, "", "", "a", "b")
	g := next(xdstype.EndpointURL)
	if string(g.bodies["a"]) != string(load("a", 7).Body()) || string(g.bodies["b"]) != string(library.NoEndpoints("b").Body()) {
		t.Errorf("sent %q", g.bodies)
	}
	k.ack(xdstype.EndpointURL, "a", "b")
	k.publish(edsCluster("a", 2).On("low"), gone("low", xdstype.EndpointURL, "a"))
	next(xdstype.ClusterURL)
	if g := next(xdstype.EndpointURL); len(g.names) != 1 || string(g.bodies["a"]) != string(load("a", 7).Body()) {
		t.Errorf("sent %q", g.bodies)
	}
}

// TestAuditOfWhatIsMissing has a machine not know that its client lacks a resource, or holds one that there is not.
func TestAuditOfWhatIsMissing(t *testing.T) {
	for _, delta := range []bool{true, false} {
		k := newTalk(t, delta)
		k.put(cluster("a", 1), cluster("b", 1), secret("s", 1), secret("t", 1))
		request := func(typ string, names ...string) {
			k.deliver(&wire.Request{Delta: delta, Type: typ, Subscribe: names, Nonce: k.last[typ]})
		}
		request(xdstype.ClusterURL)
		request(xdstype.SecretURL, "s", "t")
		k.expect("Cluster a b", "Secret s t")
		request(xdstype.ClusterURL)
		if delta {
			request(xdstype.SecretURL)
		} else {
			request(xdstype.SecretURL, "s", "t")
		}
		if !k.viewer.Read(func(v *library.View) {
			if out := (library.Audited{}); !k.m.Audit(v, slots.NewPass(), &out) || out.Count() > 0 {
				t.Errorf("delta %v: %+v", delta, out)
			}
		}) {
			t.Fatal("not attached")
		}
		for typ, name := range map[string]string{xdstype.ClusterURL: "b", xdstype.SecretURL: "t"} {
			sl := k.slot(typ, name)
			sl.Flags, sl.Res = sl.Flags&^(has|confirmed), nil
			k.m.subs[typ].put(sl.Name, sl)
		}
		extra := k.view().Enter("c")
		sl := k.m.subs[xdstype.ClusterURL].slots.Get(extra)
		sl.Flags, sl.Res = has|confirmed, nil
		k.m.subs[xdstype.ClusterURL].put(extra, sl)
		found := k.audit()
		var names []string
		for _, d := range found.Differences {
			names = append(names, d.Name+" "+map[bool]string{true: "is missing"}[d.FoundVersion == "" && d.WantVersion != ""])
		}
		slices.Sort(names)
		if !slices.Equal(names, []string{"b is missing", "c ", "t is missing"}) || found.Counts[library.OfStream] != 3 {
			t.Errorf("delta %v: found %q, %+v", delta, names, found)
		}
		if k.m.Synced() {
			t.Errorf("delta %v: in sync, though resources are missing", delta)
		}
		if delta {
			k.expect("Cluster b -c", "Secret t")
		} else {
			k.expect("Cluster a b", "Secret t")
		}
	}
}

// TestAuditOfVirtualHosts: a virtual host is owed to a client only if it belongs to a route configuration that asks for its virtual hosts.
func TestAuditOfVirtualHosts(t *testing.T) {
	k := newTalk(t, true)
	k.put(vhdsRoute("80", 1), route("90", 1), host("80/a", 1), host("90/a", 1), host("70/a", 1))
	k.ask(xdstype.RouteURL, "80", "90")
	k.ask(xdstype.VirtualHostURL)
	k.expect("RouteConfiguration 80 90", "VirtualHost 80/a 90/a")
	k.ack(xdstype.RouteURL)
	k.ack(xdstype.VirtualHostURL)
	for _, name := range []string{"80/a", "90/a"} {
		k.m.subs[xdstype.VirtualHostURL].drop(k.view().Find(name))
	}
	if found := k.audit(); found.Count() != 1 || found.Differences[0].Name != "80/a" {
		t.Errorf("%+v", found)
	}
	k.expect("VirtualHost 80/a")
}

// TestARefusedRemovalAlone: a removal that a client refuses for no other resource counts as done, or it would be sent for ever.
func TestARefusedRemovalAlone(t *testing.T) {
	k := newTalk(t, true)
	k.put(secret("a", 1), secret("b", 1))
	k.ask(xdstype.SecretURL, "a", "b")
	k.expect("Secret a b")
	k.ack(xdstype.SecretURL)
	k.del(xdstype.SecretURL, "b")
	k.expect("Secret -b")
	k.nack(xdstype.SecretURL, "no")
	k.expect()
	if have := k.rejected(); have != nil || len(k.m.Refused()) > 0 || !k.m.Synced() {
		t.Errorf("rejected %q, refused %v, in sync: %v", have, k.m.Refused(), k.m.Synced())
	}
	k.put(secret("b", 1))
	k.expect("Secret b")
}

// TestAnAnswerAnswersEarlierResponses: an ACK of a response takes those before it too, and a NACK refuses its own alone.
func TestAnAnswerAnswersEarlierResponses(t *testing.T) {
	k := newTalk(t, true)
	k.put(secret("a", 1), secret("b", 1))
	k.ask(xdstype.SecretURL, "a", "b")
	k.expect("Secret a b")
	k.put(secret("a", 2))
	k.expect("Secret a")
	k.put(secret("b", 2))
	k.expect("Secret b")
	k.nack(xdstype.SecretURL, "no b")
	k.expect()
	var kinds []EventKind
	for _, e := range k.events {
		kinds = append(kinds, e.Kind)
	}
	if want := []EventKind{EventAck, EventAck, EventNack, EventReject}; !slices.Equal(kinds, want) {
		t.Errorf("events are %+v", k.events)
	}
	held := k.m.ClientResources(xdstype.SecretURL)
	if len(held) != 2 || !held[0].Same(secret("a", 2).Resource()) || !held[1].Same(secret("b", 1).Resource()) {
		t.Errorf("the client holds %v", held)
	}
}

// TestBoundsOfAStream: a stream ends if it subscribes to too many names, or to too many types that do not exist.
func TestBoundsOfAStream(t *testing.T) {
	for _, delta := range []bool{true, false} {
		k := newTalk(t, delta)
		k.m.limits.Names = 3
		ask := func(typ string, names ...string) error {
			return k.receive(&wire.Request{Delta: delta, Type: typ, Subscribe: names})
		}
		if err := ask(xdstype.SecretURL, "a", "b"); err != nil {
			t.Error(err)
		}
		if err := ask(xdstype.EndpointURL, "a"); err != nil {
			t.Errorf("three names, as many as may be: %v", err)
		}
		if err := ask(xdstype.ClusterURL); err != nil {
			t.Error(err)
		}
		err := ask(xdstype.RouteURL, "r")
		if err == nil || err.Error() != "the stream subscribes to 4 names, the limit is 3" {
			t.Errorf("a fourth name: %v", err)
		}
		k = newTalk(t, delta)
		for i := range maxUnknownTypes {
			for range 3 {
				if err := ask(fmt.Sprint("unknown/", i)); err != nil {
					t.Fatalf("unknown type %d: %v", i, err)
				}
			}
		}
		if err := ask(xdstype.SecretURL, "a"); err != nil {
			t.Error(err)
		}
		want := "the stream asks for more than 32 types that this server does not have"
		if err := ask("unknown/more"); err == nil || err.Error() != want {
			t.Errorf("one more unknown type: %v", err)
		}
	}
}

// TestWithheldTypes: a client gets nothing of a type that is withheld from it, whatever its shelves are.
func TestWithheldTypes(t *testing.T) {
	k := newTalk(t, true)
	k.m.limits.Withhold = func(typ string) bool { return typ == xdstype.SecretURL }
	k.put(secret("a", 1), load("a", 1))
	k.ask(xdstype.SecretURL, "a")
	k.ask(xdstype.EndpointURL, "a")
	k.expect("ClusterLoadAssignment a", "Secret -a")
	k.publish(secret("a", 2).On("high"), load("a", 2).On("high"))
	k.attach("low", "high")
	k.expect("ClusterLoadAssignment a")
}

// TestAResubscribedRouteTakesItsHosts: a client gives up a route configuration and asks for it again while it is on the way, and takes it
// before the new one is sent. Its virtual hosts went with the subscription, and are sent again, once.
func TestAResubscribedRouteTakesItsHosts(t *testing.T) {
	runScenarios(t, true, []scenario{{
		"asked for again while it is on the way",
		subSequel,
		"VHDS updates (if any) related to the newly added RouteConfigurations must arrive after RDS updates",
		func(k *talk) {
			k.put(vhdsRoute("80", 1), host("80/a", 1), host("90/a", 1))
			k.ask(xdstype.RouteURL, "80")
			k.ask(xdstype.VirtualHostURL)
			k.expect("RouteConfiguration 80", "VirtualHost 80/a")
			k.ack(xdstype.VirtualHostURL)
			first := k.last[xdstype.RouteURL]
			k.ask(xdstype.RouteURL, "-80")
			k.ask(xdstype.RouteURL, "80")
			k.answer(xdstype.RouteURL, "", first, nil)
			k.expect("RouteConfiguration 80", "VirtualHost 80/a")
			k.ack(xdstype.RouteURL)
			k.ack(xdstype.VirtualHostURL)
			k.expect()
		},
	}})
}

// TestHostsOfARefusedRoute: a client refuses the first version of a route configuration, and so drops the virtual hosts behind it. They are
// sent again behind the version that it takes.
func TestHostsOfARefusedRoute(t *testing.T) {
	runScenarios(t, true, []scenario{{
		"sent again before it was refused",
		subSequel,
		"VHDS updates (if any) related to the newly added RouteConfigurations must arrive after RDS updates",
		func(k *talk) {
			k.put(vhdsRoute("80", 1), vhdsRoute("90", 1), host("80/a", 1), host("90/a", 1))
			k.ask(xdstype.VirtualHostURL)
			k.expect("VirtualHost 80/a 90/a")
			k.ask(xdstype.RouteURL, "80", "90")
			k.expect("RouteConfiguration 80 90", "VirtualHost 80/a 90/a")
			first := k.last[xdstype.RouteURL]
			k.ack(xdstype.VirtualHostURL)
			k.put(vhdsRoute("80", 2))
			k.expect("RouteConfiguration 80")
			k.answer(xdstype.RouteURL, "no", first, nil)
			k.expect("VirtualHost 80/a")
			k.ack(xdstype.VirtualHostURL)
			k.ack(xdstype.RouteURL)
			k.expect("RouteConfiguration 90", "VirtualHost 90/a")
		},
	}})
}

// TestStaleReports: what a reconnecting client reports and no longer wants, or what was never published, is not kept.
func TestStaleReports(t *testing.T) {
	k := newTalk(t, true)
	k.put(secret("a", 1), secret("b", 1))
	k.initial(xdstype.SecretURL, []string{"a", "none"}, secret("a", 1), secret("b", 1), secret("gone", 1))
	k.expect("Secret -none")
	if st := k.m.Status()[xdstype.SecretURL]; k.m.holds(xdstype.SecretURL) != 1 || st.Pending != 0 {
		t.Errorf("the status is %+v", st)
	}
	k.del(xdstype.SecretURL, "b")
	k.expect()
	k = newTalk(t, true)
	k.put(listener("l", 1, ""))
	k.initial(xdstype.ClusterURL, nil, cluster("gone", 1))
	k.expect("Cluster")
	k.initial(xdstype.ListenerURL, nil)
	k.expect("Listener l")
	k.ack(xdstype.ClusterURL)
	k.expect("Cluster -gone") // the listener that is on the way is newer, and does not need it
}
