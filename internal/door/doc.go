// Package door keeps the order in which users write things out of the mesh. It is between the settled changes of sources and the inputs of
// the tables. A rule that refers to a missing object, and the removal of an object that is still referred to, wait here for a bounded
// grace: so a VirtualService and its DestinationRule can be applied or deleted in either order without a lost request. After the grace a
// change goes on anyway; the tables report what is missing then as a problem.
//
// It knows only which names objects need and which they give (name.go). It compiles nothing, validates nothing and must not know what an
// Envoy is.
//
//	Apply ─► settle: the largest set of changes that leaves no reference hanging goes on, the rest waits (settle.go)
//	Run   ─► a change goes on after its grace, together with the changes that waited for it
package door
