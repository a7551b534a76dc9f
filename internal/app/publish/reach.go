package publish

import (
	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/source"
	"fairway/internal/table"
	"fairway/internal/trial"
)

// Reach lists the connected proxies that are affected by an object.
type Reach struct {
	Proxies int            // that would be sent something else, or nothing, without the object
	Some    []mesh.ProxyID // the first of them, in order
}

// someProxies is how many proxies are named.
const someProxies = 5

// Reach returns the proxies that an object affects. It makes a turn without the object, compares what each proxy would see with what it
// sees, and takes the turn back: nothing is sent. False: there is no such object. Only the loop calls it, between turns. It costs as much
// as to delete the object and set it again, and a look at each connected proxy.
func (p *Publisher) Reach(k config.Key) (out Reach, has bool) {
	p.graph.Store.Read(func(tx *table.Tx) { has = p.graph.In.Has(tx, k) })
	if !has {
		return out, false
	}
	p.graph.Try(source.Batch{Gone: source.Keys{Objects: []config.Key{k}}}, func(_ table.Turn, tx *table.Tx) {
		for id, differences := range trial.Differences(p.graph, tx) {
			for range differences {
				if out.Proxies++; len(out.Some) < someProxies {
					out.Some = append(out.Some, id)
				}
				break
			}
		}
	})
	return out, true
}

// Proxies is how many proxies are connected.
func (p *Publisher) Proxies() (n int) {
	p.graph.Store.Read(func(tx *table.Tx) { n = table.Len(tx, p.graph.Out.Attachments) })
	return n
}
