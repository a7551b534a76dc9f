// Package document turns what users write, or what a client of an API server hands over, into trees: maps, lists, strings, bools,
// int64, float64 and nil, as an API server has them.
//
//	docs := document.Split("rules.yaml", data) // one for each object
//	tree, mistake := docs[0].Tree()
//	line := document.IndexLines(docs[0]).Of("spec.http[0]")
//
// YAML means what it means to kubectl. Whatever comes in is hostile: what a tree may hold is bounded by values, by depth, and by the
// bytes of its names and strings, with aliases written out.
//
// The package must not know kinds, schemas or messages: it sees fields and values alone. It imports nothing of ours.
package document
