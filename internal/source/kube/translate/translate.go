package translate

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"unique"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/printable"
)

// Registry names the registry of the rows. Make it with For.
type Registry struct{ name, domain string }

// For returns the registry of a cluster, with the DNS suffix of its services: "cluster.local".
func For(cluster, domain string) Registry { return Registry{"Kubernetes/" + cluster, domain} }

// Name returns the registry that rows have in their keys: "Kubernetes/<cluster>".
func (r Registry) Name() string { return r.name }

// ServiceKey returns the key of a Service's row.
func (r Registry) ServiceKey(namespace, name string) mesh.ServiceKey {
	return mesh.ServiceKey{Host: mesh.FullHost(name, namespace, r.domain), Namespace: shared(namespace), Registry: r.name, Object: name}
}

// WorkloadKey returns the key of a Pod's row.
func (r Registry) WorkloadKey(namespace, name string) mesh.WorkloadKey {
	return mesh.WorkloadKey{Registry: r.name, Namespace: shared(namespace), Name: name}
}

// MachineKey returns the key of a Node's row.
func (r Registry) MachineKey(name string) mesh.MachineKey {
	return mesh.MachineKey{Registry: r.name, Name: name}
}

// machine refers to the Node of a name, in the same cluster: one without a name, or with one that no Node can have, is none.
func (r Registry) machine(name string) mesh.MachineRef {
	if name == "" || strings.Contains(name, "/") {
		return mesh.MachineRef{}
	}
	return r.MachineKey(shared(name)).Ref()
}

// NamespaceKey returns the key of a Namespace's row.
func (r Registry) NamespaceKey(name string) mesh.NamespaceKey {
	return mesh.NamespaceKey{Registry: r.name, Name: name}
}

// Names of labels with the location of a machine, in order of precedence.
func regionLabels() [2]string {
	return [2]string{corev1.LabelTopologyRegion, corev1.LabelFailureDomainBetaRegion}
}

func zoneLabels() [2]string {
	return [2]string{corev1.LabelTopologyZone, corev1.LabelFailureDomainBetaZone}
}

const subZoneLabel = "topology.istio.io/subzone"

// Machine makes a Node's row.
func (r Registry) Machine(n *corev1.Node) (mesh.Machine, []mesh.Problem) {
	notes := newNotes("Node", &n.ObjectMeta)
	label := func(names ...string) string {
		for _, name := range names {
			if v := n.Labels[name]; v != "" && notes.isLabel(name, v) {
				return v
			}
		}
		return ""
	}
	regions, zones := regionLabels(), zoneLabels()
	return mesh.Machine{
		Key:      r.MachineKey(n.Name),
		Locality: mesh.Locality{Region: label(regions[:]...), Zone: label(zones[:]...), SubZone: label(subZoneLabel)},
		Address:  notes.nodeAddress(n),
		Labels:   notes.labels(n.Labels),
	}, notes.list
}

// nodeAddress returns the first external address of a Node, else the first internal one.
func (n *notes) nodeAddress(of *corev1.Node) string {
	for _, kind := range [...]corev1.NodeAddressType{corev1.NodeExternalIP, corev1.NodeInternalIP} {
		for i, a := range of.Status.Addresses {
			if a.Type != kind {
				continue
			}
			if ip, err := netip.ParseAddr(a.Address); err == nil && ip.Zone() == "" {
				return ip.String()
			}
			n.add(fmt.Sprintf("status.addresses[%d]", i), code.AddressForm, mesh.Error,
				quoted(a.Address)+" is not an address; it is left out")
		}
	}
	return ""
}

// Namespace makes a Namespace's row.
func (r Registry) Namespace(n *corev1.Namespace) (mesh.Namespace, []mesh.Problem) {
	notes := newNotes("Namespace", &n.ObjectMeta)
	return mesh.Namespace{Key: r.NamespaceKey(n.Name), Labels: notes.labels(n.Labels)}, notes.list
}

