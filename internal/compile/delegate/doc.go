// Package delegate makes VirtualServices whole that hand parts of their requests to others ("delegates"): the routes of the
// others stand in their place, so that everything after this package reads one VirtualService as if one author wrote it.
//
//	VirtualServices (as written) ─┬─► whole ones, of those that delegate (merge.go)
//	                              └─► by delegate ─► problems of delegates that nobody names
//
// The rules are those of HTTPRoute.delegate and Delegate in networking/v1alpha3/virtual_service.proto: one level, and a
// delegate's match is within the root's. The package must not know routes of Envoy, nor who sees a VirtualService.
package delegate
