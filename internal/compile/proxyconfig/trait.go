package proxyconfig

import (
	"fairway/internal/compile/demand"
	"fairway/internal/compile/input"
	"fairway/internal/compile/vouch"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

var (
	// Requests are the settings of proxies for the requests that they receive, except those in Own.
	Requests = demand.NewTrait("requests", mesh.HTTPSettings.String)
	// Own are the settings of proxies that change resources which were made without them.
	Own = demand.NewTrait("own settings", mesh.OwnSettings.String)
)

// Sources find the settings of proxies.
func Sources(in *input.Tables) []demand.Source {
	return []demand.Source{
		demand.From(Requests, func(r *table.Reader, p vouch.Proxy) mesh.HTTPSettings {
			requests, _ := in.HTTPSettings(r, p.Proxy).Apart()
			return requests
		}),
		demand.From(Own, func(r *table.Reader, p vouch.Proxy) mesh.OwnSettings {
			_, own := in.HTTPSettings(r, p.Proxy).Apart()
			return own
		}).Singular(),
	}
}
