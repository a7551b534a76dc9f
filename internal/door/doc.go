// Package door keeps the order in which users write things out of the mesh. It stands between what sources settled and
// the inputs of the tables: a rule that refers to what is not there yet, and the removal of what is still referred to,
// wait here for a bounded grace, so that a VirtualService and its DestinationRule can be applied or deleted in either
// order without a request lost. After the grace a change is handed on all the same; what is missing then is a problem
// that the tables report.
//
// What it knows of objects is which names they need and which they give (name.go). It compiles nothing, validates nothing and must not
// know what an Envoy is.
//
//	Apply ─► settle: the largest set of changes that leaves no reference hanging goes on, the rest waits (settle.go)
//	Run   ─► what waited out its grace goes on, and takes along what waited for it
package door
