// Package planes leads an agent's connections to one of several control planes. Each agent tries them in an order of its own, so that they
// are spread. A connection that is lost goes on with the next control plane that answers. A control plane that no longer answers
// is left within two seconds, although its connection stands.
//
// With one address it does nothing: gRPC's own resolver then finds all addresses of its name.
//
// It must not know the questions. Start reading at New.
package planes
