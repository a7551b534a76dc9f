package convert

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/config"
	"fairway/internal/config/native"
	"fairway/internal/mesh"
)

// Options say how objects are converted.
type Options struct {
	Decoder *config.Decoder // validates the results
	Domain  string          // DNS suffix of services
	Class   string          // GatewayClass of the Gateways
	// Partial writes what can be said of objects that the Gateway API cannot say as a whole.
	Partial bool
	// Elements writes prefixes of paths as PathPrefix, which only matches whole path elements.
	Elements bool
	// Ports are the ports of Services. Those of ServiceEntries are read from the objects.
	Ports map[mesh.Host][]mesh.Port
}

// Remark says what the Gateway API cannot say of an object, or what the user has to do.
type Remark struct {
	Object mesh.ObjectRef
	Line   int    // of the field; 0: unknown
	Field  string // empty: the whole object
	What   string
	Fix    string // empty: there is no suggestion
	Lost   bool   // a part of the object is not converted
}

// String returns the remark as a line: place, object, field, what, and what to do.
func (r Remark) String() string {
	var b strings.Builder
	if r.Object.File != "" {
		fmt.Fprintf(&b, "%s:%d: ", r.Object.File, cmp.Or(r.Line, r.Object.Line, 1))
	}
	if r.Object.Name != "" { // else it is a document that is no object
		fmt.Fprintf(&b, "%s %s/%s: ", config.Kind(r.Object.Kind).Word(), r.Object.Namespace, r.Object.Name)
	}
	if r.Field != "" {
		b.WriteString(r.Field + ": ")
	}
	if !r.Lost {
		b.WriteString("note: ")
	}
	b.WriteString(r.What)
	if r.Fix != "" {
		b.WriteString("; " + r.Fix)
	}
	return b.String()
}

// converter converts all objects of one call.
type converter struct {
	Options
	gateways map[config.Key]*gateway
	entries  map[mesh.Host][]*config.Object // ServiceEntries
	ports    map[mesh.Host][]mesh.Port
	subsets  map[mesh.Host]map[string]mesh.Labels
	names    map[config.Key]bool
	grants   map[grant]map[string]bool // names of Services or Secrets
	hosts    map[hostKey][]*claim
	out      []*config.Object
	remarks  []Remark
}

// Convert returns objects of the Gateway API that have the effect of Gateways and VirtualServices, in a stable order, and remarks in the
// order of the originals. Objects of other kinds are only read. DestinationRules stay in force beside routes of the Gateway API.
func Convert(o Options, objects []*config.Object) ([]*config.Object, []Remark) {
	c := &converter{
		Options: o, gateways: map[config.Key]*gateway{}, entries: map[mesh.Host][]*config.Object{}, ports: map[mesh.Host][]mesh.Port{},
		subsets: map[mesh.Host]map[string]mesh.Labels{},
		names:   map[config.Key]bool{}, grants: map[grant]map[string]bool{}, hosts: map[hostKey][]*claim{},
	}
	objects = slices.Clone(objects)
	slices.SortStableFunc(objects, config.Older)
	for host, ports := range o.Ports {
		c.ports[host] = ports
	}
	for _, obj := range objects {
		switch {
		case obj.Kind == config.ServiceEntry:
			c.entry(obj)
		case obj.Kind == config.DestinationRule:
			c.readSubsets(obj)
		case slices.Contains(order, obj.Kind):
			c.names[obj.Key] = true
		}
	}
	for _, obj := range objects {
		if obj.Kind == config.Gateway {
			c.gateway(obj)
		}
	}
	c.noteShared(objects)
	var routes []*work
	for _, obj := range objects {
		if obj.Kind == config.VirtualService {
			routes = append(routes, c.virtualService(obj))
		}
	}
	c.compareHosts()
	for _, w := range routes {
		c.finish(w)
	}
	for _, obj := range objects {
		if obj.Kind == config.DestinationRule {
			c.destinationRule(obj)
		}
	}
	c.writeGrants()
	slices.SortFunc(c.out, func(a, b *config.Object) int {
		return cmp.Or(cmp.Compare(slices.Index(order, a.Kind), slices.Index(order, b.Kind)), config.CompareKey(a.Key, b.Key))
	})
	slices.SortStableFunc(c.remarks, func(a, b Remark) int {
		return cmp.Or(cmp.Compare(a.Object.File, b.Object.File), cmp.Compare(a.Object.Line, b.Object.Line),
			cmp.Compare(a.Object.Kind, b.Object.Kind), cmp.Compare(a.Object.Namespace, b.Object.Namespace),
			cmp.Compare(a.Object.Name, b.Object.Name))
	})
	return c.out, c.remarks
}

// order is that of the kinds in the output.
var order = []config.Kind{
	config.KubernetesGateway, config.HTTPRoute, config.GRPCRoute, config.TLSRoute, config.TCPRoute, config.BackendTLSPolicy,
	config.ReferenceGrant,
}

