package patch

import "fairway/internal/compile/demand"

// Holding are the patches that change what proxies are sent, in their order.
var Holding = demand.NewTrait("patches", demand.Quoteless[string]("patched for "))

// Sources say which hold.
func (t *Tables) Sources() []demand.Source {
	return []demand.Source{demand.From(Holding, t.Of).Singular().EvenBy(t.choice)}
}
