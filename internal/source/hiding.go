package source

import (
	"slices"

	"fairway/internal/mesh"
)

// Hiding returns a sink that hands on to next what hide made of each text about the source: why it is stale, and its problems. hide takes
// secrets out that a server may have written into its answers, as printable.Secrets does. Rows stay as they are.
func Hiding(next Sink, hide func(string) string) Sink { return hiding{next, hide} }

type hiding struct {
	next Sink
	hide func(string) string
}

// Apply implements Sink.
func (h hiding) Apply(u Update) {
	u.Stale = h.hide(u.Stale)
	if len(u.Problems) > 0 {
		shown := make(map[string][]mesh.Problem, len(u.Problems))
		for place, list := range u.Problems {
			place = h.hide(place)
			out := slices.Clone(list)
			for i := range out {
				p := &out[i]
				for _, text := range []*string{&p.Message, &p.Fix, &p.Field, &p.Object.Name, &p.Object.File} {
					*text = h.hide(*text)
				}
			}
			shown[place] = append(shown[place], out...) // two places may look alike now
		}
		u.Problems = shown
	}
	h.next.Apply(u)
}
