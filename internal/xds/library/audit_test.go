package library

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"fairway/internal/xdstype"
)

// TestRowsThatEqualTheTables: a row of the library equals that of the tables if clients see no difference, or if the tables may not send
// theirs.
func TestRowsThatEqualTheTables(t *testing.T) {
	res := NewResource(xdstype.ClusterURL, "a", 5, nil, ResourceOptions{})
	for name, r := range map[string]*row{"resource": {res: res}, "whiteout": {whiteout: true}, "tombstone": {}} {
		for _, c := range []struct {
			want Row
			on   string // the row that it equals
		}{
			{Row{Has: true, Version: 5}, "resource"},
			{Row{Has: true, Version: 6}, ""},
			{Row{Whiteout: true}, "whiteout"},
			{Row{Has: true, Version: 5, Whiteout: true}, "whiteout"},
			{Row{}, "tombstone"},
			{Row{Version: 5}, "tombstone"},
		} {
			if c.want.is(r) != (c.on == name) {
				t.Errorf("%+v equals a %s: %v", c.want, name, c.want.is(r))
			}
			if kept := (Row{Kept: true, Has: c.want.Has, Version: c.want.Version}); !kept.is(r) {
				t.Errorf("%+v does not stay as it is: %s", kept, name)
			}
		}
	}
}

// TestAuditOfShelves has the tables differ from the library: each different row is found once, however many proxies see its shelf.
func TestAuditOfShelves(t *testing.T) {
	lib := New()
	at := &Attachment{Stacks: map[string][]ShelfKey{xdstype.ClusterURL: {"low", "high"}, xdstype.SecretURL: {"low"}}}
	lib.Publish(1, []Change{
		put("low", xdstype.ClusterURL, "a", 1), put("low", xdstype.ClusterURL, "b", 1), put("low", xdstype.SecretURL, "s", 1),
		put("high", xdstype.ClusterURL, "a", 2), {Shelf: "high", Type: xdstype.ClusterURL, Name: "b", Whiteout: true},
		put("unseen", xdstype.ClusterURL, "u", 1),
	}, Attach{"p", at}, Attach{"q", at})
	m := &model{shelves: map[shelfID]*modelShelf{}, attached: map[ProxyID]*Attachment{"p": at, "q": at}}
	set := func(key ShelfKey, typ, name string, r modelRow) { m.shelf(shelfID{typ, key}).rows[name] = r }
	set("low", xdstype.ClusterURL, "a", modelRow{version: 1})
	set("low", xdstype.ClusterURL, "b", modelRow{version: 1})
	set("low", xdstype.SecretURL, "s", modelRow{version: 1})
	set("high", xdstype.ClusterURL, "a", modelRow{version: 2})
	set("high", xdstype.ClusterURL, "b", modelRow{whiteout: true})
	audit := func(tables Tables, pass *Pass) (out Audited) {
		for _, id := range []ProxyID{"p", "q"} {
			w := lib.Open(id)
			w.Read(func(v *View) {
				v.CompareStacks(tables.Attachment(id), &out)
				v.CompareShelves(tables, pass, &out)
			})
			w.Close()
		}
		return out
	}
	if out := audit(modelTables{model: m}, NewPass()); out.Count() != 0 || out.Rows != nil || out.Differences != nil {
		t.Errorf("equal, and found are %+v", out)
	}
	different := modelTables{m, func(_ string, key ShelfKey, name string, r Row) Row {
		switch {
		case key == "low" && name == "a":
			return Row{Has: true, Version: 9}
		case key == "low" && name == "s":
			return Row{}
		case key == "high" && name == "a":
			return Row{Has: true, Version: 2, Whiteout: true}
		case key == "high" && name == "b":
			return Row{Has: true, Version: 4}
		}
		return r
	}}
	out := audit(different, NewPass())
	var found []string
	for _, d := range out.Differences {
		found = append(found, strings.Join([]string{string(d.Of), xdstype.Short(d.Type), d.Name, d.FoundVersion, d.WantVersion}, " "))
	}
	v := FormatVersion
	want := []string{
		"shelf Cluster a " + v(1) + " " + v(9), "shelf Cluster a " + v(2) + " ", "shelf Cluster b  " + v(4), "shelf Secret s " + v(1) + " ",
	}
	if slices.Sort(found); !slices.Equal(found, want) || out.Count() != 4 || out.Counts[OfShelf] != 4 {
		t.Errorf("found %q, %d\nwant  %q", found, out.Count(), want)
	}
	rows := map[RowKey]bool{}
	for _, r := range out.Rows {
		rows[r] = true
	}
	if len(rows) != 4 || len(out.Rows) != 4 || !rows[RowKey{xdstype.SecretURL, "low", "s"}] ||
		!rows[RowKey{xdstype.ClusterURL, "high", "b"}] {
		t.Errorf("to be published again: %v", out.Rows)
	}
}

