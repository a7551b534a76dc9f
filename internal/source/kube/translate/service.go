package translate

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"fairway/internal/mesh"
	"fairway/internal/mesh/alias"
	"fairway/internal/mesh/code"
	"fairway/internal/source/budget"
)

// exportTo is the annotation with the namespaces that may see a Service.
const exportTo = "networking.istio.io/exportTo"

// Service builds a Service's row. If its type is ExternalName, it has a slice too, which leads to the name; otherwise the
// slice is nil.
func (r Registry) Service(s *corev1.Service) (*mesh.Service, *mesh.Slice, []mesh.Problem) {
	notes := newNotes("Service", &s.ObjectMeta)
	s = notes.fewPorts(s)
	row := &mesh.Service{
		Key:        r.ServiceKey(s.Namespace, s.Name),
		Ports:      notes.servicePorts(s),
		Resolution: mesh.ClientSide,
		ExportTo:   notes.exportTo(s),
		Created:    created(s),
		Origin:     notes.of,
		Outside:    notes.outside(s),
		Accounts:   notes.accounts(s),
		Nearest:    notes.nearest(s),
		OwnMachine: s.Spec.InternalTrafficPolicy != nil && *s.Spec.InternalTrafficPolicy == corev1.ServiceInternalTrafficPolicyLocal,
	}
	row.Network, row.NetworkPort = notes.gateway(s)
	row.Nodes = notes.nodePorts(s)
	row.RulesFrom = notes.rulesFrom(s)
	if s.Spec.Type == corev1.ServiceTypeExternalName {
		row.Resolution, row.External = mesh.DNS, true
		for i := range row.Ports {
			row.Ports[i].Target = 0 // Kubernetes reads neither targetPort nor selector of one
		}
		return row, notes.elsewhere(row.Key, s), notes.list
	}
	if row.Selects = notes.labels(s.Spec.Selector); row.Selects != "" {
		row.TargetNames = targetNames(s, row.Ports)
	}
	switch {
	case s.Spec.ClusterIP == corev1.ClusterIPNone:
		row.Resolution = mesh.Passthrough // clients choose among the addresses of the name
	default:
		row.Addresses = notes.addresses(s)
	}
	return row, nil, notes.list
}

func created(s *corev1.Service) int64 {
	if s.CreationTimestamp.IsZero() {
		return 0
	}
	return s.CreationTimestamp.Unix()
}

// fewPorts returns a Service without its ports beyond the bound.
func (n *notes) fewPorts(s *corev1.Service) *corev1.Service {
	if len(s.Spec.Ports) <= budget.MaxPorts {
		return s
	}
	n.add("spec.ports", code.TooMuch, mesh.Error, fmt.Sprintf(
		"the Service has %d ports; those after the first %d are left out: have several Services for them",
		len(s.Spec.Ports), budget.MaxPorts,
	))
	few := *s
	few.Spec.Ports = s.Spec.Ports[:budget.MaxPorts]
	return &few
}

// servicePorts returns the ports by number, each once: Envoy tells ports apart by number alone, and TCP takes precedence
// over UDP.
func (n *notes) servicePorts(s *corev1.Service) []mesh.Port {
	ports := make([]mesh.Port, 0, len(s.Spec.Ports))
	for i := range s.Spec.Ports {
		p := &s.Spec.Ports[i]
		if p.Protocol == corev1.ProtocolSCTP {
			n.add(fmt.Sprintf("spec.ports[%d]", i), code.NotYet, mesh.Info, "SCTP is not carried; the port is left out")
			continue
		}
		if !plain(p.Name) || p.Port < 0 {
			n.add(fmt.Sprintf("spec.ports[%d]", i), code.BadPort, mesh.Error, quoted(p.Name)+" is not a port; it is left out")
			continue
		}
		ports = append(ports, mesh.Port{Name: p.Name, Number: uint32(p.Port), Target: target(p), Protocol: protocol(p)})
	}
	slices.SortStableFunc(ports, func(a, b mesh.Port) int {
		return cmp.Or(cmp.Compare(a.Number, b.Number), cmp.Compare(datagrams(a), datagrams(b)))
	})
	return slices.CompactFunc(ports, func(a, b mesh.Port) bool { return a.Number == b.Number })
}

func datagrams(p mesh.Port) int {
	if p.Protocol == mesh.UDP {
		return 1
	}
	return 0
}

// target returns the port that endpoints serve on unless they say otherwise. A name says nothing here: the EndpointSlice
// has the number.
func target(p *corev1.ServicePort) uint32 {
	if n := p.TargetPort.IntValue(); p.TargetPort.StrVal == "" && n > 0 && int32(n) != p.Port {
		return uint32(n)
	}
	return 0
}

// targetNames returns the names of target ports, by the names of the ports that are read.
func targetNames(s *corev1.Service, read []mesh.Port) mesh.Labels {
	out := map[string]string{}
	for i := range s.Spec.Ports {
		p := &s.Spec.Ports[i]
		is := func(r mesh.Port) bool { return r.Name == p.Name && int32(r.Number) == p.Port }
		if name := p.TargetPort.StrVal; name != "" && plain(name) && slices.ContainsFunc(read, is) {
			out[p.Name] = name
		}
	}
	return mesh.MakeLabels(out)
}

