// Package injection keeps the injector that is in force: made of the folder with the injector's configuration, as a ConfigMap is
// mounted, and of the mesh configuration. What can no longer be used leaves the last one in force.
//
// It must not know how pods are injected (package inject), nor who asks (package webhook).
package injection
