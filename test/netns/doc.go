// Package netns makes network namespaces of a test, the cables between them, and runs code and programs in them. It
// knows no Envoy and no mesh.
package netns
