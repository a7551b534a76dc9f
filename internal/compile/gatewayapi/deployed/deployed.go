package deployed

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
)

// Deployment describes the objects that a cluster has for a Gateway.
type Deployment struct {
	// Unwanted is set for a Gateway that another controller serves, or one with gateways that its author deploys: objects that were made
	// for it earlier are deleted. Nothing but Revised is set then.
	Unwanted    bool
	Name        string // of the objects
	Labels      map[string]string
	Annotations map[string]string
	Revised     bool   // the Gateway is for one revision only; also of one that is Unwanted
	Revision    string // that the Gateway itself names; empty: it names none
	Type        corev1.ServiceType
	Address     string // that the Service's load balancer is to have; empty: any
	Ports       []corev1.ServicePort
	// Overlays are strategic merge patches in JSON, by the kind of the object that they change, in the order in which they are merged. An
	// autoscaler and a disruption budget exist only if there are patches for them.
	Overlays map[string][]string
}

// Overlay adds patches, in order.
func (d *Deployment) Overlay(all []*Parameters) {
	for _, p := range all {
		for kind, patch := range p.Overlays {
			if d.Overlays == nil {
				d.Overlays = map[string][]string{}
			}
			d.Overlays[kind] = append(d.Overlays[kind], patch)
		}
	}
}

// Same reports whether two are equal.
func Same(a, b *Deployment) bool { return equality.Semantic.DeepEqual(a, b) }

// Row implements table.Rower.
func (d *Deployment) Row() []string {
	if d.Unwanted {
		return []string{"none"}
	}
	var ports []string
	for _, p := range d.Ports {
		ports = append(ports, p.Name)
	}
	row := []string{d.Name, string(d.Type), strings.Join(ports, ", ")}
	if len(d.Overlays) > 0 {
		row = append(row, "with parameters of "+strings.Join(slices.Sorted(maps.Keys(d.Overlays)), ", "))
	}
	return row
}

// longest is how many bytes the name of a Service may have.
const longest = 63

// name returns the name of a Gateway's objects, as Istio forms it: GATEWAY-CLASS. A name that no Service can have is changed, and ends with
// a hash of the whole.
func name(gateway, class string) string {
	whole := gateway + "-" + class
	if len(validation.IsDNS1035Label(whole)) == 0 {
		return whole
	}
	sum := sha256.Sum256([]byte(whole))
	hash := "-" + hex.EncodeToString(sum[:4])
	name := strings.ReplaceAll(whole, ".", "-")
	if name[0] >= '0' && name[0] <= '9' {
		name = "gateway-" + name
	}
	return name[:min(len(name), longest-len(hash))] + hash
}

// statusPort is the port of readiness, which all gateways have.
const statusPort = 15021

// serviceType is the annotation of a Gateway that says of which type its Service is.
const serviceType = "networking.istio.io/service-type"

// ByHand reports whether the author of a Gateway deploys its gateways: its addresses name their Services.
func ByHand(spec *gatewayv1.GatewaySpec) bool {
	return slices.ContainsFunc(spec.Addresses, func(a gatewayv1.GatewaySpecAddress) bool {
		return a.Type != nil && *a.Type == gatewayv1.HostnameAddressType
	})
}

// Of describes the objects of a Gateway with these listeners. The caller adds the labels that name the Gateway and its class. Of notes
// fields that have no effect.
func Of(o *config.Object, listeners iter.Seq[*gatewayv1.Listener], note func(mesh.Problem)) *Deployment {
	spec := o.Native.(*gatewayv1.GatewaySpec)
	revision, _ := o.Labels.Get("istio.io/rev")
	d := &Deployment{
		Name: name(o.Name, string(spec.GatewayClassName)), Revision: revision,
		Type: serviceTypeOf(o, spec, note), Ports: portsOf(listeners), Address: requested(o, spec, note),
	}
	d.Labels, d.Annotations = metadataOf(spec)
	return d
}

