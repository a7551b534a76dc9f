package etcd

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/source"
)

// Fragments of a revision that does not end are counted, even if their keys are empty.
func TestFragmentsWithoutKeys(t *testing.T) {
	r := &runner{s: &Source{o: Options{}.withDefaults()}}
	var rest fragments
	event := make([]*mvccpb.Event, 50_000)
	for i := range event {
		event[i] = &mvccpb.Event{Kv: &mvccpb.KeyValue{ModRevision: 9}}
	}
	for n := 0; ; n++ {
		err := r.answer(&etcdserverpb.WatchResponse{Fragment: true, Events: append([]*mvccpb.Event{}, event...)}, &rest)
		if err != nil {
			if !strings.Contains(err.Error(), "maxAnswerMiB") {
				t.Error(err)
			}
			return
		}
		if n > 10 {
			t.Fatalf("%d events of one revision are held", len(rest.events))
		}
	}
}

// places holds the reported problems, by place.
type places map[string][]mesh.Problem

// Apply implements source.Sink.
func (p places) Apply(u source.Update) {
	for at, list := range u.Problems {
		if p[at] = list; len(list) == 0 {
			delete(p, at)
		}
	}
}

// If there are many bad objects, the first have problems; the others are counted, and remembered once there is room.
func TestManyBadObjects(t *testing.T) {
	decoder, err := config.NewDecoder(config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := New("Etcd/liar", to("127.0.0.1:1"), decoder, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	r := newRunner(s)
	l, told := r.held, places{}
	s.out.Start(t.Context(), told, nil)
	const bad = 3000
	for i := range bad {
		at := fmt.Sprintf("%snetworking.istio.io/Gateway/shop/g%d", s.o.Root(), i)
		for _, v := range l.decode([]*mvccpb.KeyValue{{Key: []byte(at), Value: []byte("x: y"), ModRevision: int64(i + 1)}}, nil) {
			l.set(v, false)
		}
	}
	r.hand(true)
	texts := 0
	for _, list := range told {
		texts += len(list)
		if strings.Contains(list[0].Message, "2000 more refusals were only counted") {
			texts += bad
		}
	}
	if len(told) != 1001 || texts < bad {
		t.Errorf("%d places have problems, and how many do not is told: %t", len(told), texts >= bad)
	}
	for at := range l.entries {
		l.remove(at)
	}
	r.hand(true)
	if len(told) != 0 {
		t.Errorf("all are gone, and %d places have problems: %v", len(told), told)
	}
}

// The ledger counts the keys that it has no room for. A key that is written again counts once, and a deleted key does not count.
func TestWhatIsLeftOutIsCounted(t *testing.T) {
	decoder, err := config.NewDecoder(config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	o := to("127.0.0.1:1")
	o.MaxObjects = 4
	s, err := New("Etcd/large", o, decoder, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	l := newLedger(s)
	key := func(i int) string { return fmt.Sprintf("%snetworking.istio.io/Gateway/shop/g%d", s.o.Root(), i) }
	put := func(i int, created, modified int64, value string) {
		kv := &mvccpb.KeyValue{Key: []byte(key(i)), Value: []byte(value), CreateRevision: created, ModRevision: modified}
		l.set(l.decode([]*mvccpb.KeyValue{kv}, nil)[0], false)
	}
	want := func(n int) {
		t.Helper()
		if l.leftOut() != n {
			t.Fatalf("%d keys are left out, want %d", l.leftOut(), n)
		}
	}
	want(0)
	for i := range 10 {
		put(i, int64(i+1), int64(i+1), "x: y")
	}
	want(6)
	put(9, 10, 20, "x: z")
	want(6)
	l.remove(key(9))
	want(5)
	put(0, 1, 21, "x: "+strings.Repeat("x", int(s.o.MaxBytes)))
	want(6)
	put(0, 1, 22, "x: y")
	want(5)
	if !l.remove(key(0)) {
		t.Error("remove does not report that there is room")
	}
}
