// Package quota refuses objects that would produce too much. It is between the sources and the door, so that nothing is built from a
// refused object. One author's numbers multiply (hosts × ports × endpoints), or one number multiplies with the size of the mesh (patches ×
// clusters), and a few kilobytes of rules must not cost gigabytes.
//
//	Gate.Apply ─► weigh (weigh.go, kinds.go): an estimate of the resources and bytes that each object produces
//	           ─► within the budget (limits.go): the object goes on
//	           └► over it: the version before stays in force, and the object has a problem that names the numbers
//
// An estimate multiplies as the rules of Istio's API do: from the object, the sizes of the services that it names, and the number of ports
// of the mesh. It is wrong by a small factor and costs a walk over the object. The package compiles nothing and must not know what an Envoy
// is.
package quota
