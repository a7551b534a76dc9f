package environment

// GatewayAPI says which statuses and objects are written into the own cluster for the Gateway API.
type GatewayAPI struct {
	Deploys bool // Gateways are deployed
	Silent  bool // no statuses are written
}

// Read reads the variables that say so, whose defaults are true.
func (g *GatewayAPI) Read(e *Reader) {
	deploys, says := true, true
	e.Bool("PILOT_ENABLE_GATEWAY_API_DEPLOYMENT_CONTROLLER", &deploys)
	e.Bool("PILOT_ENABLE_GATEWAY_API_STATUS", &says)
	g.Deploys, g.Silent = deploys, !says
}
