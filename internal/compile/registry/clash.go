package registry

import (
	"fmt"
	"slices"

	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
)

// mostSharing is how many services may share an address if each of them is to have its own problem, which names the oldest service. If more
// services share the address, one problem gives their number.
const mostSharing = 1000

// noteClashes notes the services that lose an address to an older one, because some clients see both, on a port for requests, and cannot
// tell them apart. If each cluster has only one of them, its clients can.
func noteClashes(r *table.Reader, address string, rows table.Rows[HostKey, *Merged]) {
	if rows.Len() > mostSharing {
		_, m, _ := rows.First()
		r.Note(manyConflicts(m.Service, rows.Len(), address))
		return
	}
	first := oldest{}
	for _, m := range rows.All() {
		first.add(m.Service, address)
	}
	for _, m := range rows.All() {
		if winner, port := first.over(m.Service, address); winner != nil {
			r.Note(addressConflict(m.Service, winner, address, port))
		}
	}
}

// oldest finds the oldest of the services that some clients cannot tell apart.
type oldest map[group]*mesh.Service

// group is a set of services that some clients cannot tell apart by an address. It names what these services have in common.
type group struct {
	port       uint32 // for requests
	cluster    string // that holds the address; see clusterless and anyCluster
	visibility visibility
}

// visibility says which clients see a service, or which namespace owns it.
type visibility struct {
	how       visibilityKind
	namespace string
}

type visibilityKind uint8

const (
	byAny       visibilityKind = iota // whichever namespaces see it
	byEverybody                       // every namespace sees it
	byNamespace                       // the namespace sees it
	ofNamespace                       // it is the namespace's
)

// Two names that no cluster has: for services of no cluster, and for all services.
const (
	clusterless = ""
	anyCluster  = "*"
)

func (o oldest) add(s *mesh.Service, address string) {
	clusters := append(Holding(s, address), anyCluster)
	if len(clusters) == 1 {
		clusters = append(clusters, clusterless)
	}
	sights := append(listed(s, byNamespace), visibility{how: byAny}, visibility{ofNamespace, s.Key.Namespace})
	if s.VisibleIn("") {
		sights = append(sights, visibility{how: byEverybody})
	}
	for g := range groups(s, clusters, sights) {
		if have := o[g]; have == nil || Before(s, have) < 0 {
			o[g] = s
		}
	}
}

// over returns the oldest of the services that some clients cannot tell from a service, and the lowest port where they cannot; nil: it is
// the oldest itself.
func (o oldest) over(s *mesh.Service, address string) (winner *mesh.Service, port uint32) {
	clusters := Holding(s, address)
	if len(clusters) == 0 {
		clusters = append(clusters, anyCluster)
	} else {
		clusters = append(clusters, clusterless)
	}
	sights := []visibility{{how: byAny}}
	if !s.VisibleIn("") {
		sights = append(listed(s, ofNamespace), visibility{how: byEverybody}, visibility{byNamespace, s.Key.Namespace})
	}
	for g := range groups(s, clusters, sights) {
		if first := o[g]; first != nil && Before(first, s) < 0 && (winner == nil || Before(first, winner) < 0) {
			winner, port = first, g.port
		}
	}
	return winner, port
}

// listed has a visibility for each namespace that a service is exported to by name.
func listed(s *mesh.Service, how visibilityKind) (out []visibility) {
	for _, to := range s.ExportTo {
		if to == "." {
			to = s.Key.Namespace
		}
		if to != "*" && to != "~" {
			out = append(out, visibility{how, to})
		}
	}
	return out
}

// groups yields every group of a port for requests, a cluster and a visibility.
func groups(s *mesh.Service, clusters []string, sights []visibility) func(yield func(group) bool) {
	return func(yield func(group) bool) {
		for _, p := range s.Ports {
			if !p.Protocol.MayBeHTTP() {
				continue
			}
			for _, c := range clusters {
				if slices.ContainsFunc(sights, func(at visibility) bool { return !yield(group{p.Number, c, at}) }) {
					return
				}
			}
		}
	}
}

func addressConflict(s, first *mesh.Service, address string, port uint32) mesh.Problem {
	return conflictProblem(s, fmt.Sprintf(
		"requests to %s on port %d mean %s, which is older: there %s is reached by its name alone",
		address, port, first.Key.Host, s.Key.Host,
	))
}

func manyConflicts(s *mesh.Service, n int, address string) mesh.Problem {
	return conflictProblem(s, fmt.Sprintf("%d services have the address %s, more than %d: requests to it mean the oldest that a client "+
		"sees, the others are reached by their names alone, and no problem names each of them", n, address, mostSharing))
}

func conflictProblem(s *mesh.Service, message string) mesh.Problem {
	return mesh.Problem{
		Object: s.Origin, Field: "spec.addresses", Code: code.AddressTaken, Severity: mesh.Warning, Message: message,
		Fix: "give every host an address of its own",
	}
}
