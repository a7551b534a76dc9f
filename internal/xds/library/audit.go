package library

import (
	"fmt"
	"slices"
)

// Tables are the source of the library's content, for Audit to compare with. They must be those of the turn that was published last.
type Tables interface {
	// Attachment is what a proxy is to see; nil: nothing yet.
	Attachment(ProxyID) *Attachment
	// Row is the version under a name of a shelf.
	Row(typ string, key ShelfKey, name string) Row
}

// Row is what the tables have under a name of a shelf.
type Row struct {
	Has      bool
	Version  uint64
	Kept     bool // it may not be sent: whatever was published before stays
	Whiteout bool // it hides the name on lower shelves
}

// is reports whether a row of the library equals that of the tables.
func (want Row) is(r *row) bool {
	switch {
	case want.Kept:
		return true
	case want.Whiteout || r.whiteout:
		return want.Whiteout == r.whiteout
	}
	return want.Has == (r.res != nil) && (r.res == nil || r.res.version == want.Version)
}

// Pass remembers the shelves that were compared with the tables, so that a shelf which many proxies see is compared once. It belongs to the
// auditor.
type Pass struct{ shelves map[*Shelf]struct{} }

// NewPass returns a pass without compared shelves.
func NewPass() *Pass { return &Pass{shelves: map[*Shelf]struct{}{}} }

// Audited is the result of an audit of one stream.
type Audited struct {
	Proxy ProxyID
	// Done reports whether the stream was compared: it had nothing to send, nothing un-ACKed, and is attached.
	Done bool
	// Counts is how many differences there are, by place; Differences are the first of them.
	Counts      map[Place]int
	Differences []Difference
	// Rows are those of the library that differ from the tables: they are to be published again.
	Rows []RowKey
}

// RowKey names a row of the library.
type RowKey struct {
	Type  string
	Shelf ShelfKey
	Name  string
}

// Difference is one difference from the tables.
type Difference struct {
	Of           Place
	Type         string // type URL
	Name         string // of the resource; of an attachment, empty
	FoundVersion string // the version that was found; empty: none
	WantVersion  string // the version of the tables; empty: none
}

// Place says where a difference is.
type Place string

// The places of differences: the state of a stream's client, the published resources, and the shelves of a proxy.
const (
	OfStream     Place = "stream"
	OfShelf      Place = "shelf"
	OfAttachment Place = "attachment"
)

// maxDifferences is how many are listed with both sides.
const maxDifferences = 8

// Count is how many differences there are.
func (a *Audited) Count() (n int) {
	for _, of := range a.Counts {
		n += of
	}
	return n
}

// AddClientDifference notes the version that a stream believes its client holds under a name, and the version that it should hold.
func (a *Audited) AddClientDifference(typ, name string, have, want *Resource) {
	a.add(Difference{Of: OfStream, Type: typ, Name: name, FoundVersion: versionOf(have), WantVersion: versionOf(want)})
}

func (a *Audited) add(d Difference) {
	if a.Counts == nil {
		a.Counts = map[Place]int{}
	}
	a.Counts[d.Of]++
	if len(a.Differences) < maxDifferences {
		a.Differences = append(a.Differences, d)
	}
}

// CompareStacks finds types with another stack of shelves for the proxy than the tables have.
func (v *View) CompareStacks(to *Attachment, out *Audited) {
	at := v.at
	for typ, keys := range to.Stacks {
		same := slices.EqualFunc(at.stacks[typ], keys, func(s *Shelf, k ShelfKey) bool { return s == v.lib.shelves[shelfID{typ, k}] })
		if !same {
			out.add(
				Difference{
					Of:           OfAttachment,
					Type:         typ,
					FoundVersion: fmt.Sprint(len(at.stacks[typ]), " shelves"),
					WantVersion:  fmt.Sprint(len(keys), ", not all of them the same"),
				},
			)
		}
	}
	for typ, stack := range at.stacks {
		if len(stack) > 0 && len(to.Stacks[typ]) == 0 {
			out.add(Difference{Of: OfAttachment, Type: typ, FoundVersion: fmt.Sprint(len(stack), " shelves")})
		}
	}
}

// CompareShelves finds rows, on the shelves that a proxy sees, that differ from the tables.
func (v *View) CompareShelves(t Tables, pass *Pass, out *Audited) {
	for _, stack := range v.at.stacks {
		for _, shelf := range stack {
			if _, already := pass.shelves[shelf]; !already {
				pass.shelves[shelf] = struct{}{}
				shelf.compare(t, out)
			}
		}
	}
}

// compare finds rows of a shelf that differ from the tables.
func (s *Shelf) compare(t Tables, out *Audited) {
	for r := s.oldest; r != nil; r = r.newer {
		want := t.Row(s.id.typ, s.id.key, r.name.text)
		if want.is(r) {
			continue
		}
		d := Difference{Of: OfShelf, Type: s.id.typ, Name: r.name.text, FoundVersion: versionOf(r.res)}
		if want.Has && !want.Whiteout {
			d.WantVersion = FormatVersion(want.Version)
		}
		out.add(d)
		out.Rows = append(out.Rows, RowKey{s.id.typ, s.id.key, r.name.text})
	}
}

func versionOf(r *Resource) string {
	if r == nil {
		return ""
	}
	return FormatVersion(r.version)
}
