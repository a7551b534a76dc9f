// Package parents reads what the parentRefs of routes may name: listeners, by the kinds of routes that they take, and services, for whose
// clients a route is. It is pure: package gatewayapi knows which of them exist.
package parents
