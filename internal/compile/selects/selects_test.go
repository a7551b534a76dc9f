package selects_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"fairway/internal/compile/selects"
	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// said is the selector of a test's object: "labels", or "kind/name kind/name".
type said struct {
	labels  mesh.Labels
	targets string
}

// bed is an index of objects, and a row for each workload that lists the objects which hold for it.
type bed struct {
	*testing.T
	store     *table.Store
	objects   *table.Input[config.Key, *config.Object]
	workloads *table.Input[string, selects.Workload]
	holds     *table.Table[string, string]
	says      map[config.Key]said
}

func targetOf(s string) selects.Target {
	kind, name, _ := strings.Cut(s, "/")
	return selects.Target{Kind: kind, Name: name}
}

func newBed(t *testing.T) *bed {
	b := &bed{T: t, store: table.New(table.Options{Invariants: true}), says: map[config.Key]said{}}
	b.objects = table.NewInput(b.store, "objects", config.CompareKey, func(x, y *config.Object) bool { return x.Hash == y.Hash })
	b.workloads = table.NewInput(b.store, "workloads", strings.Compare, func(x, y selects.Workload) bool {
		return x.Namespace == y.Namespace && x.Labels == y.Labels && slices.Equal(x.Targets, y.Targets) &&
			slices.Equal(x.Classes, y.Classes)
	})
	index := selects.Keys(b.objects.Table, "index", func(o *config.Object) (selects.Selector, bool) {
		s := b.says[o.Key]
		var targets []selects.Target
		for _, one := range strings.Fields(s.targets) {
			targets = append(targets, targetOf(one))
		}
		return selects.Selector{Namespace: o.Namespace, Labels: s.labels, Targets: selects.MakeTargets(targets...)}, true
	})
	b.holds = table.Derive(b.workloads.Table, "holds", strings.Compare, table.Same[string],
		func(r *table.Reader, name string, w selects.Workload, emit func(string, string)) {
			h := index.For(r, "root", w)
			list := func(all []selects.Entry[struct{}]) string {
				var names []string
				for _, e := range all {
					names = append(names, e.Key.Name)
				}
				return strings.Join(names, ",")
			}
			nearest, _ := h.Nearest()
			emit(
				name,
				fmt.Sprintf("%s; %s; %s; %s; %s", list(h.Own()), list(h.Namespace()), list(h.Root()), list(h.RootOwn()),
					nearest.Key.Name),
			)
		})
	return b
}

// put sets an object, of an age.
func (b *bed) put(namespace, name string, age int64, s said) {
	k := config.Key{Kind: config.Sidecar, Namespace: namespace, Name: name}
	b.says[k] = s
	b.objects.Set(k, &config.Object{Key: k, Created: age, Hash: uint64(age)<<32 + uint64(len(fmt.Sprint(s)))})
}

func (b *bed) expect(when, workload, want string) {
	b.Helper()
	b.store.Read(func(tx *table.Tx) {
		if got, _ := table.Lookup(tx, b.holds, workload); got != want {
			b.Errorf("%s: for %s hold %q, want %q", when, workload, got, want)
		}
	})
}

// TestFor: the objects that hold for a workload, by labels, by targets, by namespace and in the root namespace; the older has precedence.
func TestFor(t *testing.T) {
	b := newBed(t)
	b.workloads.Set("web", selects.Workload{Namespace: "shop", Labels: "app=web,tier=front"})
	b.workloads.Set("edge", selects.Workload{
		Namespace: "shop", Labels: "app=edge", Targets: []selects.Target{targetOf("Gateway/edge"), targetOf("Service/edge")},
	})
	b.workloads.Set("classed", selects.Workload{Namespace: "shop", Labels: "a=b", Classes: []selects.Target{targetOf("GatewayClass/c")}})
	b.put("root", "class", 1, said{targets: "GatewayClass/c"})
	b.put("shop", "no-class", 1, said{targets: "GatewayClass/c"})
	b.workloads.Set("rooted", selects.Workload{Namespace: "root", Labels: "app=web"})
	b.put("shop", "younger", 5, said{labels: "app=web"})
	b.put("shop", "older", 4, said{labels: "tier=front"})
	b.put("shop", "both", 6, said{labels: "app=web,tier=front"})
	b.put("shop", "other", 1, said{labels: "app=web,tier=back"})
	b.put("shop", "gateway", 3, said{targets: "Gateway/edge Service/edge"})
	b.put("shop", "service", 2, said{targets: "Service/edge"})
	b.put("bank", "elsewhere", 1, said{targets: "Gateway/edge"})
	b.put("shop", "whole", 2, said{})
	b.put("root", "mesh", 1, said{})
	b.put("root", "mesh-web", 1, said{labels: "app=web"})
	b.store.Settle()
	b.expect("at first", "web", "older,younger,both; whole; mesh; mesh-web; older")
	b.expect("at first", "edge", "service,gateway; whole; mesh; ; service")
	b.expect("at first", "classed", "; whole; mesh; class; whole")
	b.expect("at first", "rooted", "mesh-web; mesh; ; ; mesh-web")
	b.put("shop", "gateway", 3, said{targets: "Gateway/other"})
	if turn := b.store.Settle(); turn.Recomputed > 3 {
		t.Errorf(
			"an object that leaves a workload's target recomputes %d rows: itself, whether its namespace has selectors, that workload",
			turn.Recomputed,
		)
	}
	b.expect("after it", "edge", "service; whole; mesh; ; service")
	b.objects.Delete(config.Key{Kind: config.Sidecar, Namespace: "shop", Name: "service"})
	b.store.Settle()
	b.expect("without targets", "edge", "; whole; mesh; ; whole")
}

// TestTargets: equal sets are equal texts.
func TestTargets(t *testing.T) {
	one, two := selects.Target{Group: "g", Kind: "Gateway", Name: "a"}, selects.Target{Kind: "Service", Name: `a"b`}
	if a, b := selects.MakeTargets(one, two, one), selects.MakeTargets(two, one); a != b || cmp.Compare(a, "") == 0 {
		t.Errorf("%q and %q", a, b)
	}
	if selects.MakeTargets() != "" {
		t.Error("no targets are not the empty set")
	}
}
