// Package demand says what connected proxies ask for, and what each is given in the end.
//
//	Proxies ──► Placements (where a proxy stands) ──► Layers, and the Views that features declare
//	Parts of all features ──► Attach: the shelves that each proxy sees (declared last, at the end of the graph)
//
// A feature that makes resources declares on what of a proxy they depend (DeclareViews: its layer, whether it can speak
// mutual TLS, the families of its addresses, …), computes a row for each view that there is, publishes it on the view's
// shelf, and contributes a Part. Nobody else learns of it.
//
// The package must not know what a resource is, nor which hosts there are.
package demand
