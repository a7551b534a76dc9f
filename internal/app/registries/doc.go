// Package registries says which registries of services are read beside Kubernetes: it reads the registries file, follows it
// while the program runs, and has the sources that it names come and go.
//
//	file ─► Entry by kind ─► checked, each by itself ─► lasting.Sources
//
// One entry that is wrong holds up no other: the registry stays as it was, and the entry is a Problem. The package must not know
// what a registry's rows become.
package registries
