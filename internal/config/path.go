package config

import (
	"strconv"
	"strings"
)

// path is where in an object something stands. It is built downwards at no cost and written out only when there is something to say.
type path struct {
	up    *path
	name  string // a field, or the key of a map
	index int    // of a list's element, from 1; 0: a field
}

func (p *path) key(name string) path { return path{up: p, name: name} }
func (p *path) at(i int) path        { return path{up: p, index: i + 1} }

// of is key and at in one: the i-th element of the list name.
func (p *path) of(name string, i int) path {
	list := p.key(name)
	return list.at(i)
}

// String writes the path as Kubernetes does: spec.http[0].match[1].headers[x.y].
func (p path) String() string {
	var b strings.Builder
	p.write(&b)
	return b.String()
}

func (p *path) write(b *strings.Builder) {
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

func quote(s string) string { return strconv.Quote(s) }
