package config

import (
	"cmp"
	"maps"
	"strings"

	"google.golang.org/protobuf/proto"
	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/mesh"
)

// Annotations of a WorkloadEntry that belongs to a WorkloadGroup.
const (
	// GroupAnnotation names the WorkloadGroup that the entry's machine registered with.
	GroupAnnotation = "istio.io/autoRegistrationGroup"
	// CheckedAnnotation is "true" if the machine's agent checks the application.
	CheckedAnnotation = "proxy.istio.io/health-checks-enabled"
)

// groupAccount is the service account of a group's machines if the template names none, as pilotctl workload config makes them.
const groupAccount = "default"

// Membership returns the WorkloadEntry that a WorkloadGroup implies for each of its machines: the template with the labels of the group's
// metadata, and with a service account (networking/v1alpha3/workload_group.proto).
func Membership(group *Object) *networking.WorkloadEntry {
	spec := Spec[*networking.WorkloadGroup](group)
	out := &networking.WorkloadEntry{}
	if template := spec.GetTemplate(); template != nil {
		out = proto.Clone(template).(*networking.WorkloadEntry)
	}
	labels := map[string]string{}
	maps.Copy(labels, out.GetLabels())
	maps.Copy(labels, spec.GetMetadata().GetLabels())
	out.Labels, out.ServiceAccount = labels, cmp.Or(out.GetServiceAccount(), groupAccount)
	return out
}

// Member is a machine with a connected proxy that names a WorkloadGroup of its namespace. It is comparable.
type Member struct {
	Namespace, Group, Account string
	Address, Network          string
}

// longestName is the length of the longest name of an object.
const longestName = 253

// Entry returns the key of the machine's WorkloadEntry. It is made of the group, the address and the network.
func (m Member) Entry() Key {
	name := m.Group + "-" + m.Address
	if m.Network != "" {
		name += "-" + m.Network
	}
	name = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' || r == '.' {
			return r
		}
		return '-'
	}, strings.ToLower(name))
	if over := len(name) - longestName; over > 0 {
		name = name[over:]
	}
	return Key{Kind: WorkloadEntry, Namespace: m.Namespace, Name: strings.Trim(name, "-.")}
}

// GroupKey returns the key of the group that the machine names.
func (m Member) GroupKey() Key {
	return Key{Kind: WorkloadGroup, Namespace: m.Namespace, Name: m.Group}
}

// Admits reports whether a group takes the machine: its proxy proved the service account of the group's template.
func (m Member) Admits(group *Object) bool {
	return IsAccount(Membership(group).GetServiceAccount(), m.Namespace, m.Account)
}

// IsAccount reports whether a WorkloadEntry's serviceAccount is an account of a namespace. It may be written as a SPIFFE ID.
func IsAccount(written, namespace, account string) bool {
	return written == account || strings.HasPrefix(written, "spiffe://") && strings.HasSuffix(written, "/ns/"+namespace+"/sa/"+account)
}

// Register returns the WorkloadEntry of a machine that registers with a group: the group's template, labels and annotations, with the
// machine's address and network. Problems of the entry name the group.
func (m Member) Register(group *Object) *Object {
	spec := Membership(group)
	spec.Address = m.Address
	if m.Network != "" {
		spec.Network = m.Network
	}
	said := Spec[*networking.WorkloadGroup](group)
	notes := map[string]string{}
	maps.Copy(notes, said.GetMetadata().GetAnnotations())
	notes[GroupAnnotation] = m.Group
	if said.GetProbe() != nil {
		notes[CheckedAnnotation] = "true"
	}
	o := NewMade(m.Entry(), group, spec, &Made{Fields: []MadeOf{
		{Field: "spec", Of: "spec.template", Moved: true}, {Field: "spec.labels", Of: "spec.metadata.labels", Moved: true},
	}})
	o.Labels, o.Annotations = mesh.MakeLabels(spec.Labels), notes
	o.Hash = hash(o)
	return o
}
