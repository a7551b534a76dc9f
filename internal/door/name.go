package door

import (
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"fairway/internal/config"
)

// name is something that one object gives and another needs. It is comparable.
type name struct {
	kind nameKind
	// what is a host, or "namespace/name" of an object. Wildcard hosts are written without their star, so that widening a name
	// allocates nothing: ".example.com" is "*.example.com" and "." is "*".
	what   string
	subset string
}

type nameKind uint8

const (
	hostName    nameKind = iota
	subsetName           // a named subset of a host
	gatewayName          // a Gateway
	ruleName             // a VirtualService that another delegates to
	poolName             // an InferencePool
)

// String returns the name as users know it.
func (n name) String() string {
	what := n.what
	if strings.HasPrefix(what, ".") {
		what = strings.TrimSuffix("*"+what, ".")
	}
	switch n.kind {
	case subsetName:
		return "subset " + n.subset + " of host " + what
	case gatewayName:
		return "Gateway " + what
	case ruleName:
		return "VirtualService " + what
	case poolName:
		return "InferencePool " + what
	}
	return "host " + what
}

// wider returns the narrowest wildcard that covers n, false if there is none.
func (n name) wider() (name, bool) {
	if n.kind > subsetName || n.what == "." || n.what == "" {
		return n, false
	}
	if dot := strings.IndexByte(n.what[1:], '.'); dot >= 0 {
		n.what = n.what[1+dot:]
	} else {
		n.what = "."
	}
	return n, true
}

func compareName(a, b name) int {
	if a.kind != b.kind {
		return int(a.kind) - int(b.kind)
	}
	if c := strings.Compare(a.what, b.what); c != 0 {
		return c
	}
	return strings.Compare(a.subset, b.subset)
}

// facts are the names that a version of an object needs, and the names that it gives, each sorted and without repeats.
type facts struct{ needs, gives []name }

// reader reads facts out of objects.
type reader struct{ suffix string } // the domain of short host names, "cluster.local"

// facts returns the facts of an item; an absent item has none.
func (r reader) facts(i item) facts {
	var f facts
	switch {
	case i.service != nil:
		f.gives = append(f.gives, name{kind: hostName, what: starless(string(i.service.Key.Host))})
	case i.object != nil:
		f = r.object(i.object)
	}
	f.needs, f.gives = tidy(f.needs), tidy(f.gives)
	return f
}

func tidy(names []name) []name {
	slices.SortFunc(names, compareName)
	return slices.Compact(names)
}

func (r reader) object(o *config.Object) facts {
	switch spec := o.Spec.(type) {
	case *networking.VirtualService:
		return facts{needs: r.rule(o.Namespace, spec), gives: []name{{kind: ruleName, what: o.Namespace + "/" + o.Name}}}
	case *networking.DestinationRule:
		return facts{gives: r.subsets(o.Namespace, spec)}
	case *networking.ServiceEntry:
		return facts{gives: r.hosts(o.Namespace, spec)}
	case *networking.Gateway:
		return facts{gives: []name{{kind: gatewayName, what: o.Namespace + "/" + o.Name}}}
	}
	switch o.Kind {
	case config.KubernetesGateway, config.ListenerSet:
		return facts{gives: []name{parent(o.Kind.Word(), o.Namespace, o.Name)}}
	case config.InferencePool:
		return facts{gives: []name{{kind: poolName, what: o.Namespace + "/" + o.Name}}}
	}
	return facts{needs: r.route(o)}
}

// parent is the name of what routes of the Gateway API are bound to.
func parent(kind, namespace, called string) name {
	return name{kind: gatewayName, what: kind + " " + namespace + "/" + called}
}

