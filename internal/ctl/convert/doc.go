// Package convert has pilotctl's verb x to-gateway-api: it writes Gateways and VirtualServices as objects of the Gateway API. Convert is a
// pure function, from objects to objects and remarks; it is a good place to start reading. A converted object must do what the
// original does. Convert leaves out an object that the Gateway API cannot express, and adds a remark that says why.
//
// gateway.go converts Gateways, route.go VirtualServices: parent.go finds the listeners and services that their rules are for, match.go,
// filter.go and backend.go convert parts of rules, connection.go is about TLS and TCP. Both APIs try rules in another order: order.go
// keeps it, with package block.
//
// The meaning of the Gateway API's objects is that of compile/gatewayapi. The tests compare the Envoy routes of originals and results.
//
// It must not know how rules become Envoy's configuration.
package convert
