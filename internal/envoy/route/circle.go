package route

import (
	"slices"
	"strings"

	"fairway/internal/mesh"
)

// circle is the set of viewers that a match of connections is for, if a rule is checked for all viewers (Viewer.Every). For a single
// viewer, all matches that apply have the same circle. Texts are stored as numbers, because there is a key with a circle for every name
// and subnet of a match.
type circle struct {
	gateways int    // 0: those of the rule
	port     uint32 // 0: every one
	space    int    // namespace of the source; 0: any
	labels   int    // of the source; 0: any
}

// circles assigns numbers to the texts of circles.
type circles map[string]int

func (c circles) number(text string) int {
	if text == "" {
		return 0
	}
	if _, known := c[text]; !known {
		c[text] = len(c) + 1
	}
	return c[text]
}

// of returns the circle of a match.
func (c circles) of(m conditions) circle {
	gateways := slices.Clone(m.GetGateways())
	slices.Sort(gateways)
	return circle{
		gateways: c.number(strings.Join(gateways, ",")), port: m.GetPort(), space: c.number(m.GetSourceNamespace()),
		labels: c.number(string(mesh.MakeLabels(m.GetSourceLabels()))),
	}
}

// widened lists the circle, and wider ones that are known to contain it.
func (c circle) widened() []circle {
	out := []circle{c}
	widen := func(set bool, free func(*circle)) {
		if !set {
			return
		}
		for _, wider := range slices.Clone(out) {
			free(&wider)
			out = append(out, wider)
		}
	}
	widen(c.port != 0, func(c *circle) { c.port = 0 })
	widen(c.space != 0, func(c *circle) { c.space = 0 })
	widen(c.labels != 0, func(c *circle) { c.labels = 0 })
	return out
}
