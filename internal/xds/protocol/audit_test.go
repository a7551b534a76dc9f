package protocol

import (
	"testing"

	"fairway/internal/xds/library"
	"fairway/internal/xdstype"
)

// TestAuditOfAMachine has a machine believe that its client holds what it was not sent: the audit finds it, and it is sent.
func TestAuditOfAMachine(t *testing.T) {
	k := newTalk(t, true)
	k.put(cluster("a", 1), cluster("b", 1))
	k.ask(xdstype.ClusterURL)
	if k.m.Audit(k.view(), &library.Audited{}) {
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
		found.Differences[0].Holds == found.Differences[0].Sees {
		t.Fatalf("%+v", found)
	}
	k.expect("Cluster b")
	k.ack(xdstype.ClusterURL)
	if found := k.audit(); found.Count() > 0 {
		t.Errorf("%+v", found)
	}
}
