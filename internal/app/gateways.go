package app

import (
	"fairway/internal/app/lookup"
	"fairway/internal/compile/input"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// newLookups makes who resolves the names of east-west gateways; nil: nobody does.
func newLookups(d *Discovery) *lookup.Resolver {
	if !d.opts.ResolveGateways {
		return nil
	}
	return lookup.New(lookup.Options{
		Servers: d.opts.NameServers,
		Log:     d.log,
		Told: func(host string, is lookup.Answer, has bool) {
			if has {
				d.graph.In.Resolved.Set(mesh.Host(host), input.Resolved(is))
			} else {
				d.graph.In.Resolved.Delete(mesh.Host(host))
			}
		},
	})
}

// askForNames passes on what a turn changed in which names of gateways are wanted. The loop calls it.
func (d *Discovery) askForNames() {
	if d.lookups == nil {
		return
	}
	var more, less []string
	for c := range table.Changes(d.graph.Networks.Names) {
		if c.Has {
			more = append(more, string(c.Key))
		} else {
			less = append(less, string(c.Key))
		}
	}
	if len(more)+len(less) > 0 {
		d.lookups.Want(more, less)
	}
}

// namesAnswered says whether something is known of each name of a gateway, if only that it has no address: a control
// plane that has just started sends proxies nothing before, for they would go past the gateways.
func (d *Discovery) namesAnswered() (all bool) {
	if d.lookups == nil {
		return true
	}
	d.graph.Store.Read(func(tx *table.Tx) { all = table.Len(tx, d.graph.Networks.Unanswered) == 0 })
	return all
}
