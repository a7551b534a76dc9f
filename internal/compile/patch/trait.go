package patch

import "fairway/internal/compile/demand"

// Holding are the patches of proxies' resources, in their order.
var Holding = demand.NewTrait("patches", demand.Quoteless[string]("patched for "))

// Sources find the patches that hold.
func (t *Tables) Sources() []demand.Source {
	return []demand.Source{demand.From(Holding, t.Of).Singular().EvenBy(t.choice)}
}
