package config

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	meshconfig "istio.io/api/mesh/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"fairway/internal/config/report"
	"fairway/internal/config/rule"
	"fairway/internal/mesh/code"
)

// Discovery decides which namespaces of a cluster are part of the mesh, by discoverySelectors of the mesh configuration. It is immutable;
// nil and the zero value include all.
type Discovery struct {
	root string
	any  []labels.Selector
}

// DiscoveryOf returns the selectors of a mesh configuration (nil: the defaults). root is the root namespace, which is always part of the
// mesh, because it has the rules for the whole mesh.
func DiscoveryOf(o *Object, root string) *Discovery {
	d := &Discovery{root: root}
	if o == nil {
		return d
	}
	for _, s := range Spec[*meshconfig.MeshConfig](o).GetDiscoverySelectors() {
		// A selector that cannot be read was refused with its mesh configuration.
		if selector, err := metav1.LabelSelectorAsSelector(selectorOf(s)); err == nil {
			d.any = append(d.any, selector)
		}
	}
	return d
}

// All reports whether all namespaces are part of the mesh.
func (d *Discovery) All() bool { return d == nil || len(d.any) == 0 }

// Sees reports whether a namespace is part of the mesh.
func (d *Discovery) Sees(namespace string, of map[string]string) bool {
	return d.All() || namespace == d.root ||
		slices.ContainsFunc(d.any, func(s labels.Selector) bool { return s.Matches(labels.Set(of)) })
}

// Equal reports whether two include the same namespaces, for any labels of these.
func (d *Discovery) Equal(o *Discovery) bool {
	if d.All() || o.All() {
		return d.All() == o.All()
	}
	same := func(a, b labels.Selector) bool { return a.String() == b.String() }
	return d.root == o.root && slices.EqualFunc(d.any, o.any, same)
}

func selectorOf(s *meshconfig.LabelSelector) *metav1.LabelSelector {
	out := &metav1.LabelSelector{MatchLabels: s.GetMatchLabels()}
	for _, e := range s.GetMatchExpressions() {
		out.MatchExpressions = append(out.MatchExpressions, metav1.LabelSelectorRequirement{
			Key: e.GetKey(), Operator: metav1.LabelSelectorOperator(e.GetOperator()), Values: e.GetValues(),
		})
	}
	return out
}

// mostSelectors is how many selectors there may be: each namespace is compared with all of them.
const mostSelectors = 100

func checkDiscovery(c *rule.Check, at *report.Path, m *meshconfig.MeshConfig) {
	if n := len(m.DiscoverySelectors); n > mostSelectors {
		c.Fail(at.Key("discoverySelectors"), code.TooMuch, fmt.Sprintf("there are %d selectors, %d are the most", n, mostSelectors), "")
	}
	for i, s := range m.DiscoverySelectors {
		if _, err := metav1.LabelSelectorAsSelector(selectorOf(s)); err != nil {
			c.Fail(at.Of("discoverySelectors", i), code.Invalid, "this selects no namespaces: "+strconv.Quote(err.Error()),
				"operators are In and NotIn with values, Exists and DoesNotExist without")
		}
	}
}

// EntryVisibility returns the widest visibility that ServiceEntries of a namespace may have: that of the first policy whose rules all
// match, else the default. Unspecified means PUBLIC. The namespace also has the label that Kubernetes gives each namespace.
func EntryVisibility(v *meshconfig.ServiceEntryVisibility, namespace string, of map[string]string,
) meshconfig.ServiceEntryVisibility_Visibility {
	all := labels.Set{corev1.LabelMetadataName: namespace}
	maps.Copy(all, of)
	said := v.GetDefaultVisibility()
	for _, p := range v.GetPolicies() {
		if !slices.ContainsFunc(p.GetMatchingRules(), func(r *meshconfig.ServiceEntryVisibility_MatchRule) bool {
			s, err := metav1.LabelSelectorAsSelector(selectorOf(r.GetNamespaceSelector()))
			return err != nil || !s.Matches(all)
		}) {
			said = p.GetVisibility()
			break
		}
	}
	if said == meshconfig.ServiceEntryVisibility_VISIBILITY_UNSPECIFIED {
		return meshconfig.ServiceEntryVisibility_PUBLIC
	}
	return said
}

// checkVisibility checks how many policies there are, and that each has valid rules.
func checkVisibility(c *rule.Check, at *report.Path, v *meshconfig.ServiceEntryVisibility) {
	here := at.Key("serviceEntryVisibility")
	if n := len(v.GetPolicies()); n > mostSelectors {
		c.Fail(here.Key("policies"), code.TooMuch, fmt.Sprintf("there are %d policies, %d are the most", n, mostSelectors), "")
	}
	for i, p := range v.GetPolicies() {
		policy := here.Of("policies", i)
		if len(p.GetMatchingRules()) == 0 {
			c.Fail(policy.Key("matchingRules"), code.Missing, "the policy is for no ServiceEntry",
				"add a rule, or set defaultVisibility for those that no policy is for")
		}
		for j, r := range p.GetMatchingRules() {
			rule := policy.Of("matchingRules", j)
			if r.GetNamespaceSelector() == nil {
				c.Fail(rule, code.Missing, "the rule matches nothing", "set namespaceSelector")
			} else if _, err := metav1.LabelSelectorAsSelector(selectorOf(r.GetNamespaceSelector())); err != nil {
				c.Fail(rule.Key("namespaceSelector"), code.Invalid, "this selects no namespaces: "+strconv.Quote(err.Error()),
					"operators are In and NotIn with values, Exists and DoesNotExist without")
			}
		}
	}
}
