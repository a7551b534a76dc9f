// Package edit reads and changes pods that are trees of maps and lists, as JSON decodes them.
//
// Fields, List, Text and Named read a part; Grown, SetList and Without change it; Clone, Typed and TreeOf convert. Settle prepares a
// strategic merge. Patch returns the difference of two trees as a JSON patch.
//
// Functions change only the trees that their comments name. A tree may come from a stranger: a part of the wrong type counts as missing.
//
// It is pure. It must not know what an injection is, nor which containers are injected. Start reading in tree.go.
package edit
