package app

import (
	"fairway/internal/config"
	"fairway/internal/table"
	"fairway/internal/writes/entries"
)

// machines has the machines of proxies registered that proved who they are, in the cluster that is read.
type machines struct{ d *Discovery }

func (m machines) entries() *entries.Writer { return m.d.writes.Entries() }

// Connected implements session.Machines.
func (m machines) Connected(of config.Member) { m.entries().Connected(of) }

// Disconnected implements session.Machines.
func (m machines) Disconnected(of config.Member) { m.entries().Disconnected(of) }

// object is an object as it is in force; nil: there is none.
func (d *Discovery) object(k config.Key) (o *config.Object) {
	d.graph.Store.Read(func(tx *table.Tx) { o = d.graph.Object(tx, k) })
	return o
}