// route lists the needs of a route of the Gateway API: its backends, and what it is bound to.
func (r reader) route(o *config.Object) (out []name) {
	home := func(written *gatewayv1.Namespace) string {
		if written != nil {
			return string(*written)
		}
		return o.Namespace
	}
	for _, ref := range o.Parents() {
		kind := "Gateway"
		if ref.Kind != nil {
			kind = string(*ref.Kind)
		}
		out = append(out, parent(kind, home(ref.Namespace), string(ref.Name)))
	}
	for _, ref := range o.Backends() {
		switch {
		case ref.Group == nil || *ref.Group == "":
			out = append(out, name{kind: hostName, what: r.host(home(ref.Namespace), string(ref.Name))})
		case string(*ref.Group) == config.InferencePool.Group():
			out = append(out, name{kind: poolName, what: home(ref.Namespace) + "/" + string(ref.Name)})
		}
	}
	return out
}

func (r reader) hosts(namespace string, spec *networking.ServiceEntry) []name {
	out := make([]name, 0, len(spec.GetHosts()))
	for _, h := range spec.GetHosts() {
		out = append(out, name{kind: hostName, what: r.host(namespace, h)})
	}
	return out
}

func (r reader) subsets(namespace string, spec *networking.DestinationRule) []name {
	host := r.host(namespace, spec.GetHost())
	out := make([]name, 0, len(spec.GetSubsets()))
	for _, s := range spec.GetSubsets() {
		out = append(out, name{kind: subsetName, what: host, subset: s.GetName()})
	}
	return out
}

// rule lists the needs of a VirtualService: its destinations, its gateways, and the VirtualServices that it delegates to.
func (r reader) rule(namespace string, spec *networking.VirtualService) []name {
	var out []name
	to := func(d *networking.Destination) {
		if d.GetHost() == "" {
			return
		}
		host := r.host(namespace, d.GetHost())
		out = append(out, name{kind: hostName, what: host})
		if d.GetSubset() != "" {
			out = append(out, name{kind: subsetName, what: host, subset: d.GetSubset()})
		}
	}
	for _, h := range spec.GetHttp() {
		destinationsOf(h, to)
		if d := h.GetDelegate(); d.GetName() != "" {
			out = append(out, name{kind: ruleName, what: orElse(d.GetNamespace(), namespace) + "/" + d.GetName()})
		}
	}
	for _, t := range spec.GetTcp() {
		weighted(t.GetRoute(), to)
	}
	for _, t := range spec.GetTls() {
		weighted(t.GetRoute(), to)
	}
	for _, g := range spec.GetGateways() {
		if g != "mesh" {
			home, short := config.GatewayName(namespace, g)
			out = append(out, name{kind: gatewayName, what: home + "/" + short})
		}
	}
	return out
}

// destinationsOf calls to with each destination of an HTTP route: of requests and of mirrored requests.
func destinationsOf(h *networking.HTTPRoute, to func(*networking.Destination)) {
	weighted(h.GetRoute(), to)
	if p := h.GetMirrorPercentage(); p == nil || p.GetValue() > 0 {
		to(h.GetMirror())
	}
	for _, m := range h.GetMirrors() {
		if p := m.GetPercentage(); p == nil || p.GetValue() > 0 {
			to(m.GetDestination())
		}
	}
}

// weighted calls to with each destination of a list that gets some of the traffic: if there are several, one of weight 0 gets none, and no
// resource is made for it. So it need not exist.
func weighted[D interface {
	GetWeight() int32
	GetDestination() *networking.Destination
}](list []D, to func(*networking.Destination)) {
	for _, d := range list {
		if len(list) == 1 || d.GetWeight() > 0 {
			to(d.GetDestination())
		}
	}
}

// host resolves a host as an object of the namespace writes it (Destination.host: a name without dots is in the object's namespace).
func (r reader) host(namespace, host string) string {
	host = strings.ToLower(host)
	if host == "*" || host == "" || strings.Contains(host, ".") {
		return starless(host)
	}
	return host + "." + namespace + ".svc." + r.suffix
}

// starless returns the form of a host inside a name.
func starless(host string) string {
	if host == "*" {
		return "."
	}
	if strings.HasPrefix(host, "*.") {
		return host[1:]
	}
	return host
}

func orElse(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
