package library

import "slices"

// contents are the resources that shelves have, so that several rows with the same content of a name share one resource and its frames.
// It is guarded by the library's lock.
type contents map[content]*Resource

// content is what distinguishes resources in responses.
type content struct {
	typ     string
	name    *Entry
	version uint64
}

// shared returns the resource of a name that some shelf has with the content of r, or else r. Resources with the same version but other
// dependencies are not shared.
func (c contents) shared(name *Entry, r *Resource) *Resource {
	if held := c[content{r.typ, name, r.version}]; held != nil && held.opts.equal(r.opts) {
		return held
	}
	return r
}

// hold notes that one more row has a resource, or nil.
func (c contents) hold(r *Resource) {
	if r == nil {
		return
	}
	if r.rows++; r.rows > 1 {
		return
	}
	if k := (content{r.typ, r.links.name, r.version}); c[k] == nil {
		c[k] = r
	}
}

// release notes that one row less has a resource, or nil.
func (c contents) release(r *Resource) {
	if r == nil {
		return
	}
	if r.rows--; r.rows > 0 {
		return
	}
	if k := (content{r.typ, r.links.name, r.version}); c[k] == r {
		delete(c, k)
	}
}

func (o ResourceOptions) equal(p ResourceOptions) bool {
	return o.Load == p.Load && o.Message == p.Message && slices.Equal(o.Needs, p.Needs) && o.StateForm.equal(p.StateForm)
}

func (p *Part) equal(o *Part) bool {
	if p == nil || o == nil {
		return p == o
	}
	return p.MemberPrefix == o.MemberPrefix && p.MemberType == o.MemberType && p.Field == o.Field && string(p.Body) == string(o.Body)
}
