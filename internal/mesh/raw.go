package mesh

import (
	"cmp"
	"slices"
	"strings"
	"unique"
)

// This file has the rows that a platform's registry provides, unchanged. Other code derives from them which workload is an endpoint of
// which service.

// SliceKey names a slice: a part of the endpoints of one service.
type SliceKey struct {
	Service ServiceKey
	Name    string
}

// CompareSliceKey orders by service, then name.
func CompareSliceKey(a, b SliceKey) int {
	return cmp.Or(CompareServiceKey(a.Service, b.Service), cmp.Compare(a.Name, b.Name))
}

func (k SliceKey) String() string { return k.Service.String() + " " + k.Name }

// Slice is a part of the endpoints of one service that its registry hands in as one and replaces as a whole. It is immutable.
type Slice struct {
	Key       SliceKey
	Endpoints []SliceEndpoint // no two have an ID in common
}

// SliceEndpoint is one endpoint of a slice. It is comparable.
type SliceEndpoint struct {
	// ID distinguishes the endpoints of a service, also from those of its other slices. It stays while the endpoint does.
	ID string
	// Workload is the workload that serves there; the zero key: the registry knows only the Endpoint.
	Workload WorkloadKey
	// Endpoint is the registry's data about the endpoint itself. Labels, Identity, Locality, Network and MTLS that are not set are those of
	// the workload.
	Endpoint
}

// Equal reports whether two slices are equal in all fields.
func (s *Slice) Equal(o *Slice) bool {
	return s == o || s != nil && o != nil && s.Key == o.Key && slices.Equal(s.Endpoints, o.Endpoints)
}

// String lists the endpoints on one line.
func (s *Slice) String() string {
	if s == nil {
		return "none"
	}
	out := make([]string, len(s.Endpoints))
	for i, e := range s.Endpoints {
		if out[i] = e.ID + ": " + e.Endpoint.String(); e.Workload != (WorkloadKey{}) {
			out[i] += " of " + e.Workload.String()
		}
	}
	return strings.Join(out, "; ")
}

// WorkloadKey names a workload of a registry.
type WorkloadKey struct {
	Registry        string // "Kubernetes/<cluster>", …
	Namespace, Name string
}

// CompareWorkloadKey orders by registry, namespace, name.
func CompareWorkloadKey(a, b WorkloadKey) int {
	return cmp.Or(cmp.Compare(a.Registry, b.Registry), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

func (k WorkloadKey) String() string { return k.Registry + "/" + k.Namespace + "/" + k.Name }

// Workload is a running thing that a registry knows by itself, whether or not some service leads to it: a pod. It is immutable.
type Workload struct {
	Key            WorkloadKey
	Addresses      string // IPs, comma separated, the first one first; empty: it has none yet
	Labels         Labels
	ServiceAccount string
	Machine        MachineRef // where it runs; zero: nowhere yet, or unknown
	Network        string     // "": its namespace's
	Health         Health
	Origin         ObjectRef
}

// Equal reports whether two workloads are equal in all fields.
func (w *Workload) Equal(o *Workload) bool {
	return w == o || w != nil && o != nil && *w == *o
}

// String describes a workload on one line, without fields that are not set.
func (w *Workload) String() string {
	out := w.Addresses
	for _, f := range []struct{ name, value string }{
		{"labels", string(w.Labels)}, {"account", w.ServiceAccount}, {"machine", w.Machine.String()}, {"network", w.Network},
	} {
		if f.value != "" {
			out += " " + f.name + "=" + f.value
		}
	}
	if w.Health != Healthy {
		out += " " + w.Health.String()
	}
	return strings.TrimPrefix(out, " ")
}

// MachineKey names a machine that a registry's workloads run on.
type MachineKey struct{ Registry, Name string }

// CompareMachineKey orders by registry, then name.
func CompareMachineKey(a, b MachineKey) int {
	return cmp.Or(cmp.Compare(a.Registry, b.Registry), cmp.Compare(a.Name, b.Name))
}

func (k MachineKey) String() string { return k.Registry + "/" + k.Name }

// Ref refers to the machine of a key.
func (k MachineKey) Ref() MachineRef {
	if k == (MachineKey{}) {
		return MachineRef{}
	}
	return MachineRef{unique.Make(k)}
}

// MachineRef names the machine of a workload or endpoint. Machines of two registries are different, even with the same name. It is
// comparable, and of the size of a pointer: many endpoints run on one machine. The zero MachineRef names no machine.
type MachineRef struct{ key unique.Handle[MachineKey] }

// Key is the key that it was made of.
func (m MachineRef) Key() MachineKey {
	if m == (MachineRef{}) {
		return MachineKey{}
	}
	return m.key.Value()
}

// CompareMachineRef orders by key.
func CompareMachineRef(a, b MachineRef) int {
	if a == b {
		return 0
	}
	return CompareMachineKey(a.Key(), b.Key())
}

// String returns the key's string; empty for no machine.
func (m MachineRef) String() string {
	if m == (MachineRef{}) {
		return ""
	}
	return m.Key().String()
}

// MarshalText returns String, for files on disk.
func (m MachineRef) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText reads what MarshalText wrote. No name of a machine has a slash.
func (m *MachineRef) UnmarshalText(text []byte) error {
	s := string(text)
	at := strings.LastIndexByte(s, '/')
	*m = MachineKey{Registry: s[:max(at, 0)], Name: s[at+1:]}.Ref()
	return nil
}

// Machine is a machine where workloads run: a Kubernetes Node, a machine of Nomad's. It is comparable.
type Machine struct {
	Key      MachineKey
	Locality Locality
	Address  string // an IP at which clients reach it, preferably one for clients outside its cluster; empty: unknown
	Labels   Labels
}

func (n Machine) String() string {
	out := n.Locality.String()
	if n.Address != "" {
		out += " at " + n.Address
	}
	if n.Labels != "" {
		out += " labels=" + string(n.Labels)
	}
	return strings.TrimPrefix(out, " ")
}

// NamespaceKey names a namespace of a registry.
type NamespaceKey struct{ Registry, Name string }

// CompareNamespaceKey orders by registry, then name.
func CompareNamespaceKey(a, b NamespaceKey) int {
	return cmp.Or(cmp.Compare(a.Registry, b.Registry), cmp.Compare(a.Name, b.Name))
}

func (k NamespaceKey) String() string { return k.Registry + "/" + k.Name }

// Namespace is a namespace of a registry. It is comparable.
type Namespace struct {
	Key    NamespaceKey
	Labels Labels
}

func (n Namespace) String() string { return string(n.Labels) }
