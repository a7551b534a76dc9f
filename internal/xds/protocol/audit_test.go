package protocol

import (
	"testing"

	"fairway/internal/xds/library"
	"fairway/internal/xds/slots"
	"fairway/internal/xdstype"
)

// TestAuditOfNames has a machine believe that its client holds another version of resources that it subscribed to by name.
func TestAuditOfNames(t *testing.T) {
	k := newTalk(t, true)
	k.put(load("a", 1), load("b", 1))
	k.ask(xdstype.EndpointURL, "a", "b")
	k.expect("ClusterLoadAssignment a b")
	k.ack(xdstype.EndpointURL)
	sub := k.m.subs[xdstype.EndpointURL]
	sl := k.slot(xdstype.EndpointURL, "b")
	sl.Res = load("b", 7).Resource()
	sub.put(sl.Name, sl)
	if found := k.audit(); found.Count() != 1 || found.Differences[0].Name != "b" {
		t.Fatalf("%+v", found)
	}
	k.expect("ClusterLoadAssignment b")
}

// TestAuditOfAMachine has a machine believe that its client holds resources that were not sent: the audit finds them, and they are
// sent.
func TestAuditOfAMachine(t *testing.T) {
	k := newTalk(t, true)
	k.put(cluster("a", 1), cluster("b", 1))
	k.ask(xdstype.ClusterURL)
	if k.m.Audit(k.view(), slots.NewPass(), &library.Audited{}) {
		t.Error("audited with something to send")
	}
	k.expect("Cluster a b")
	k.ack(xdstype.ClusterURL)
	if found := k.audit(); found.Count() > 0 {
		t.Fatalf("%+v", found)
	}
	sub := k.m.subs[xdstype.ClusterURL]
	for sl := range sub.slots.All() {
		if sl.Name.Text() == "b" {
			sl.Res = cluster("b", 7).Resource()
			sub.put(sl.Name, sl)
		}
	}
	found := k.audit()
	if found.Count() != 1 || found.Differences[0].Of != library.OfStream || found.Differences[0].Name != "b" ||
		found.Differences[0].FoundVersion == found.Differences[0].WantVersion {
		t.Fatalf("%+v", found)
	}
	k.expect("Cluster b")
	k.ack(xdstype.ClusterURL)
	if found := k.audit(); found.Count() > 0 {
		t.Errorf("%+v", found)
	}
}

// TestAuditComparesOnce: within a pass, what a client holds is compared once while neither that nor the tables change. A change of either
// is found.
func TestAuditComparesOnce(t *testing.T) {
	k := newTalk(t, true)
	k.put(cluster("a", 1), cluster("b", 1))
	k.ask(xdstype.ClusterURL)
	k.expect("Cluster a b")
	k.ack(xdstype.ClusterURL)
	pass := slots.NewPass()
	audit := func(pass *slots.Pass) int {
		t.Helper()
		var out library.Audited
		if !k.m.Audit(k.view(), pass, &out) {
			t.Fatal("not audited")
		}
		return out.Count()
	}
	if n := audit(pass); n != 0 || pass.Views() != 1 {
		t.Fatalf("%d differences, %d views are remembered", n, pass.Views())
	}
	sub := k.m.subs[xdstype.ClusterURL]
	for page := range sub.slots.Pages() { // nothing writes to a shared page: so a look at it shows
		for i := range page {
			if page[i].Name != nil && page[i].Name.Text() == "b" {
				page[i].Res = cluster("b", 7).Resource()
			}
		}
	}
	if n := audit(pass); n != 0 {
		t.Errorf("%d differences: pages that were compared are compared again", n)
	}
	if n := audit(slots.NewPass()); n != 1 {
		t.Errorf("%d differences in another pass, want one", n)
	}
	k.expect("Cluster b")
	k.ack(xdstype.ClusterURL)
	k.put(cluster("c", 1))
	k.expect("Cluster c")
	k.ack(xdstype.ClusterURL)
	if n := audit(pass); n != 0 {
		t.Errorf("%d differences after a change", n)
	}
	for sl := range sub.slots.All() {
		if sl.Name.Text() == "c" {
			sl.Res = cluster("c", 7).Resource()
			sub.put(sl.Name, sl)
		}
	}
	if n := audit(pass); n != 1 {
		t.Errorf("%d differences in what the client holds now, want one", n)
	}
}
