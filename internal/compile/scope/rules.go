package scope

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"google.golang.org/protobuf/proto"

	"fairway/internal/compile/demand"
	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
)

// RuleKey names the DestinationRules of one namespace for one host with one visibility and one selector of clients, which hold together.
type RuleKey struct {
	Namespace string
	Host      mesh.Host   // may be a wildcard
	ExportTo  string      // as written, sorted, separated by commas
	Clients   mesh.Labels // which of the namespace's proxies it holds for; empty: any, of other namespaces too
}

// CompareRuleKey orders by namespace, host, visibility, selector.
func CompareRuleKey(a, b RuleKey) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Host, b.Host), cmp.Compare(a.ExportTo, b.ExportTo),
		cmp.Compare(a.Clients, b.Clients))
}

// Rule is the merged content of the DestinationRules of one key. It is immutable.
type Rule struct {
	Key     RuleKey
	Objects []*config.Object // the oldest first: its trafficPolicy holds, the others add subsets
	Spec    *networking.DestinationRule
}

func sameRule(a, b *Rule) bool {
	return a.Key == b.Key && slices.EqualFunc(a.Objects, b.Objects, config.Same)
}

// Subset returns the subset of that name.
func (r *Rule) Subset(name string) *networking.Subset {
	if r == nil {
		return nil
	}
	for _, s := range r.Spec.GetSubsets() {
		if s.GetName() == name {
			return s
		}
	}
	return nil
}

// Owner is the object that a subset was written in, or the rule itself for name "".
func (r *Rule) Owner(name string) *config.Object {
	for _, o := range r.Objects {
		spec := config.Spec[*networking.DestinationRule](o)
		if name == "" || slices.ContainsFunc(spec.GetSubsets(), func(s *networking.Subset) bool { return s.GetName() == name }) {
			return o
		}
	}
	return nil
}

// keyed is a DestinationRule under the key it holds with.
type keyed struct {
	key    RuleKey
	object *config.Object
}

func (t *Tables) declareRules() {
	each := table.Derive(t.in.DestinationRules, "rules/objects", config.CompareKey, sameKeyed,
		func(r *table.Reader, k config.Key, o *config.Object, emit func(config.Key, keyed)) {
			emit(k, keyed{t.ruleKey(r, o), o})
			t.checkRule(r, o)
		})
	byKey := table.Group(each, "rules/key", CompareRuleKey, func(_ config.Key, k keyed) []RuleKey { return []RuleKey{k.key} })
	t.Rules = table.Derive(byKey, "rules", CompareRuleKey, sameRule,
		func(r *table.Reader, k RuleKey, rows table.Rows[config.Key, keyed], emit func(RuleKey, *Rule)) {
			emit(k, joinRules(r, k, rows))
		})
}

func sameKeyed(a, b keyed) bool { return a.key == b.key && config.Same(a.object, b.object) }

// ruleKey returns the key of the proxies and the host that an object holds for.
func (t *Tables) ruleKey(r *table.Reader, o *config.Object) RuleKey {
	spec := config.Spec[*networking.DestinationRule](o)
	return RuleKey{
		o.Namespace,
		t.FullHost(spec.GetHost(), o.Namespace),
		joinExports(t.in.ExportTo(r, o.Kind, spec.GetExportTo())),
		demand.SelectorOf(spec),
	}
}

func joinExports(list []string) string {
	return strings.Join(slices.Compact(slices.Sorted(slices.Values(list))), ",")
}

func splitExports(s string) []string { return strings.Split(s, ",") }

// checkRule notes a host that no one declares: the rule has no effect.
func (t *Tables) checkRule(r *table.Reader, o *config.Object) {
	spec := config.Spec[*networking.DestinationRule](o)
	host := t.FullHost(spec.GetHost(), o.Namespace)
	if !host.IsWildcard() && !table.Has(r, t.reg.ServicesByHost, host) {
		r.Note(mesh.Problem{Object: o.Ref, Field: "spec.host", Code: code.UnknownHost, Severity: mesh.Warning,
			Message: fmt.Sprintf("there is no service %s", host), Fix: "name a host that a service or ServiceEntry declares"})
	}
}

// joinRules makes one rule of all objects of a key: the oldest, with the subsets that younger ones add (Istio's
// documented merging of rules for one host).
func joinRules(r *table.Reader, k RuleKey, rows table.Rows[config.Key, keyed]) *Rule {
	rule := &Rule{Key: k}
	for _, row := range rows.All() {
		rule.Objects = append(rule.Objects, row.object)
	}
	slices.SortFunc(rule.Objects, config.Older)
	rule.Spec = config.Spec[*networking.DestinationRule](rule.Objects[0])
	for _, o := range rule.Objects[1:] {
		rule.add(r, o)
	}
	return rule
}

// add adds the subsets of a younger object. It notes names that are taken, and a second traffic policy.
func (rule *Rule) add(r *table.Reader, o *config.Object) {
	oldest := rule.Objects[0]
	spec := config.Spec[*networking.DestinationRule](o)
	joined := proto.CloneOf(rule.Spec)
	for i, s := range spec.GetSubsets() {
		if rule.Subset(s.GetName()) != nil {
			r.Note(mesh.Problem{
				Object:   o.Ref,
				Field:    fmt.Sprintf("spec.subsets[%d].name", i),
				Code:     code.SubsetTaken,
				Severity: mesh.Error,
				Message: fmt.Sprintf("subset %s of host %s is in %s already, which is older", s.GetName(), rule.Key.Host,
					oldest.Ref),
				Other: oldest.Ref,
				Fix:   "give the subset another name, or remove one of the two",
			})
			continue
		}
		joined.Subsets = append(joined.Subsets, s)
	}
	if policy := spec.GetTrafficPolicy(); policy != nil {
		if joined.TrafficPolicy == nil {
			joined.TrafficPolicy = policy
		} else {
			r.Note(mesh.Problem{
				Object:   o.Ref,
				Field:    "spec.trafficPolicy",
				Code:     code.SecondPolicy,
				Severity: mesh.Warning,
				Message: fmt.Sprintf("host %s has the traffic policy of %s, which is older; of this rule only the subsets are taken",
					rule.Key.Host, oldest.Ref),
				Other: oldest.Ref,
				Fix:   "write one DestinationRule for the host",
			})
		}
	}
	rule.Spec = joined
}