// addresses returns the Service's addresses inside the cluster, of all families, the first one first.
func (n *notes) addresses(s *corev1.Service) (out []string) {
	all := s.Spec.ClusterIPs
	if len(all) == 0 && s.Spec.ClusterIP != "" {
		all = []string{s.Spec.ClusterIP}
	}
	for i, text := range all {
		ip, err := netip.ParseAddr(text)
		if err != nil || ip.Zone() != "" {
			n.add(fmt.Sprintf("spec.clusterIPs[%d]", i), code.AddressForm, mesh.Error, quoted(text)+" is not an address; it is left out")
			continue
		}
		out = append(out, ip.String())
	}
	return out
}

// distribution is the annotation that says what spec.trafficDistribution does, and takes precedence over it.
const distribution = "networking.istio.io/traffic-distribution"

// nearest reads it: the labels of their location that clients choose among endpoints by.
func (n *notes) nearest(s *corev1.Service) []string {
	said, field := s.Annotations[distribution], "metadata.annotations["+distribution+"]"
	if said == "" && s.Spec.TrafficDistribution != nil {
		said, field = *s.Spec.TrafficDistribution, "spec.trafficDistribution"
	}
	zone := []string{networkLabel, corev1.LabelTopologyRegion, corev1.LabelTopologyZone}
	switch said {
	case "", "Any":
		return nil
	case corev1.ServiceTrafficDistributionPreferSameZone:
		return zone
	case corev1.ServiceTrafficDistributionPreferClose:
		return append(zone, subZoneLabel)
	case corev1.ServiceTrafficDistributionPreferSameNode:
		return append(zone, subZoneLabel, corev1.LabelHostname)
	}
	n.add(field, code.UnknownValue, mesh.Warning, quoted(said)+" is not known; endpoints are used alike wherever they are")
	return nil
}

// mostOutside is how many addresses outside of its cluster a Service may have.
const mostOutside = 100

// outside returns the addresses of its load balancer and its external IPs, each once, sorted.
func (n *notes) outside(s *corev1.Service) (out []string) {
	for i, text := range s.Spec.ExternalIPs {
		if ip, err := netip.ParseAddr(text); err == nil && ip.Zone() == "" {
			out = append(out, ip.String())
		} else {
			n.add(fmt.Sprintf("spec.externalIPs[%d]", i), code.AddressForm, mesh.Error, quoted(text)+" is not an address; it is left out")
		}
	}
	for i, at := range s.Status.LoadBalancer.Ingress {
		ip, err := netip.ParseAddr(at.IP)
		switch host := strings.TrimSuffix(strings.ToLower(at.Hostname), "."); {
		case err == nil && ip.Zone() == "":
			out = append(out, ip.String())
		case at.IP == "" && host != "" && plain(host) && !strings.Contains(host, "/"):
			out = append(out, host)
		default:
			n.add(fmt.Sprintf("status.loadBalancer.ingress[%d]", i), code.AddressForm, mesh.Error,
				quoted(cmp.Or(at.IP, at.Hostname))+" is not an address; it is left out")
		}
	}
	slices.Sort(out)
	if out = slices.Compact(out); len(out) > mostOutside {
		n.add("status.loadBalancer", code.TooMuch, mesh.Error, fmt.Sprintf("of its addresses the first %d count", mostOutside))
		out = out[:mostOutside]
	}
	return out
}

// Labels and annotations of a Service that mark it as an east-west gateway's, and name the port for traffic from other
// networks.
const (
	networkLabel = "topology.istio.io/network"
	gatewayPort  = "networking.istio.io/gatewayPort" // a label, or an annotation
)

func (n *notes) gateway(s *corev1.Service) (network string, port uint32) {
	network = s.Labels[networkLabel]
	if network == "" || !n.isLabel(networkLabel, network) {
		return "", 0
	}
	said, field := s.Annotations[gatewayPort], "metadata.annotations["+gatewayPort+"]"
	if said == "" {
		said, field = s.Labels[gatewayPort], "metadata.labels["+gatewayPort+"]"
	}
	if said == "" {
		return shared(network), 0
	}
	number, err := strconv.ParseUint(said, 10, 16)
	if err != nil || number == 0 {
		n.add(field, code.BadPort, mesh.Error, fmt.Sprintf("%s is not a port; %d is taken", quoted(said), mesh.EastWestPort))
		return shared(network), 0
	}
	return shared(network), uint32(number)
}

// nodeSelector is the annotation of a Service of type NodePort that selects the Nodes for traffic from outside: labels, in JSON.
const nodeSelector = "traffic.istio.io/nodeSelector"

