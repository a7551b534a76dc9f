// Package config reads what users write: objects of Istio's API kinds, mesh configuration and mesh networks.
//
// A Decoder takes one document (YAML or JSON) at a time through the steps an API server would take it through, so that a file means
// what the same text means in a cluster:
//
//	text → tree → unknown fields → defaults → schema → CEL rules → rules that no schema can say → istio.io/api message → Object
//
// What a user got wrong comes out as mesh.Problem rows that name file, line, field and what would be right; a document with one Error
// gives no Object. Each kind has a file of its own for the rules that its schema (package schemas) cannot say.
//
//	d, err := config.NewDecoder(config.Options{})
//	for _, doc := range config.Split("rules.yaml", text) {
//		object, problems := d.Decode(doc)
//	}
//
// The package does no I/O. It must not know where documents come from (source), nor what an object does (compile): it looks at one
// object at a time, so whatever needs a second one to be judged is not judged here.
package config
