package gatewayapi

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
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
	"fairway/internal/table"
)

// ClassName is the label that names the class of a Gateway's objects.
const ClassName = "gateway.networking.k8s.io/gateway-class-name"

// Deployment describes the objects that a cluster has for a Gateway.
type Deployment struct {
	// Unwanted is set for a Gateway that another controller serves, or one with gateways that its author deploys: objects that were made
	// for it earlier are deleted. Nothing else is set then.
	Unwanted    bool
	Name        string // of the objects
	Labels      map[string]string
	Annotations map[string]string
	Revision    string // that the Gateway names; empty: it names none
	Type        corev1.ServiceType
	Address     string // that the Service's load balancer is to have; empty: any
	Ports       []corev1.ServicePort
}

func sameDeployment(a, b *Deployment) bool { return equality.Semantic.DeepEqual(a, b) }

// Row implements table.Rower.
func (d *Deployment) Row() []string {
	if d.Unwanted {
		return []string{"none"}
	}
	var ports []string
	for _, p := range d.Ports {
		ports = append(ports, p.Name)
	}
	return []string{d.Name, string(d.Type), strings.Join(ports, ", ")}
}

// DeployedName returns the name of a Gateway's objects, as Istio forms it: GATEWAY-CLASS. A name that no Service can have is changed, and
// ends with a hash of the whole.
func DeployedName(gateway, class string) string {
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
	return name[:min(len(name), longestLabel-len(hash))] + hash
}

// statusPort is the port of readiness, which all gateways have.
const statusPort = 15021

// serviceType is the annotation of a Gateway that says of which type its Service is.
const serviceType = "networking.istio.io/service-type"

// byHand reports whether the author of a Gateway deploys its gateways: its addresses name their Services.
func byHand(spec *gatewayv1.GatewaySpec) bool {
	return slices.ContainsFunc(spec.Addresses, func(a gatewayv1.GatewaySpecAddress) bool {
		return value(a.Type, gatewayv1.IPAddressType) == gatewayv1.HostnameAddressType
	})
}

// declareDeployments declares the objects of Gateways that an API server has.
func (t *Tables) declareDeployments() {
	m := &t.maker
	byGateway := table.Group(m.listeners, "gatewayapi/listeners by gateway", config.CompareKey,
		func(_ listenerKey, l *listener) []config.Key { return []config.Key{l.gateway} })
	t.Deployments = table.Derive(m.in.KubernetesGateways, "gatewayapi/deployments", config.CompareKey, sameDeployment,
		func(r *table.Reader, k config.Key, o *config.Object, emit func(config.Key, *Deployment)) {
			spec := native[gatewayv1.GatewaySpec](o)
			controller := m.controllerOf(r, o)
			written, _ := table.Get(r, m.in.Written.Table, k) // only whether an API server has it
			switch {
			case written.Stored.UID == "" || controller == "":
				return // a class that is not known may only be late
			case !IsOurs(controller) || byHand(spec):
				emit(k, &Deployment{Unwanted: true})
				return
			case !m.in.DeploysGateways():
				return
			}
			listeners, _ := table.Get(r, byGateway, k)
			revision, _ := o.Labels.Get("istio.io/rev")
			d := &Deployment{
				Name: DeployedName(o.Name, string(spec.GatewayClassName)), Revision: revision,
				Type: serviceTypeOf(r, o), Ports: portsOf(listeners),
			}
			d.Labels, d.Annotations = metadataOf(spec)
			d.Labels[GatewayName], d.Labels[ClassName] = shortName(o.Name), shortName(string(spec.GatewayClassName))
			d.Address = requested(r, o)
			emit(k, d)
		})
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
func serviceTypeOf(r *table.Reader, o *config.Object) corev1.ServiceType {
	is, said := o.Annotations[serviceType]
	if infrastructure := native[gatewayv1.GatewaySpec](o).Infrastructure; !said && infrastructure != nil {
		var v gatewayv1.AnnotationValue
		v, said = infrastructure.Annotations[serviceType]
		is = string(v)
	}
	switch typ := corev1.ServiceType(is); {
	case typ == corev1.ServiceTypeClusterIP, typ == corev1.ServiceTypeNodePort, typ == corev1.ServiceTypeLoadBalancer:
		return typ
	case said:
		r.Note(o.Problem("metadata.annotations["+serviceType+"]", code.UnknownValue, mesh.Warning,
			strconv.Quote(is)+" is not a type of a gateway's Service: it is a LoadBalancer", "write LoadBalancer, NodePort or ClusterIP"))
	}
	return corev1.ServiceTypeLoadBalancer
}

// requested returns the address that a Gateway wants of its load balancer; empty: any.
func requested(r *table.Reader, o *config.Object) (ip string) {
	for i, a := range native[gatewayv1.GatewaySpec](o).Addresses {
		at := index("spec.addresses", i)
		switch {
		case value(a.Type, gatewayv1.IPAddressType) != gatewayv1.IPAddressType:
			r.Note(o.Problem(at+".type", code.NotSupported, mesh.Error,
				fmt.Sprintf("addresses of type %q are not known", value(a.Type, "")), "write IPAddress or Hostname"))
		case a.Value == "" || ip == a.Value:
		case ip == "":
			ip = a.Value
		default:
			r.Note(o.Problem(at, code.NotSupported, mesh.Warning,
				"a Service has one address of its own: "+ip+" is asked for, and not "+a.Value, "leave all but one out"))
		}
	}
	return ip
}

// portsOf returns the ports of the Service of a Gateway with these listeners. The port of readiness is not among them.
func portsOf(listeners table.Rows[listenerKey, *listener]) (out []corev1.ServicePort) {
	type port struct {
		number   int32
		protocol corev1.Protocol
	}
	seen := map[port]bool{{statusPort, corev1.ProtocolTCP}: true}
	for _, l := range listeners.All() {
		number, app := l.spec.Port, strings.ToLower(string(l.spec.Protocol))
		p := port{number, corev1.ProtocolTCP}
		if l.spec.Protocol == gatewayv1.UDPProtocolType {
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