// nodePorts reads it; nil: Nodes are not to be used.
func (n *notes) nodePorts(s *corev1.Service) *mesh.NodePorts {
	said, is := s.Annotations[nodeSelector]
	if !is || s.Spec.Type != corev1.ServiceTypeNodePort {
		return nil
	}
	selects := map[string]string{}
	if said = strings.TrimSpace(said); said != "" {
		if err := json.Unmarshal([]byte(said), &selects); err != nil {
			n.add("metadata.annotations["+nodeSelector+"]", code.BadValue, mesh.Error,
				quoted(said)+` is not JSON of labels like {"role": "edge"}; no Node is used`)
			return nil
		}
	}
	for key, value := range selects {
		if !plain(key) || !plain(value) {
			n.add("metadata.annotations["+nodeSelector+"]", code.BadLabel, mesh.Error,
				quoted(key+"="+value)+" is not a label; no Node is used")
			return nil
		}
	}
	ports := map[string]string{}
	for i := range s.Spec.Ports {
		if p := &s.Spec.Ports[i]; p.NodePort > 0 && p.Protocol != corev1.ProtocolUDP && p.Protocol != corev1.ProtocolSCTP {
			ports[strconv.Itoa(int(p.Port))] = strconv.Itoa(int(p.NodePort))
		}
	}
	return &mesh.NodePorts{
		Machines: mesh.MakeLabels(selects), Ports: mesh.MakeLabels(ports),
		Serving: s.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal,
	}
}

// Annotations that name service accounts which a Service's endpoints may have, as names and as whole identities.
const (
	accountNames      = "alpha.istio.io/kubernetes-serviceaccounts"
	accountIdentities = "alpha.istio.io/canonical-serviceaccounts"
	mostAccounts      = 100
)

func (n *notes) accounts(s *corev1.Service) (out []string) {
	for _, by := range [...]string{accountNames, accountIdentities} {
		if s.Annotations[by] == "" {
			continue
		}
		for _, word := range strings.SplitN(s.Annotations[by], ",", mostAccounts) {
			word = strings.TrimSpace(word)
			id, whole := strings.CutPrefix(word, "spiffe://")
			if good := id != "" && plain(id) && (whole || by == accountIdentities || !strings.Contains(id, "/")); !good {
				n.add("metadata.annotations["+by+"]", code.BadValue, mesh.Error, quoted(word)+" is not a service account; it is left out")
				continue
			}
			if by == accountIdentities {
				word = "spiffe://" + id
			}
			out = append(out, word)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// exportTo reads the annotation. If nothing of it can be read, only the Service's own namespace sees it: its author meant
// to hide something.
func (n *notes) exportTo(s *corev1.Service) (out []string) {
	said, ok := s.Annotations[exportTo]
	if !ok || strings.TrimSpace(said) == "" {
		return nil
	}
	const most = 1000
	for _, word := range strings.SplitN(said, ",", most) {
		word = strings.TrimSpace(word)
		switch {
		case word == "*", word == ".", word == "~", word != "" && plain(word) && !strings.ContainsAny(word, "./_"):
			if !slices.Contains(out, word) {
				out = append(out, word)
			}
		default:
			n.add("metadata.annotations["+exportTo+"]", code.BadValue, mesh.Error, quoted(word)+" is not a namespace, nor *, . or ~")
		}
	}
	if len(out) == 0 {
		return []string{"."}
	}
	return out
}

// rulesFromAnnotation lists the namespaces with VirtualServices that may decide for clients of a Service
// (config.RulesFromAnnotation).
const rulesFromAnnotation = "fairway/rules-from"

// rulesFrom reads the annotation. A word that is not a namespace allows none.
func (n *notes) rulesFrom(s *corev1.Service) (out []string) {
	said := s.Annotations[rulesFromAnnotation]
	if said == "" {
		return nil
	}
	const most = 1000
	for _, word := range strings.SplitN(said, ",", most) {
		word = strings.TrimSpace(word)
		if word != "*" && (word == "" || !plain(word) || strings.ContainsAny(word, "./_")) {
			n.add("metadata.annotations["+rulesFromAnnotation+"]", code.BadValue, mesh.Error, quoted(word)+" is not a namespace, nor *")
			continue
		}
		out = append(out, word)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// elsewhere returns the slice of a Service that is another name for a host outside.
func (n *notes) elsewhere(key mesh.ServiceKey, s *corev1.Service) *mesh.Slice {
	host := strings.TrimSuffix(strings.ToLower(s.Spec.ExternalName), ".")
	if host == "" || !plain(host) || strings.Contains(host, "/") {
		n.add("spec.externalName", code.BadValue, mesh.Error, quoted(s.Spec.ExternalName)+" is not a host name; the Service leads nowhere")
		return nil
	}
	return &mesh.Slice{Key: ElsewhereKey(key), Endpoints: []mesh.SliceEndpoint{{ID: host, Endpoint: mesh.Endpoint{Address: host}}}}
}

// ElsewhereKey names the slice of a Service of type ExternalName.
func ElsewhereKey(service mesh.ServiceKey) mesh.SliceKey {
	return mesh.SliceKey{Service: service, Name: alias.Slice}
}