// metadataOf returns the labels and annotations that a Gateway wants on its objects. Those that would change how pods are injected are left
// out: a Gateway's author must not choose a program to run.
func metadataOf(spec *gatewayv1.GatewaySpec) (labels, annotations map[string]string) {
	labels, annotations = map[string]string{}, map[string]string{}
	if spec.Infrastructure == nil {
		return labels, annotations
	}
	for k, v := range spec.Infrastructure.Labels {
		if !injects(string(k)) {
			labels[string(k)] = string(v)
		}
	}
	for k, v := range spec.Infrastructure.Annotations {
		if !injects(string(k)) {
			annotations[string(k)] = string(v)
		}
	}
	return labels, annotations
}

func injects(key string) bool {
	domain, _, _ := strings.Cut(key, "/")
	return domain == "sidecar.istio.io" || domain == "inject.istio.io" || domain == "proxy.istio.io" || key == "istio.io/rev"
}

// serviceTypeOf returns the type of a Gateway's Service.
func serviceTypeOf(o *config.Object, spec *gatewayv1.GatewaySpec, note func(mesh.Problem)) corev1.ServiceType {
	is, said := o.Annotations[serviceType]
	if !said && spec.Infrastructure != nil {
		var v gatewayv1.AnnotationValue
		v, said = spec.Infrastructure.Annotations[serviceType]
		is = string(v)
	}
	switch typ := corev1.ServiceType(is); {
	case typ == corev1.ServiceTypeClusterIP, typ == corev1.ServiceTypeNodePort, typ == corev1.ServiceTypeLoadBalancer:
		return typ
	case said:
		note(o.Problem("metadata.annotations["+serviceType+"]", code.UnknownValue, mesh.Warning,
			strconv.Quote(is)+" is not a type of a gateway's Service: it is a LoadBalancer", "write LoadBalancer, NodePort or ClusterIP"))
	}
	return corev1.ServiceTypeLoadBalancer
}

// requested returns the address that a Gateway wants of its load balancer; empty: any.
func requested(o *config.Object, spec *gatewayv1.GatewaySpec, note func(mesh.Problem)) (ip string) {
	for i, a := range spec.Addresses {
		at := fmt.Sprintf("spec.addresses[%d]", i)
		switch {
		case a.Type != nil && *a.Type != gatewayv1.IPAddressType:
			note(o.Problem(at+".type", code.NotSupported, mesh.Error,
				fmt.Sprintf("addresses of type %q are not known", *a.Type), "write IPAddress or Hostname"))
		case a.Value == "" || ip == a.Value:
		case ip == "":
			ip = a.Value
		default:
			note(o.Problem(at, code.NotSupported, mesh.Warning,
				"a Service has one address of its own: "+ip+" is asked for, and not "+a.Value, "leave all but one out"))
		}
	}
	return ip
}

// portsOf returns the ports of the Service of a Gateway with these listeners. The port of readiness is not among them.
func portsOf(listeners iter.Seq[*gatewayv1.Listener]) (out []corev1.ServicePort) {
	type port struct {
		number   int32
		protocol corev1.Protocol
	}
	seen := map[port]bool{{statusPort, corev1.ProtocolTCP}: true}
	for l := range listeners {
		number, app := l.Port, strings.ToLower(string(l.Protocol))
		p := port{number, corev1.ProtocolTCP}
		if l.Protocol == gatewayv1.UDPProtocolType {
			p.protocol = corev1.ProtocolUDP
		}
		name := app + "-" + strconv.Itoa(int(number))
		if seen[p] || len(validation.IsDNS1123Label(name)) > 0 {
			continue // another listener has the port, or the protocol is one of another controller's
		}
		seen[p] = true
		out = append(out, corev1.ServicePort{
			Name: name, Port: number, Protocol: p.protocol, AppProtocol: &app, TargetPort: intstr.FromInt32(number),
		})
	}
	slices.SortFunc(out, func(a, b corev1.ServicePort) int {
		return cmp.Or(cmp.Compare(a.Port, b.Port), cmp.Compare(a.Protocol, b.Protocol))
	})
	return out
}