// Workload makes a Pod's row. There is none for a Pod that has ended: nothing runs there any more, and its address may
// be another's.
func (r Registry) Workload(p *corev1.Pod) (w *mesh.Workload, problems []mesh.Problem, ok bool) {
	if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
		return w, nil, false
	}
	notes := newNotes("Pod", &p.ObjectMeta)
	return &mesh.Workload{
		Key:            r.WorkloadKey(p.Namespace, p.Name),
		Addresses:      notes.podAddresses(p),
		Labels:         notes.labels(p.Labels),
		ServiceAccount: notes.name("spec.serviceAccountName", p.Spec.ServiceAccountName),
		Machine:        r.machine(notes.name("spec.nodeName", p.Spec.NodeName)),
		Health:         podHealth(p),
		Origin:         notes.of,
	}, notes.list, true
}

func podHealth(p *corev1.Pod) mesh.Health {
	if Ready(p) {
		return mesh.Healthy
	}
	return mesh.Unready
}

// Ready reports whether a Pod takes requests: it is ready, and does not end.
func Ready(p *corev1.Pod) bool {
	return p.DeletionTimestamp == nil && slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// podAddresses lists a Pod's addresses, the primary one first.
func (n *notes) podAddresses(p *corev1.Pod) string {
	all := p.Status.PodIPs
	if len(all) == 0 && p.Status.PodIP != "" {
		all = []corev1.PodIP{{IP: p.Status.PodIP}}
	}
	var out []string
	for i, a := range all {
		ip, err := netip.ParseAddr(a.IP)
		if err != nil || ip.Zone() != "" {
			n.add(fmt.Sprintf("status.podIPs[%d]", i), code.AddressForm, mesh.Error, quoted(a.IP)+" is not an address; it is left out")
			continue
		}
		out = append(out, ip.String())
	}
	return strings.Join(out, ",")
}

// notes gathers the problems of one object.
type notes struct {
	of   mesh.ObjectRef
	list []mesh.Problem
}

func newNotes(kind string, meta *metav1.ObjectMeta) *notes {
	return &notes{of: mesh.ObjectRef{Kind: kind, Namespace: shared(meta.Namespace), Name: meta.Name}}
}

// maxNotes is how many problems of one object are reported.
const maxNotes = 20

func (n *notes) add(field, code string, severity mesh.Severity, message string) {
	if len(n.list) < maxNotes {
		n.list = append(n.list, mesh.Problem{Object: n.of, Field: field, Code: code, Severity: severity, Message: message})
	}
}

// labels returns the labels of an object, without those that are not valid.
func (n *notes) labels(all map[string]string) mesh.Labels {
	for k, v := range all {
		if !plain(k) || !plain(v) {
			kept := make(map[string]string, len(all))
			for k, v := range all {
				if n.isLabel(k, v) {
					kept[k] = v
				}
			}
			return mesh.MakeLabels(kept)
		}
	}
	return mesh.MakeLabels(all)
}

func (n *notes) isLabel(name, value string) bool {
	if plain(name) && plain(value) {
		return true
	}
	n.add("metadata.labels", code.BadLabel, mesh.Error, fmt.Sprintf("%s=%s is not a label; it is left out", quoted(name), quoted(value)))
	return false
}

// name is another object's, or none.
func (n *notes) name(field, s string) string {
	if plain(s) {
		return shared(s)
	}
	n.add(field, code.BadName, mesh.Error, quoted(s)+" is not a name; it is left out")
	return ""
}

// maxWord is how many bytes a name, or the name or value of a label, may have.
const maxWord = 512

// plain reports whether a word can be a name or a label.
func plain(s string) bool { return printable.IsName(s, maxWord) }

// Named reports whether an object of an API server has valid names. An object without them has no row at all.
func Named(namespace, name string) bool { return name != "" && plain(name) && plain(namespace) }

// shared returns the one copy of a word that many rows have.
func shared(s string) string { return unique.Make(s).Value() }

func quoted(s string) string { return strconv.Quote(printable.Text(s, printable.Short)) }
