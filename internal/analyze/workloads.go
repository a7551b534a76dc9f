package analyze

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	networking "istio.io/api/networking/v1alpha3"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fairway/internal/config"
	"fairway/internal/inject"
	"fairway/internal/mesh"
	"fairway/internal/source"
)

// firstAddress is the first address for workloads that have none. It is in a range for network tests (RFC 2544), so no real machine has it.
// The range has room for 131,070.
var firstAddress = netip.AddrFrom4([4]byte{198, 18, 0, 1})

const mostAddresses = 131_070

// pod keeps a pod, or the pod of a template, as one that runs and is ready. A pod in its machine's network has no sidecar, but still
// serves.
func (r *reader) pod(name, namespace string, meta *metav1.ObjectMeta, spec *corev1.PodSpec, address string) *corev1.Pod {
	if address == "" && len(r.pods) < mostAddresses {
		address = nth(len(r.pods))
	}
	made := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, Labels: meta.Labels, Annotations: meta.Annotations},
		Spec:       *spec,
		Status: corev1.PodStatus{
			PodIP: address, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		},
	}
	r.pods = append(r.pods, made)
	return made
}

// injected gives pods the label that injected pods have.
func (r *reader) injected() {
	by, err := inject.New(inject.Settings{
		Hub:    anyHub,
		System: r.root, Revision: r.revision, Tags: r.inventory.revisions(),
		Config: inject.Text{Text: []byte(r.inventory.injector["config"])},
		Values: inject.Text{Text: []byte(r.inventory.injector["values"])},
	})
	if err != nil {
		return // injecting reports this error
	}
	for _, p := range r.pods {
		var labels map[string]string
		if n := r.inventory.namespaces[p.Namespace]; n != nil {
			labels = orEmpty(n.Labels)
		}
		_, said := p.Labels[mesh.TLSModeLabel]
		has := slices.ContainsFunc(p.Spec.Containers, isProxy) || slices.ContainsFunc(p.Spec.InitContainers, isProxy)
		if !said && (has || by.Decide(p, p.Namespace, labels).Inject) {
			p.Labels = maps.Clone(orEmpty(p.Labels))
			p.Labels[mesh.TLSModeLabel] = "istio"
		}
	}
}

// nth is one address of the range.
func nth(n int) string {
	four := firstAddress.As4()
	v := uint32(four[0])<<24 | uint32(four[1])<<16 | uint32(four[2])<<8 | uint32(four[3])
	v += uint32(n)
	return netip.AddrFrom4([4]byte{byte(v >> 24), byte(v >> 16), byte(v >> 8), byte(v)}).String()
}

// serving returns the endpoints that the pods are for services, as Kubernetes would compute them. objects are all objects that were read.
func (r *reader) serving(objects []*config.Object) (rows source.Rows) {
	for _, s := range r.slices {
		if row, problems := r.registry.Slice(s); row != nil {
			r.addProblems(problems)
			rows.Slices = append(rows.Slices, row)
		}
	}
	r.known = len(r.pods) > 0
	unknown := subsetsByHost(objects)
	byNamespace := map[string][]*corev1.Pod{}
	for _, p := range r.pods {
		byNamespace[p.Namespace] = append(byNamespace[p.Namespace], p)
	}
	for _, s := range r.services {
		if len(s.Spec.Selector) == 0 || s.Spec.Type == corev1.ServiceTypeExternalName || r.sliced[what{"Service", s.Namespace, s.Name}] {
			continue
		}
		pods := slices.DeleteFunc(slices.Clone(byNamespace[s.Namespace]), func(p *corev1.Pod) bool {
			return !has(p.Labels, s.Spec.Selector)
		})
		if len(pods) == 0 && r.alone {
			pods = r.assumedPods(s, unknown[r.registry.ServiceKey(s.Namespace, s.Name).Host])
		}
		for i, p := range pods {
			row, _ := r.registry.Slice(sliceOf(s, p, i))
			rows.Slices = append(rows.Slices, row)
		}
	}
	r.injected()
	for _, p := range r.pods {
		if row, problems, runs := r.registry.Workload(p); runs {
			r.addProblems(problems)
			rows.Workloads = append(rows.Workloads, row)
		}
	}
	return rows
}

// assumedPods returns assumed pods of a Service if no pods of it are read: one with only the labels of its selector, and one for each
// subset that rules name.
func (r *reader) assumedPods(s *corev1.Service, subsets []map[string]string) (out []*corev1.Pod) {
	for i, more := range append([]map[string]string{nil}, subsets...) {
		labels := maps.Clone(s.Spec.Selector)
		maps.Copy(labels, more)
		before := len(r.pods)
		name := fmt.Sprintf("%s-%d", s.Name, i)
		r.pod(name, s.Namespace, &metav1.ObjectMeta{Labels: labels}, &corev1.PodSpec{}, "")
		out = append(out, r.pods[before:]...)
	}
	return out
}

// subsetsByHost are the labels of the subsets that DestinationRules have of each host.
func subsetsByHost(objects []*config.Object) map[mesh.Host][]map[string]string {
	out := map[mesh.Host][]map[string]string{}
	for _, o := range objects {
		if o.Kind != config.DestinationRule {
			continue
		}
		spec := config.Spec[*networking.DestinationRule](o)
		host := mesh.FullHost(spec.GetHost(), o.Namespace, domain)
		for _, s := range spec.GetSubsets() {
			out[host] = append(out[host], s.GetLabels())
		}
	}
	return out
}

func has(labels, selector map[string]string) bool {
	for k, v := range selector {
		if got, ok := labels[k]; !ok || got != v {
			return false
		}
	}
	return true
}

// sliceOf is the slice of endpoints that a pod is of a Service.
func sliceOf(s *corev1.Service, p *corev1.Pod, i int) *discoveryv1.EndpointSlice {
	ready := true
	out := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("%s-%d", s.Name, i), Namespace: s.Namespace, Labels: map[string]string{discoveryv1.LabelServiceName: s.Name},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints: []discoveryv1.Endpoint{{
			Addresses: []string{p.Status.PodIP}, Conditions: discoveryv1.EndpointConditions{Ready: &ready},
			TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: p.Namespace, Name: p.Name},
		}},
	}
	for _, port := range s.Spec.Ports {
		if n := target(port, p); n > 0 {
			name, protocol := port.Name, port.Protocol
			out.Ports = append(out.Ports, discoveryv1.EndpointPort{Name: &name, Port: &n, Protocol: &protocol})
		}
	}
	return out
}

// target returns the number of the pod's port that a Service's port leads to; 0: the pod has no port of that name. If the pod is unknown,
// it returns the Service's own number.
func target(port corev1.ServicePort, p *corev1.Pod) int32 {
	if name := port.TargetPort.StrVal; name != "" {
		for _, c := range p.Spec.Containers {
			for _, has := range c.Ports {
				if has.Name == name {
					return has.ContainerPort
				}
			}
		}
		if len(p.Spec.Containers) > 0 {
			return 0
		}
	}
	if port.TargetPort.IntVal > 0 {
		return port.TargetPort.IntVal
	}
	return port.Port
}
