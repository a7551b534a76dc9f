// Package rig runs this module's programs in tests as users run them: built once, each with a log, a folder and, where
// asked, a user and a network namespace of its own. It knows processes, pages and how long to wait; what a mesh is, and
// what Envoy does, is other packages' (plane, envoy/live).
package rig
