package xds

import (
	"testing"
	"time"
)

// truth is the tables that a house is published from.
type truth struct {
	attachments map[ProxyID]*Attachment
	rows        map[RowKey]Row
}

func (t truth) Attachment(id ProxyID) *Attachment { return t.attachments[id] }

func (t truth) Row(typ string, key ShelfKey, name string) Row { return t.rows[RowKey{typ, key, name}] }

// audited is a house with one proxy that holds a cluster and what it refers to.
type audited struct {
	*house
	truth
	client *deltaStream
	conn   uint64
}

func newAudited(t *testing.T) *audited {
	a := &audited{house: newHouse(t, Options{}), truth: truth{map[ProxyID]*Attachment{}, map[RowKey]Row{}}}
	a.hooks.heard = make(chan Acked, 100)
	a.attach("p", "all")
	at := &Attachment{Stacks: map[string][]ShelfKey{}}
	for _, typ := range allTypes {
		at.Stacks[typ] = []ShelfKey{"all"}
	}
	a.attachments["p"] = at
	a.state(cluster("a", 1), cluster("b", 1))
	a.put(cluster("a", 1), cluster("b", 1))
	a.client = a.delta(patience(t))
	a.client.ask("p", ClusterType)
	a.client.expect("Cluster a b")
	a.rest()
	a.conn = a.srv.Connections()[0]
	return a
}

// state has the tables say that these are on the shelf.
func (a *audited) state(specs ...spec) {
	for _, s := range specs {
		r := s.resource()
		a.rows[RowKey{r.Type(), "all", r.Name}] = Row{Has: true, Version: r.version}
	}
}

// rest waits until the proxy has acknowledged everything.
func (a *audited) rest() {
	a.t.Helper()
	if err := a.srv.Wait(patience(a.t), a.lib.Turn()); err != nil {
		a.t.Fatal(err)
	}
}

func (a *audited) look() Audited {
	a.t.Helper()
	found, ok := a.srv.Audit(a.conn, a.truth, NewPass())
	if !ok {
		a.t.Fatal("no such stream")
	}
	return found
}

// quiet expects that nothing is found.
func (a *audited) quiet() {
	a.t.Helper()
	a.rest()
	if found := a.look(); !found.Done || found.Count() > 0 {
		a.t.Errorf("%+v, want nothing to be found", found)
	}
	if s := a.srv.Status()[0]; !s.Synced || !s.Compared {
		a.t.Errorf("%+v, want it compared", s)
	}
}

func TestAuditOfAStream(t *testing.T) {
	a := newAudited(t)
	if s := a.srv.Status()[0]; s.Compared {
		t.Error("compared before anybody did")
	}
	a.quiet()

	// The stream took something for sent that was not.
	st := a.srv.all()[0]
	st.mu.Lock()
	sub := st.machine.subs[ClusterType]
	for sl := range sub.slots.all() {
		if sl.name.text == "b" {
			sl.res = cluster("b", 7).resource()
			sub.put(sl.name, sl)
		}
	}
	st.mu.Unlock()
	found := a.look()
	if found.Count() != 1 || found.Differences[0].Of != OfStream || found.Differences[0].Name != "b" ||
		found.Differences[0].Holds == found.Differences[0].Sees {
		t.Fatalf("%+v", found)
	}
	a.client.expect("Cluster b")
	a.quiet()
	if s := a.srv.Status()[0]; s.Diverged != 1 {
		t.Errorf("the status tells of %d differences", s.Diverged)
	}

	// What is asked for or sent has not been compared.
	a.state(cluster("b", 2))
	a.put(cluster("b", 2))
	a.client.expect("Cluster b")
	a.rest()
	if s := a.srv.Status()[0]; s.Compared {
		t.Error("compared, though something was sent since")
	}
	a.quiet()
}

// A proxy that sees a shelf which is not the one of that name any more hears nothing; the audit finds it and attaches it again.
func TestAuditOfAnAttachment(t *testing.T) {
	a := newAudited(t)
	a.lib.mu.Lock()
	id := shelfID{ClusterType, "all"}
	lost := a.lib.shelves[id]
	delete(a.lib.shelves, id) // as a shelf that was retired too early
	a.lib.mu.Unlock()
	a.put(cluster("a", 1), cluster("b", 2), cluster("c", 1))
	a.state(cluster("b", 2), cluster("c", 1))
	a.rest()
	if s := a.srv.Status()[0]; !s.Synced {
		t.Fatalf("%+v: it hears nothing, and has nothing to do", s)
	}
	found := a.look()
	if found.Count() == 0 || found.Differences[0].Of != OfAttachment || found.Differences[0].Type != ClusterType {
		t.Fatalf("%+v", found)
	}
	a.client.expect("Cluster b c")
	a.quiet()
	if a.lib.mu.RLock(); lost.refs != 0 {
		t.Errorf("the lost shelf has %d references", lost.refs)
	}
	a.lib.mu.RUnlock()
}

// What is published otherwise than the tables have it is named, to be published again; what may not be sent stays.
func TestAuditOfAShelf(t *testing.T) {
	a := newAudited(t)
	a.state(cluster("a", 9))
	delete(a.rows, RowKey{ClusterType, "all", "b"})
	pass := NewPass()
	found, _ := a.srv.Audit(a.conn, a.truth, pass)
	if found.Count() != 2 || len(found.Rows) != 2 || found.Differences[0].Of != OfShelf {
		t.Fatalf("%+v", found)
	}
	if again, _ := a.srv.Audit(a.conn, a.truth, pass); again.Count() > 0 {
		t.Errorf("a shelf is compared twice in a pass: %+v", again)
	}
	a.rows[RowKey{ClusterType, "all", "a"}] = Row{Kept: true}
	a.rows[RowKey{ClusterType, "all", "b"}] = Row{Kept: true}
	a.quiet()
}

// A stream with something under way is left alone, and one that is gone is no stream.
func TestAuditOfAStreamAtWork(t *testing.T) {
	a := newAudited(t)
	a.state(cluster("a", 2))
	a.put(cluster("a", 2))
	if _, err := a.client.Recv(); err != nil { // and no word of it
		t.Fatal(err)
	}
	if found := a.look(); found.Done || found.Count() > 0 {
		t.Errorf("%+v, want it left alone", found)
	}
	if _, ok := a.srv.Audit(a.conn+1, a.truth, NewPass()); ok {
		t.Error("audited a stream that is not there")
	}
}

// BenchmarkAudit: what one stream of a large mesh costs.
func BenchmarkAudit(b *testing.B) {
	for _, delta := range []bool{true, false} {
		r := newRig(b, delta)
		var specs []spec
		for i := range 5000 {
			specs = append(specs, cluster(string(rune('a'+i%26))+time.Duration(i).String(), 1))
		}
		r.put(specs...)
		c := newClient(b, delta)
		c.start(ClusterType)
		for _, q := range c.out {
			if err := r.receive(q); err != nil {
				b.Fatal(err)
			}
		}
		for resp := r.next(); resp != nil; resp = r.next() {
			continue
		}
		b.Run(map[bool]string{true: "delta", false: "sotw"}[delta], func(b *testing.B) {
			for b.Loop() {
				if found := r.audit(); found.Count() > 0 {
					b.Fatalf("%+v", found)
				}
			}
		})
	}
}
