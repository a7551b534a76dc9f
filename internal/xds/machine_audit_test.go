package xds

import "testing"

// TestAuditOfABelief has a machine believe that its client holds what it was not sent: the audit finds it, and it is sent.
func TestAuditOfABelief(t *testing.T) {
	k := newTalk(t, true)
	k.put(cluster("a", 1), cluster("b", 1))
	k.ask(ClusterType)
	if k.m.audit(k.view(), &Audited{}) {
		t.Error("audited with something to send")
	}
	k.expect("Cluster a b")
	k.ack(ClusterType)
	if found := k.audit(); found.Count() > 0 {
		t.Fatalf("%+v", found)
	}
	sub := k.m.subs[ClusterType]
	for sl := range sub.slots.all() {
		if sl.name.text == "b" {
			sl.res = cluster("b", 7).resource()
			sub.put(sl.name, sl)
		}
	}
	found := k.audit()
	if found.Count() != 1 || found.Differences[0].Of != OfStream || found.Differences[0].Name != "b" ||
		found.Differences[0].Holds == found.Differences[0].Sees {
		t.Fatalf("%+v", found)
	}
	k.expect("Cluster b")
	k.ack(ClusterType)
	if found := k.audit(); found.Count() > 0 {
		t.Errorf("%+v", found)
	}
}
