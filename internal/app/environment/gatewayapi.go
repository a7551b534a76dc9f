package environment

// GatewayAPI says which parts of the Gateway API are in force in the own cluster.
type GatewayAPI struct {
	Unread  bool // none of its kinds is read
	Deploys bool // Gateways are deployed
	Silent  bool // no statuses are written
}

// Read reads the variables that say so, whose defaults are true.
func (g *GatewayAPI) Read(e *Reader) {
	reads, deploys, says := true, true, true
	e.Bool("PILOT_ENABLE_GATEWAY_API", &reads)
	e.Bool("PILOT_ENABLE_GATEWAY_API_DEPLOYMENT_CONTROLLER", &deploys)
	e.Bool("PILOT_ENABLE_GATEWAY_API_STATUS", &says)
	g.Unread, g.Deploys, g.Silent = !reads, deploys && reads, !says || !reads
}