// entry reads the hosts and ports of a ServiceEntry.
func (c *converter) entry(o *config.Object) {
	spec := config.Spec[*networking.ServiceEntry](o)
	for _, h := range spec.GetHosts() {
		host := mesh.Host(strings.ToLower(h))
		c.entries[host] = append(c.entries[host], o)
		for _, p := range spec.GetPorts() {
			protocol, _ := mesh.ParseProtocol(p.GetProtocol())
			c.ports[host] = append(c.ports[host], mesh.Port{Name: p.GetName(), Number: p.GetNumber(), Protocol: protocol})
		}
	}
}

// readSubsets reads the labels of the subsets of a DestinationRule.
func (c *converter) readSubsets(o *config.Object) {
	spec := config.Spec[*networking.DestinationRule](o)
	host := mesh.FullHost(spec.GetHost(), o.Namespace, c.Domain)
	if c.subsets[host] == nil {
		c.subsets[host] = map[string]mesh.Labels{}
	}
	for _, s := range spec.GetSubsets() {
		c.subsets[host][s.GetName()] = mesh.MakeLabels(s.GetLabels())
	}
}

// work is the conversion of one object.
type work struct {
	*converter
	from   *config.Object
	made   []*config.Object
	need   map[grant]map[string]bool // grants that made objects need
	lost   bool
	barred bool // no part of it is written
}

func (c *converter) work(o *config.Object) *work {
	return &work{converter: c, from: o, need: map[grant]map[string]bool{}}
}

// remark adds a remark about a field, once.
func (w *work) remark(lost bool, field, what, fix string) {
	w.lost = w.lost || lost
	r := Remark{Object: w.from.Ref, Line: w.from.Written().Line(field), Field: field, What: what, Fix: fix, Lost: lost}
	if !slices.Contains(w.remarks, r) {
		w.remarks = append(w.remarks, r)
	}
}

// lose says that the Gateway API cannot say a field.
func (w *work) lose(field, what, fix string) { w.remark(true, field, what, fix) }

// bar says that the object as a whole cannot be beside others, not even a part of it.
func (w *work) bar(field, what, fix string) {
	w.lose(field, what, fix)
	w.barred = true
}

// note says what the user has to know or do, beside the converted object.
func (w *work) note(field, what, fix string) { w.remark(false, field, what, fix) }

// add makes an object for the original. The object must be valid. granted says that it needs no ReferenceGrants.
func (w *work) add(kind config.Kind, name string, spec any, granted bool) {
	o := &config.Object{
		Key: config.Key{Kind: kind, Namespace: w.from.Namespace, Name: name}, Labels: w.from.Labels, Native: spec, Created: w.from.Created,
	}
	text, err := o.JSON()
	if err != nil {
		w.lose("", "it cannot be written as "+kind.Word()+": "+err.Error(), "")
		return
	}
	valid, problems := w.Decoder.DecodeJSON("", text)
	for _, p := range problems {
		if p.Severity == mesh.Error {
			w.lose("", fmt.Sprintf("%s %s would be refused: %s: %s", kind.Word(), name, p.Field, p.Message), p.Fix)
			valid = nil
		}
	}
	if valid == nil {
		return
	}
	w.made = append(w.made, o)
	if !granted {
		w.grant(o)
	}
}

// grant records the ReferenceGrants that a route needs for its backends.
func (w *work) grant(o *config.Object) {
	refs := o.Backends()
	switch spec := o.Native.(type) {
	case *native.HTTPRouteSpec:
		for _, rule := range spec.Rules {
			for _, f := range rule.Filters {
				if f.RequestMirror != nil {
					refs = append(refs, f.RequestMirror.BackendRef)
				}
			}
		}
	case *native.GRPCRouteSpec:
		for _, rule := range spec.Rules {
			for _, f := range rule.Filters {
				if f.RequestMirror != nil {
					refs = append(refs, f.RequestMirror.BackendRef)
				}
			}
		}
	}
	for _, ref := range refs {
		if ref.Kind == nil && ref.Namespace != nil {
			put(w.need, grant{o.Kind, o.Namespace, "Service", string(*ref.Namespace)}, string(ref.Name))
		}
	}
}

// finish writes what was made of an object. If a part of it is lost, it is only written with Options.Partial.
func (c *converter) finish(w *work) bool {
	switch {
	case w.barred:
		w.note("", "it is left out", "mend it")
		return false
	case w.lost && !c.Partial:
		w.note("", "it is left out", "mend it, or write the rest with --partial")
		return false
	}
	c.out = append(c.out, w.made...)
	for g, names := range w.need {
		for name := range names {
			put(c.grants, g, name)
		}
	}
	return true
}

// named returns a name that no other result of the kind and namespace has: the original's, or that with a number.
func (c *converter) named(kind config.Kind, namespace, name string) string {
	k := config.Key{Kind: kind, Namespace: namespace, Name: name}
	for i := 2; c.names[k]; i++ {
		k.Name = fmt.Sprintf("%s-%02d", name, i)
	}
	c.names[k] = true
	return k.Name
}

// index is the path of an element of a list.
func index(field string, i int) string { return fmt.Sprintf("%s[%d]", field, i) }

// ptr returns a pointer to a value.
func ptr[T any](v T) *T { return &v }

// put adds a name to a set of names.
func put[K comparable](to map[K]map[string]bool, k K, name string) {
	if to[k] == nil {
		to[k] = map[string]bool{}
	}
	to[k][name] = true
}
