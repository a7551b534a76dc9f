package table

import (
	"fmt"
	"strings"
	"testing"
)

// Origins follows reads down to inputs, through groups to their members. It stops at broad tables and at reads that found nothing.
func TestOrigins(t *testing.T) {
	s := New(Options{})
	defaults, endpoints, services := newStrs(s, "defaults"), newStrs(s, "endpoints"), newStrs(s, "services")
	defaults.SkipInOrigins()
	byService := Group(endpoints.Table, "by service", strings.Compare, func(_, v string) []string { return []string{v} })
	everything := Group(services.Table, "everything", strings.Compare,
		func(string, string) []string { return []string{"all"} }).SkipInOrigins()
	clusters := Derive(services.Table, "clusters", strings.Compare, same[int], func(r *Reader, k, _ string, emit func(string, int)) {
		Get(r, defaults.Table, "timeout")
		Get(r, everything, "all")
		rows, _ := Get(r, byService, k)
		Has(r, services.Table, "absent")
		emit(k, rows.Len())
	})
	views := Derive(clusters, "views", strings.Compare, same[int],
		func(_ *Reader, k string, v int, emit func(string, int)) { emit("v/"+k, v) })
	defaults.Set("timeout", "1s")
	for _, e := range []string{"e3", "e1", "e2"} {
		endpoints.Set(e, "a")
	}
	endpoints.Set("e4", "b")
	services.Set("a", "")
	services.Set("b", "")
	s.Settle()
	s.Read(func(tx *Tx) {
		check := func(got []Origin, want string) {
			t.Helper()
			if fmt.Sprint(got) != want {
				t.Errorf("got %v, want %s", got, want)
			}
		}
		check(Origins(tx, views, "v/a", nil), "[{endpoints e1} {endpoints e2} {endpoints e3} {services a}]")
		check(Origins(tx, views, "v/b", func(table string) bool { return table == "endpoints" }), "[{endpoints e4}]")
		check(Origins(tx, views, "v/c", nil), "[]")
		check(Origins(tx, defaults.Table, "timeout", nil), "[{defaults timeout}]")
		check(Origins(tx, everything, "all", nil), "[{services a} {services b}]")
		for _, c := range []struct {
			most, found int
			more        bool
		}{{0, 4, false}, {100, 4, false}, {3, 1, true}, {1, 0, true}} {
			if found, more := FirstOrigins(tx, views, "v/a", c.most); len(found) != c.found || more != c.more {
				t.Errorf("of %d rows: %v, more %t; want %d, %t", c.most, found, more, c.found, c.more)
			}
		}
	})
}
