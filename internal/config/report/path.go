package report

import (
	"strconv"
	"strings"
)

// Path is a place in an object. It is built downwards at no cost and written out only for a problem.
type Path struct {
	up    *Path
	name  string // a field, or the key of a map
	index int    // of a list's element, from 1; 0: a field
}

// Spec returns the path where a kind's rules start. The zero Path is the whole document.
func Spec() *Path { return &Path{name: "spec"} }

// Metadata is where the rules for an object's annotations start.
func Metadata() *Path { return &Path{name: "metadata"} }

// Key is a field, or the key of a map, below p.
func (p *Path) Key(name string) Path { return Path{up: p, name: name} }

// At is the i-th element of the list at p, from 0.
func (p *Path) At(i int) Path { return Path{up: p, index: i + 1} }

// Of joins Key and At: the i-th element of the list name.
func (p *Path) Of(name string, i int) Path {
	list := p.Key(name)
	return list.At(i)
}

// String writes the path as Kubernetes does: spec.http[0].match[1].headers[x.y].
func (p Path) String() string {
	var b strings.Builder
	p.write(&b)
	return b.String()
}

// Parent returns the field that a field, as String writes it, is in; empty: the whole document.
func Parent(at string) string {
	if open := strings.LastIndexByte(at, '['); open >= 0 && strings.HasSuffix(at, "]") {
		return at[:open]
	}
	return at[:max(strings.LastIndexByte(at, '.'), 0)]
}

func (p *Path) write(b *strings.Builder) {
	if p.up != nil {
		p.up.write(b)
	}
	switch {
	case p.index > 0:
		b.WriteByte('[')
		b.WriteString(strconv.Itoa(p.index - 1))
		b.WriteByte(']')
	case strings.ContainsAny(p.name, "./[] "):
		b.WriteByte('[')
		b.WriteString(p.name)
		b.WriteByte(']')
	case p.name != "":
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		b.WriteString(p.name)
	}
}
