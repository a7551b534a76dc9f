package telemetry

import "fairway/internal/compile/demand"

// Holding are the Telemetries of their namespace that hold for proxies, and the proxies' own settings of spans.
var Holding = demand.NewTrait("telemetries", demand.Quoteless[string]("tells by "))

// Sources say which hold.
func (t *Tables) Sources() []demand.Source {
	return []demand.Source{demand.From(Holding, t.Of).Singular().Chosen()}
}
