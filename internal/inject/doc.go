// Package inject puts a proxy into a pod: out of a pod, or the template of one, and what surrounds it, it makes the pod that
// is to run in its place, or says why the pod stays as it is.
//
//	injector, err := inject.New(inject.Settings{Mesh: mesh, Config: config, Values: values})
//	result, err := injector.Inject(inject.Request{Pod: tree, Namespace: "shop", NamespaceLabels: labels})
//
// One pod passes these steps:
//
//	bound → decide → take back what an earlier injection made → wishes (annotations) → templates, merged → order → probes → record
//
// A pod is a tree of maps and lists throughout, and typed only to be read, so that fields which this build's Kubernetes types
// do not know come out as they went in. Patch says as a JSON patch what became of it.
//
// Pods and namespaces are written by strangers. A pod that cannot be injected as it asks to be is an error that names
// the annotation or the field and what would be right; it is never injected in part.
//
// The package is pure: it reads no file, no clock and no API server. It must not know who asks (the webhook, or the command
// line), nor where its settings come from.
package inject
