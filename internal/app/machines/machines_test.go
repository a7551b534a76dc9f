package machines

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"fairway/internal/compile"
	"fairway/internal/compile/input"
	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/store/shared"
	"fairway/internal/table"
)

func tablesOf(g *compile.Graph) Tables {
	return Tables{g.In.Members, g.In.HealthStored, g.In.FileProblems, g.Registry.Healths}
}

// held returns the shared records that are in the tables.
func held(g *compile.Graph) string {
	g.Store.Settle()
	var out []string
	g.Store.Read(func(tx *table.Tx) {
		for id, of := range table.All(tx, g.In.Members.Table) {
			out = append(out, fmt.Sprint(id, of))
		}
		for k, healthy := range table.All(tx, g.In.HealthStored.Table) {
			out = append(out, fmt.Sprint(k, healthy))
		}
	})
	slices.Sort(out)
	return fmt.Sprint(out)
}

// TestTakenIsWhatIsShared: after any history of records, the tables equal those of a control plane that reads only the last
// records.
func TestTakenIsWhatIsShared(t *testing.T) {
	const seeds, steps = 40, 200
	for seed := range uint64(seeds) {
		random := rand.New(rand.NewPCG(seed, 1))
		g := compile.New(compile.Options{})
		m := New(tablesOf(g))
		last := map[shared.ID]shared.Change{}
		for revision := range int64(steps) {
			c := shared.Change{
				ID:       shared.ID{Writer: fmt.Sprint("w", random.IntN(3)), Name: record(random)},
				Revision: revision + 1, Gone: random.IntN(3) == 0,
			}
			if c.Gone {
				delete(last, c.ID)
			} else {
				c.Value = value(random, c.Name)
				last[c.ID] = c
			}
			m.take("etcd/main", []shared.Change{c})
		}
		all := slices.SortedFunc(maps.Values(last), func(a, b shared.Change) int { return int(a.Revision - b.Revision) })
		fresh := compile.New(compile.Options{})
		New(tablesOf(fresh)).take("etcd/main", all)
		if got, want := held(g), held(fresh); got != want {
			t.Fatalf("seed %d: the tables have\n%s\nwant\n%s", seed, got, want)
		}
		for id := range last {
			m.take("etcd/main", []shared.Change{{ID: id, Gone: true}})
		}
		if got := held(g); got != "[]" || len(m.health) > 0 {
			t.Fatalf("seed %d: when all is gone the tables have %s, and %v is kept", seed, got, m.health)
		}
	}
}

func record(random *rand.Rand) string {
	if random.IntN(2) == 0 {
		return fmt.Sprint("machine/m", random.IntN(4))
	}
	return fmt.Sprint("health/shop/e", random.IntN(3))
}

func value(random *rand.Rand, name string) []byte {
	if random.IntN(10) == 0 {
		return []byte("{")
	}
	if name[0] == 'h' {
		return fmt.Appendf(nil, `{"healthy": %v}`, random.IntN(2) == 0)
	}
	return fmt.Appendf(nil, `{"namespace": "shop", "group": "vms", "account": "vm", "address": "10.0.0.%d"}`, 1+random.IntN(3))
}

// TestRecordsOfMachinesAreChecked: records that no control plane can have shared are in no table.
func TestRecordsOfMachinesAreChecked(t *testing.T) {
	for text, right := range map[string]bool{
		`{"namespace": "shop", "group": "vms", "account": "vm", "address": "10.0.0.1", "network": "n1"}`:     true,
		`{"namespace": "shop", "group": "vms", "account": "vm", "address": "fd00::1"}`:                       true,
		`{"namespace": "", "group": "vms", "account": "vm", "address": "10.0.0.1"}`:                          false,
		`{"namespace": "shop", "group": "a/b", "account": "vm", "address": "10.0.0.1"}`:                      false,
		`{"namespace": "shop", "group": "vms", "account": "v\nm", "address": "10.0.0.1"}`:                    false,
		`{"namespace": "shop", "group": "vms", "account": "vm", "address": "127.0.0.1"}`:                     false,
		`{"namespace": "shop", "group": "vms", "account": "vm", "address": "169.254.169.254"}`:               false,
		`{"namespace": "shop", "group": "vms", "account": "vm", "address": "vm.example.com"}`:                false,
		`{"namespace": "shop", "group": "vms", "account": "vm", "address": "10.0.0.1", "network": "\u0007"}`: false,
		`[]`: false,
	} {
		g := compile.New(compile.Options{})
		m := New(tablesOf(g))
		m.take("etcd/main", []shared.Change{{ID: shared.ID{Writer: "w", Name: "machine/x"}, Value: []byte(text), Revision: 1}})
		if got := held(g) != "[]"; got != right {
			t.Errorf("%s is in force: %v, want %v", text, got, right)
		}
	}
}

// TestOwnRecords: a machine that is registered here and authenticated is shared, once for each proxy, until it is gone. Records
// that others share are not shared again.
func TestOwnRecords(t *testing.T) {
	g := compile.New(compile.Options{})
	m := New(tablesOf(g))
	turn := func() []string {
		g.Store.Settle()
		m.Follow()
		g.Store.Forget()
		return slices.Sorted(maps.Keys(m.own))
	}
	of := config.Member{Namespace: "shop", Group: "vms", Account: "vm", Address: "10.0.0.1"}
	for id, member := range map[mesh.ProxyID]input.Member{
		"a": {Member: of, Standing: mesh.Proven}, "b": {Member: of, Standing: mesh.Proven, Elsewhere: true}, "c": {Member: of},
	} {
		g.In.Members.Set(id, member)
	}
	want := []string{ofMachine + "/" + hashOf("a")}
	if got := turn(); !slices.Equal(got, want) {
		t.Errorf("it shares %v, want %v", got, want)
	}
	g.In.Members.Delete("a")
	g.In.Members.Delete("b")
	if got := turn(); len(got) > 0 {
		t.Errorf("it shares %v", got)
	}
}

// TestCount: machines of this control plane are counted as they come, change and go; those that others share are not.
func TestCount(t *testing.T) {
	g := compile.New(compile.Options{})
	turn := func() (out []string) {
		g.Store.Settle()
		Count(g.In.Members.Table, func(event string) { out = append(out, event) })
		g.Store.Forget()
		return out
	}
	of := config.Member{Namespace: "shop", Group: "vms", Account: "vm", Address: "10.0.0.1"}
	g.In.Members.Set("a", input.Member{Member: of, Standing: mesh.Proven})
	g.In.Members.Set("b", input.Member{Member: of, Standing: mesh.Proven, Elsewhere: true})
	if got := turn(); !slices.Equal(got, []string{"add"}) {
		t.Errorf("came: %v", got)
	}
	of.Address = "10.0.0.2"
	g.In.Members.Set("a", input.Member{Member: of, Standing: mesh.Proven})
	if got := turn(); !slices.Equal(got, []string{"update"}) {
		t.Errorf("changed: %v", got)
	}
	g.In.Members.Delete("a")
	g.In.Members.Delete("b")
	if got := turn(); !slices.Equal(got, []string{"delete"}) {
		t.Errorf("gone: %v", got)
	}
}
