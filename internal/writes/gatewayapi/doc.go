// Package gatewayapi writes the statuses of the Gateway API's objects: their conditions, their listeners, and the parents of routes.
//
//	Observe: an object, and its status ────────────────────┐
//	Changed: another version is in force, or the status    ├─► a patch, if the status differs from the wanted one
//	should say something else (Options.Wanted) ────────────┘
//
// Conditions of other types, addresses, and the parts of other controllers stay as they are, and in their order. A condition that the API
// removes when it does not hold any more is removed. The package knows no reason: what a status says comes with Wanted.
package gatewayapi
