// Package owners says which control plane carries out a Gateway of the Gateway API: by the controller of its class, and by the revision
// that it or its namespace names. Start reading at Owners.Ours.
//
// The specification is that of GatewayClass.spec.controllerName; names of classes, remote ones and revisions are Istio's.
//
// It must not know the objects that are made of a Gateway.
package owners
