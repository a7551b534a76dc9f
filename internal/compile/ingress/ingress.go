package ingress

import (
	"cmp"
	"slices"

	meshconfig "istio.io/api/mesh/v1alpha1"
	networkingv1 "k8s.io/api/networking/v1"

	"fairway/internal/compile/input"
	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
)

const (
	// controller is IngressClass.spec.controller of the classes of this control plane; it is the same as Istio's.
	controller = "istio.io/ingress-controller"
	// classAnnotation is the older way to name a class.
	classAnnotation = "kubernetes.io/ingress.class"
	// defaultAnnotation marks the class of Ingresses that name none.
	defaultAnnotation = "ingressclass.kubernetes.io/is-default-class"
)

// maker makes objects of Ingresses.
type maker struct {
	in       *input.Tables
	classes  *input.Objects
	defaults *table.Table[struct{}, table.Rows[config.Key, *config.Object]] // the classes that are the default
}

var _ input.Maker = Make

// Make declares the tables of the objects that are made from Ingresses.
func Make(t *input.Tables) []input.Made {
	m := maker{in: t, classes: t.IngressClasses}
	m.defaults = table.Group(t.IngressClasses, "ingress/default classes", func(struct{}, struct{}) int { return 0 },
		func(_ config.Key, o *config.Object) []struct{} {
			if o.Annotations[defaultAnnotation] == "true" {
				return []struct{}{{}}
			}
			return nil
		})
	ours := table.Derive(t.Ingresses, "ingress/ours", config.CompareKey, config.Same,
		func(r *table.Reader, k config.Key, o *config.Object, emit func(config.Key, *config.Object)) {
			if m.ours(r, o) {
				emit(k, o)
			}
		})
	made := func(name string, build func(*table.Reader, *config.Object) []*config.Object) *input.Objects {
		return table.Derive(ours, name, config.CompareKey, config.Same,
			func(r *table.Reader, _ config.Key, o *config.Object, emit func(config.Key, *config.Object)) {
				for _, b := range build(r, o) {
					emit(b.Key, b)
				}
			})
	}
	return []input.Made{
		{Kind: config.Gateway, Objects: made("ingress/gateways", m.gateway)},
		{Kind: config.VirtualService, Objects: made("ingress/virtualservices", m.rules)},
	}
}

func specOf(o *config.Object) *networkingv1.IngressSpec { return o.Native.(*networkingv1.IngressSpec) }

// ours reports whether this control plane carries out an Ingress.
func (m maker) ours(r *table.Reader, o *config.Object) bool {
	class, mode, _ := m.in.Ingress(r)
	if mode == meshconfig.MeshConfig_OFF {
		return false
	}
	if named, ok := o.Annotations[classAnnotation]; ok {
		return named == class || named == "" && mode == meshconfig.MeshConfig_DEFAULT
	}
	if name := specOf(o).IngressClassName; name != nil {
		c, ok := table.Get(r, m.classes, config.Key{Kind: config.IngressClass, Name: *name})
		if !ok {
			r.Note(o.Problem("spec.ingressClassName", code.UnknownIngressClass, mesh.Warning,
				"there is no IngressClass "+*name+": no known controller serves this Ingress",
				"create it with spec.controller "+controller+", or name another"))
			return false
		}
		return isOurs(c)
	}
	if c := m.defaultClass(r); c != nil {
		return isOurs(c)
	}
	return mode == meshconfig.MeshConfig_DEFAULT
}

func isOurs(class *config.Object) bool {
	return class.Native.(*networkingv1.IngressClassSpec).Controller == controller
}

// defaultClass returns the class of Ingresses that name none; nil: there is none. If there are several, the youngest counts, as in an API
// server.
func (m maker) defaultClass(r *table.Reader) *config.Object {
	var out *config.Object
	rows, _ := table.Get(r, m.defaults, struct{}{})
	for _, c := range rows.All() {
		if out == nil || c.Created > out.Created {
			out = c
		}
	}
	return out
}

// hostRule holds the rules of an Ingress for one host.
type hostRule struct {
	host  string  // "*": any
	field string  // of its name
	paths []place // of all rules for the host
}

// place is one path, and the field that contains it.
type place struct {
	field string
	path  *networkingv1.HTTPIngressPath
}

// hostRules groups the rules of an Ingress by host, in the order in which hosts are first named.
func hostRules(spec *networkingv1.IngressSpec) []*hostRule {
	var out []*hostRule
	of := func(host, field string) *hostRule {
		host = cmp.Or(host, "*")
		at := slices.IndexFunc(out, func(h *hostRule) bool { return h.host == host })
		if at < 0 {
			at, out = len(out), append(out, &hostRule{host: host, field: field})
		}
		return out[at]
	}
	for i, rule := range spec.Rules {
		field := index("spec.rules", i)
		h := of(rule.Host, field+".host")
		if rule.HTTP == nil {
			continue
		}
		for j := range rule.HTTP.Paths {
			h.paths = append(h.paths, place{index(field+".http.paths", j), &rule.HTTP.Paths[j]})
		}
	}
	if spec.DefaultBackend != nil {
		of("*", "spec.defaultBackend")
	}
	return out
}
