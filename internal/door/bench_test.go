package door_test

import (
	"fmt"
	"testing"
	"time"

	"fairway/internal/door"
	"fairway/internal/mesh"
	"fairway/internal/source"
)

// discard is a sink that forgets.
type discard struct{}

func (discard) Apply(source.Batch) {}

// filled returns a door that holds n services, each with its rule and subsets, all bound to one gateway and in part covered by a wildcard.
func filled(n int) *door.Door {
	d := door.New(door.Options{Grace: time.Hour}, discard{})
	b := setting(object("GW gw"), object("SE all *.example.com"))
	b.Synced = true
	for i := range n {
		b.Set.Objects = append(b.Set.Objects,
			object(fmt.Sprintf("SE s%d h%d.example.com", i, i)), object(fmt.Sprintf("DR d%d h%d.example.com v1 v2", i, i)),
			object(fmt.Sprintf("VS v%d h%d.example.com:v1 @gw", i, i)))
	}
	d.Apply(b)
	return d
}

// The cost of one change stays flat from 100 to 10,000 services.
func BenchmarkOneChange(b *testing.B) {
	end := mesh.SliceKey{Name: "1"}
	for name, toggle := range map[string][2]source.Batch{
		"edit of a rule": {
			setting(object("VS v7 h7.example.com:v2 @gw")), setting(object("VS v7 h7.example.com:v1 @gw")),
		},
		"new service and gone":   {batch("set SE new new.example.com"), batch("del SE new")},
		"rule that waits":        {batch("set VS v7 h7.example.com:v3 @gw"), batch("set VS v7 h7.example.com:v1 @gw")},
		"removal that waits":     {batch("del DR d7"), batch("set DR d7 h7.example.com v1 v2")},
		"removal of the gateway": {batch("del GW gw"), batch("set GW gw")},
		"removal of a wildcard":  {batch("del SE all"), batch("set SE all *.example.com")},
		"endpoint": {source.Batch{Set: source.Rows{Slices: []*mesh.Slice{{Key: end}}}},
			source.Batch{Gone: source.Keys{Slices: []mesh.SliceKey{end}}}},
	} {
		for _, n := range []int{100, 10000} {
			b.Run(fmt.Sprintf("%s/services=%d", name, n), func(b *testing.B) {
				d := filled(n)
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					d.Apply(toggle[i%2])
				}
			})
		}
	}
}

// BenchmarkBackwards applies 2,000 rules one by one before what they refer to, one by one: all of them wait at once.
func BenchmarkBackwards(b *testing.B) {
	const n = 2000
	for b.Loop() {
		d := door.New(door.Options{Grace: time.Hour}, discard{})
		for i := range n {
			d.Apply(setting(object(fmt.Sprintf("VS v%d h%d.example.com:v1 @gw", i, i))))
		}
		for i := range n {
			d.Apply(setting(object(fmt.Sprintf("DR d%d h%d.example.com v1", i, i))))
			d.Apply(setting(object(fmt.Sprintf("SE s%d h%d.example.com", i, i))))
		}
		d.Apply(setting(object("GW gw")))
		if w := waits(d); w != "" {
			b.Fatal(w)
		}
	}
}
