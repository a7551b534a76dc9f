// Package requests translates those parts of HTTPRoutes and GRPCRoutes that need nothing but themselves (matches, filters and durations) to
// the parts of VirtualServices. Match and CORS are good places to start reading. All functions are pure.
//
// The specification is the Gateway API's, the comments of the types that are named beside each function.
//
// It must not know tables, listeners or backends.
package requests
