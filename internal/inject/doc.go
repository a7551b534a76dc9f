// Package inject puts a proxy into a pod: from a pod (or the template of one), its namespace and the settings it makes the pod that is to
// run instead, or says why the pod stays as it is.
//
//	injector, err := inject.New(inject.Settings{Mesh: mesh, Config: config, Values: values})
//	result, err := injector.Inject(inject.Request{Pod: tree, Namespace: "shop", NamespaceLabels: labels})
//
// One pod passes these steps:
//
//	bound → decide → take back what an earlier injection made → wishes (annotations) → templates, merged → order → probes → record
//
// A pod is always a tree of maps and lists. It is only converted to Go types to read it, so that fields that this build's Kubernetes types
// do not know stay unchanged. edit.Patch returns the change as a JSON patch.
//
// Strangers write pods and namespaces. If a pod cannot be injected as it asks, the error names the annotation or the field and the right
// value; a pod is never injected in part.
//
// Rooms below it: edit reads and changes pods as trees, and makes JSON patches; form checks the words that users write; values are those of
// the chart; language parses templates: its functions, and the methods that they may call.
//
// The package is pure: it reads no file, no clock and no API server. It must not know its caller (the webhook, or the command line), nor
// where its settings come from.
package inject
