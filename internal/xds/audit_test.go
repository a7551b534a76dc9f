package xds

import (
	"maps"
	"testing"

	"fairway/internal/xds/library"
	"fairway/internal/xdstype"
)

// tables has the rows that a fixture is published from.
type tables struct {
	attachments map[library.ProxyID]*library.Attachment
	rows        map[library.RowKey]library.Row
}

func (t tables) Attachment(id library.ProxyID) *library.Attachment { return t.attachments[id] }

func (t tables) Row(typ string, key library.ShelfKey, name string) library.Row {
	return t.rows[library.RowKey{Type: typ, Shelf: key, Name: name}]
}

// audited is a fixture with one proxy that holds a cluster and its load assignment.
type audited struct {
	*fixture
	tables
	client *deltaStream
	conn   uint64
}

func newAudited(t *testing.T) *audited {
	a := &audited{
		fixture: newFixture(t, Options{}),
		tables:  tables{map[library.ProxyID]*library.Attachment{}, map[library.RowKey]library.Row{}},
	}
	a.hooks.heard = make(chan Acked, 100)
	a.attach("p", "all")
	at := &library.Attachment{Stacks: map[string][]library.ShelfKey{}}
	for _, typ := range allTypes {
		at.Stacks[typ] = []library.ShelfKey{"all"}
	}
	a.attachments["p"] = at
	a.state(cluster("a", 1), cluster("b", 1))
	a.put(cluster("a", 1), cluster("b", 1))
	a.client = a.delta(patience(t))
	a.client.ask("p", xdstype.ClusterURL)
	a.client.expect("Cluster a b")
	a.rest()
	a.conn = a.srv.Connections()[0]
	return a
}

// state has the tables say that these are on the shelf.
func (a *audited) state(specs ...spec) {
	for _, s := range specs {
		r := s.Resource()
		a.rows[library.RowKey{Type: r.Type(), Shelf: "all", Name: r.Name}] = library.Row{Has: true, Version: r.Version()}
	}
}

// rest waits until the proxy has acknowledged everything.
func (a *audited) rest() {
	a.t.Helper()
	if err := a.srv.Wait(patience(a.t), a.lib.Turn()); err != nil {
		a.t.Fatal(err)
	}
}

func (a *audited) look() library.Audited {
	a.t.Helper()
	found, ok := a.srv.Audit(a.conn, a.tables, NewPass())
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

	// The stream took a turn for one that it had looked at, and overlooked what changed in it.
	st := a.srv.all()[0]
	st.mu.Lock()
	st.viewer.Read(func(v *library.View) {
		next := *v
		next.Turn++
		st.machine.Next(&next)
	})
	st.mu.Unlock()
	a.state(cluster("b", 7))
	a.put(cluster("b", 7))
	found := a.look()
	if found.Count() != 1 || found.Differences[0].Of != library.OfStream || found.Differences[0].Name != "b" ||
		found.Differences[0].FoundVersion == found.Differences[0].WantVersion {
		t.Fatalf("%+v", found)
	}
	a.client.expect("Cluster b")
	a.quiet()
	if s := a.srv.Status()[0]; s.Diverged != 1 {
		t.Errorf("the status tells of %d differences", s.Diverged)
	}

	// The stream looks at a turn, and has nothing to send.
	a.turn++
	a.lib.Publish(a.turn, []library.Change{cluster("c", 1).On("all"), gone("all", xdstype.ClusterURL, "c")})
	a.rest()
	if s := a.srv.Status()[0]; !s.Compared {
		t.Error("not compared, though nothing was asked for or sent since")
	}

	// A resource that was requested or sent since has not been compared.
	a.state(cluster("b", 2))
	a.put(cluster("b", 2))
	a.client.expect("Cluster b")
	a.rest()
	if s := a.srv.Status()[0]; s.Compared {
		t.Error("compared, though something was sent since")
	}
	a.quiet()
	a.state(cluster("b", 3))
	a.put(cluster("b", 3))
	if _, err := a.client.Recv(); err != nil {
		t.Fatal(err)
	}
	if s := a.srv.Status()[0]; s.Compared {
		t.Error("compared, though something was sent since, which has no answer yet")
	}
}

// A proxy that sees another shelf than the tables say hears nothing of theirs; the audit finds it and attaches it again.
func TestAuditOfAnAttachment(t *testing.T) {
	a := newAudited(t)
	other := &library.Attachment{Stacks: maps.Clone(a.attachments["p"].Stacks)}
	other.Stacks[xdstype.ClusterURL] = []library.ShelfKey{"other"}
	a.turn++
	a.lib.Publish(a.turn, nil, library.Attach{Proxy: "p", To: other}) // and the tables know nothing of it
	a.client.expect("Cluster -a -b")
	a.put(cluster("a", 1), cluster("b", 2), cluster("c", 1))
	a.state(cluster("b", 2), cluster("c", 1))
	a.rest()
	if s := a.srv.Status()[0]; !s.Synced {
		t.Fatalf("%+v: it hears nothing, and has nothing to do", s)
	}
	found := a.look()
	if found.Count() != 1 || found.Differences[0].Of != library.OfAttachment || found.Differences[0].Type != xdstype.ClusterURL {
		t.Fatalf("%+v", found)
	}
	a.client.expect("Cluster a b c")
	a.quiet()
}

// TestAuditOfAShelf: the audit names rows that are published otherwise than in the tables, to be published again. Resources that
// may not be sent stay.
func TestAuditOfAShelf(t *testing.T) {
	a := newAudited(t)
	a.state(cluster("a", 9))
	delete(a.rows, library.RowKey{Type: xdstype.ClusterURL, Shelf: "all", Name: "b"})
	pass := NewPass()
	found, _ := a.srv.Audit(a.conn, a.tables, pass)
	if found.Count() != 2 || len(found.Rows) != 2 || found.Differences[0].Of != library.OfShelf {
		t.Fatalf("%+v", found)
	}
	if again, _ := a.srv.Audit(a.conn, a.tables, pass); again.Count() > 0 {
		t.Errorf("a shelf is compared twice in a pass: %+v", again)
	}
	a.rows[library.RowKey{Type: xdstype.ClusterURL, Shelf: "all", Name: "a"}] = library.Row{Kept: true}
	a.rows[library.RowKey{Type: xdstype.ClusterURL, Shelf: "all", Name: "b"}] = library.Row{Kept: true}
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
	if _, ok := a.srv.Audit(a.conn+1, a.tables, NewPass()); ok {
		t.Error("audited a stream that is not there")
	}
}
