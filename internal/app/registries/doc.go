// Package registries selects the registries of services that are read beside Kubernetes: it reads the registries file, follows it
// while the program runs, and starts and ends the sources that it names.
//
//	file ─► Entry by kind ─► checked, each by itself ─► lasting.Sources
//
// A wrong entry holds up no other: its registry stays as it was, and the entry is a Problem. The package must not know what becomes
// of a registry's rows.
package registries
