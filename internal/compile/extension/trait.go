package extension

import "fairway/internal/compile/demand"

// Holding are the extensions that hold for proxies.
var Holding = demand.NewTrait("extensions", demand.Quoteless[string](""))

// Sources say which hold.
func (t *Tables) Sources() []demand.Source {
	return []demand.Source{demand.From(Holding, t.Of).Singular().Chosen()}
}
