// Package delegate completes VirtualServices that hand parts of their requests to other VirtualServices ("delegates"). The delegates'
// routes replace the routes that delegate, so everything after this package reads one VirtualService as if one author wrote it.
//
//	VirtualServices (as written) ─┬─► complete ones, for those that delegate (merge.go)
//	                              └─► by delegate ─► problems of delegates that no VirtualService names
//
// The rules are those of HTTPRoute.delegate and Delegate in networking/v1alpha3/virtual_service.proto: one level, and a
// delegate's match is within the root's. The package must not know routes of Envoy, nor who sees a VirtualService.
package delegate