// TestAuditOfStacks: other shelves, another order, shelves too many and too few are differences of the type.
func TestAuditOfStacks(t *testing.T) {
	lib := New()
	lib.Publish(1, nil, Attach{"p", &Attachment{Stacks: map[string][]ShelfKey{
		xdstype.ClusterURL: {"low", "high"}, xdstype.SecretURL: {"low"}, xdstype.RouteURL: {},
	}}})
	w := lib.Open("p")
	defer w.Close()
	for _, c := range []struct {
		clusters, secrets []ShelfKey
		found, want       string // versions of the difference; empty: there is none
	}{
		{clusters: []ShelfKey{"low", "high"}, secrets: []ShelfKey{"low"}},
		{clusters: []ShelfKey{"high", "low"}, secrets: []ShelfKey{"low"}, found: "2 shelves", want: "2, not all of them the same"},
		{clusters: []ShelfKey{"low"}, secrets: []ShelfKey{"low"}, found: "2 shelves", want: "1, not all of them the same"},
		{
			clusters: []ShelfKey{"low", "high", "top"}, secrets: []ShelfKey{"low"},
			found: "2 shelves", want: "3, not all of them the same",
		},
		{clusters: []ShelfKey{"low", "high"}, found: "1 shelves"},
	} {
		to := &Attachment{Stacks: map[string][]ShelfKey{xdstype.ClusterURL: c.clusters, xdstype.ListenerURL: {}}}
		typ := xdstype.ClusterURL
		if c.secrets != nil {
			to.Stacks[xdstype.SecretURL] = c.secrets
		} else {
			typ = xdstype.SecretURL
		}
		var out Audited
		w.Read(func(v *View) { v.CompareStacks(to, &out) })
		var want []Difference
		if c.found != "" {
			want = []Difference{{Of: OfAttachment, Type: typ, FoundVersion: c.found, WantVersion: c.want}}
		}
		if !slices.Equal(out.Differences, want) || out.Count() != len(want) {
			t.Errorf("%+v: found %+v, want %+v", to, out, want)
		}
	}
}

// TestAuditListsTheFirstDifferences: all are counted, by place; only the first are listed.
func TestAuditListsTheFirstDifferences(t *testing.T) {
	var out Audited
	a, b := NewResource(xdstype.SecretURL, "s", 1, nil, ResourceOptions{}), NewResource(xdstype.SecretURL, "s", 2, nil, ResourceOptions{})
	out.AddClientDifference(xdstype.SecretURL, "changed", a, b)
	out.AddClientDifference(xdstype.SecretURL, "missing", nil, b)
	out.AddClientDifference(xdstype.SecretURL, "gone", a, nil)
	want := []Difference{
		{OfStream, xdstype.SecretURL, "changed", FormatVersion(1), FormatVersion(2)},
		{OfStream, xdstype.SecretURL, "missing", "", FormatVersion(2)},
		{OfStream, xdstype.SecretURL, "gone", FormatVersion(1), ""},
	}
	if !slices.Equal(out.Differences, want) {
		t.Errorf("%+v", out)
	}
	for i := range 20 {
		out.AddClientDifference(xdstype.SecretURL, fmt.Sprint(i), a, b)
	}
	out.add(Difference{Of: OfShelf})
	if out.Count() != 24 || out.Counts[OfStream] != 23 || len(out.Differences) != maxDifferences || out.Differences[7].Name != "4" {
		t.Errorf("%+v", out)
	}
}
