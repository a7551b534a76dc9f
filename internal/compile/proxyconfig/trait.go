package proxyconfig

import (
	"fairway/internal/compile/demand"
	"fairway/internal/compile/input"
	"fairway/internal/compile/vouch"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

var (
	// Requests is what proxies say of the requests that they take, but for Own.
	Requests = demand.NewTrait("requests", mesh.HTTPSettings.String)
	// Own is what proxies say that changes resources which were made without it.
	Own = demand.NewTrait("own settings", mesh.OwnSettings.String)
)

// Sources say what the configurations of proxies say.
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
