// Package traffic holds the rules of the kinds that say where requests go, as far as their schemas cannot say them: VirtualService,
// DestinationRule, Gateway, ServiceEntry, Sidecar, WorkloadEntry and WorkloadGroup. Each kind has a file and a function of its name.
//
// A rule sees one object that passed its schema. The package must not know texts, trees or other objects.
package traffic
