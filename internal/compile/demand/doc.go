// Package demand says what connected proxies ask for, and what each is given in the end.
//
//	Proxies ──► Placements (the layer and traits of a proxy) ──► Layers, and the Views that features declare
//	Parts of all features ──► Attach: the shelves that each proxy sees (declared last, at the end of the graph)
//
// A View is a layer and the values of some traits of proxies. Proxies with the same view share rows and bytes. To add a Trait:
//
//  1. Declare it in the room that knows it: NewTrait with a name and the text of its values, and a Source that finds the value
//     of a proxy (Source.Chosen if that follows labels of the proxy's own word). graph.go hands the room's Sources to Declare.
//     A trait that follows from other traits is Derived.
//  2. Declare a Kind: the list of traits that the feature's resources differ by. Kind.With makes a kind above another: a proxy has
//     such a view only if one of the added traits says something. DeclareViews makes the table of its views.
//  3. Compute what differs. Refinement and Shared join the views with rows. A table that makes what all have may also emit what
//     differs: for each of Views.In, build the resource for the view and for Kind.Below, and compare.
//     Resources of a view are published on View.Shelf.
//  4. Contribute a Part: Kind.Part has what all see, and Part.Over lays a kind over it. The order of Over is the order of shelves.
//
// The package must not know what a resource is, nor which hosts there are.
package demand
