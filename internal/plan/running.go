package plan

import (
	"fmt"

	"fairway/internal/config"
	"fairway/internal/table"
	"fairway/internal/trial"
)

// RunningLimits are the limits of a plan in a running control plane: turns wait for about 100 ms at most (BenchmarkRunning).
func RunningLimits() trial.Limits { return trial.Limits{Objects: 20, Bytes: 128 << 10, Rows: 1000} }

// perProxy are kinds with objects that make something for each proxy that they select, as a number of rows that cost as much. Package quota
// does not count these.
var perProxy = map[config.Kind]int{
	config.AuthorizationPolicy: 1, config.PeerAuthentication: 2, config.RequestAuthentication: 4, config.Telemetry: 1,
	config.WasmPlugin: 1, config.TrafficExtension: 1, config.EnvoyFilter: 1,
}

// light fails if the change has policies for more proxies than a trial turn of a running control plane may compute.
func (p *Planner) light(d *trial.Decoded) error {
	weights := map[string]int{}
	for _, k := range d.Keys() {
		weights[k.Namespace] += perProxy[k.Kind]
	}
	n, most := 0, RunningLimits().Rows
	p.graph.Store.Read(func(tx *table.Tx) {
		root := weights[p.graph.In.RootNamespaceNow(tx)]
		for _, proxy := range table.Each(tx, p.graph.In.Proxies.Table) {
			n += weights[proxy.Namespace] + root
		}
	})
	if n > most {
		return fmt.Errorf("%w: a trial may make %d rows, and these policies would make about %d for the proxies that they are for",
			trial.ErrTooLarge, most, n)
	}
	return nil
}
