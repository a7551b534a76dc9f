// Package document turns texts of users, and objects from clients of an API server, into trees: maps, lists, strings, bools, int64,
// float64 and nil, as in an API server.
//
//	docs := document.Split("rules.yaml", data) // one for each object
//	tree, mistake := docs[0].Tree()
//	line := document.IndexLines(docs[0]).Of("spec.http[0]")
//
// YAML means what it means to kubectl. Input is not trusted: a tree is limited by values, by depth, and by the bytes of its names and
// strings, with aliases written out.
//
// The package must not know kinds, schemas or messages: it sees only fields and values. It imports nothing of ours.
package document
