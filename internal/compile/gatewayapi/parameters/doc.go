// Package parameters reads the parameters of deployment that Gateways of the Gateway API and their classes name: it finds the ConfigMaps,
// has them read on demand, and notes mistakes. Start reading at Declare. Package deployed parses them.
//
// The specification is GatewayInfrastructure.parametersRef and GatewayClassSpec.parametersRef; the form is Istio's.
//
// It must not know the deployed objects.
package parameters
