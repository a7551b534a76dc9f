package trial_test

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"fairway/internal/compile"
	"fairway/internal/compile/compiletest"
	"fairway/internal/config"
	"fairway/internal/door"
	"fairway/internal/jwks"
	"fairway/internal/mesh"
	"fairway/internal/quota"
	"fairway/internal/source"
	"fairway/internal/source/shards"
	"fairway/internal/table"
	"fairway/internal/trial"
	"fairway/internal/xdstype"
)

// plane is the way of a change through a control plane.
type plane struct {
	graph  *compile.Graph
	door   *door.Door
	gate   *quota.Gate
	set    *shards.Set
	sinks  map[string]source.Sink
	trials *trial.Trials
}

func newPlane(t testing.TB, decoder *config.Decoder, grace time.Duration) *plane {
	t.Helper()
	p := &plane{graph: compile.New(compile.Options{}), sinks: map[string]source.Sink{}}
	p.door = door.New(door.Options{Grace: grace}, p.graph.In)
	p.gate = quota.New(quota.Options{DomainSuffix: "cluster.local", RootNamespace: "istio-system"}, p.door)
	p.set = shards.New(p.gate, nil)
	for _, name := range []string{"a", "b"} {
		sink, err := p.set.Join(name, 0)
		if err != nil {
			t.Fatal(err)
		}
		p.sinks[name] = sink
	}
	p.trials = trial.New(trial.Options{Decoder: decoder, Shards: p.set, Budgets: p.gate, Door: p.door, Graph: p.graph})
	return p
}

func (p *plane) settle() {
	p.graph.Store.Settle()
	p.graph.Remember()
	p.graph.Store.Settle()
	p.graph.Store.Forget()
}

// pointer is an address of memory, as rows print some of their parts.
var pointer = regexp.MustCompile(`0x[0-9a-f]{6,}`)

// tables are all tables, as they print themselves, and the hashes of all resources.
func (p *plane) tables(tx *table.Tx) string {
	var b strings.Builder
	for _, info := range tx.Tables() {
		fmt.Fprintf(&b, "# %s\n", info.Name)
		_ = p.graph.Store.Print(&b, tx, info.Name, "")
	}
	for typ, tables := range p.graph.Out.Resources {
		for _, published := range tables {
			for k, e := range table.All(tx, published) {
				fmt.Fprintln(&b, xdstype.Type(typ), k, e.Version, e.Err, e.Hides)
			}
		}
	}
	return pointer.ReplaceAllString(b.String(), "0x")
}

// kept is all that the plane keeps: its tables with the numbers of absent rows and reads, and the bookkeeping of what is before them.
func (p *plane) kept() string {
	var b strings.Builder
	p.graph.Store.Read(func(tx *table.Tx) {
		for _, info := range tx.Tables() {
			fmt.Fprintln(&b, info.Name, info.Rows, info.Absent, info.Edges)
		}
		b.WriteString(p.tables(tx))
	})
	for _, station := range []any{p.set, p.gate, p.door} {
		fmt.Fprintf(&b, "%T: %s\n", station, dump(station))
	}
	return b.String()
}

// change is a change of one file of one source: another document, or none.
type change struct {
	source string
	key    config.Key
	text   string // empty: the file goes
}

func (c change) file() string { return c.source + "/" + c.key.String() }

var (
	hosts  = []string{"a.example", "b.example", "*.example", "c.shop.svc.cluster.local"}
	budget = "defaultConfig: {proxyMetadata: {" + config.BudgetKey + ": \"objectResources=%d,namespaceResources=%d\"}}"
)

// drawChange draws a change of an object. Few names and hosts, so that they meet; some are over their budget, and some are invalid.
func drawChange(t *rapid.T) change {
	pick := func(label string, from ...string) string { return rapid.SampledFrom(from).Draw(t, label) }
	c := change{source: pick("source", "a", "b")}
	c.key = config.Key{
		Kind: config.Kind(pick("kind", "ServiceEntry", "VirtualService", "DestinationRule", "Gateway", "AuthorizationPolicy",
			"MeshConfig")),
	}
	if c.key.Kind == config.MeshConfig {
		c.text = fmt.Sprintf(budget, rapid.IntRange(20, 60).Draw(t, "object"), rapid.IntRange(30, 90).Draw(t, "namespace"))
		return c
	}
	group := "networking"
	c.key.Namespace, c.key.Name = pick("namespace", "shop", "bank"), pick("name", "one", "two")
	if rapid.IntRange(0, 3).Draw(t, "gone") == 0 {
		return c
	}
	var spec string
	switch c.key.Kind {
	case "ServiceEntry":
		var all []string
		for i := range rapid.IntRange(0, 20).Draw(t, "more hosts") {
			all = append(all, fmt.Sprintf("m%d.more", i))
		}
		var ports string
		for i := range pick("ports", "1", "1", "6")[0] - '0' {
			ports += fmt.Sprintf("{number: %d, name: p%[1]d, protocol: HTTP}, ", 80+i)
		}
		spec = fmt.Sprintf("{hosts: [%q, %s], ports: [%s], resolution: %s, endpoints: [{address: 10.0.0.1}]}",
			pick("host", hosts[0], hosts[1], hosts[3]), strings.Join(all, ", "), ports, pick("resolution", "STATIC", "STATIC", "NEVER"))
	case "VirtualService":
		where := fmt.Sprintf("hosts: [%q], ", pick("host", hosts...))
		to := fmt.Sprintf("route: [{destination: {host: %s%s}}]",
			pick("target", hosts[0], hosts[1], "c"), pick("subset", "", ", subset: v1"))
		if c.key.Name == "two" && rapid.Bool().Draw(t, "delegate") {
			where = ""
		} else if rapid.Bool().Draw(t, "delegates") {
			to = "delegate: {name: two, namespace: shop}"
		}
		spec = fmt.Sprintf("{%sgateways: [%s], http: [{%s}]}", where, pick("gateways", "mesh", "shop/one"), to)
		if where == "" {
			spec = fmt.Sprintf("{http: [{%s}, {%s}]}", to, to)
		}
	case "DestinationRule":
		subsets := fmt.Sprintf("{name: %s, labels: {version: v1}}", pick("subset", "v1", "v2"))
		if rapid.Bool().Draw(t, "grows") {
			subsets += ", {name: v3, labels: {version: v1}}, {name: v4, labels: {version: v1}}"
		}
		spec = fmt.Sprintf("{host: %q, subsets: [%s]}", pick("host", hosts...), subsets)
	case "Gateway":
		var servers string
		for i := range rapid.SampledFrom([]int{1, 9}).Draw(t, "servers") {
			servers += fmt.Sprintf("{port: {number: %d, name: http%[1]d, protocol: HTTP}, hosts: [\"*\"]}, ", 80+i)
		}
		spec = "{selector: {app: gw}, servers: [" + servers + pick("server", "", "{port: {number: 0}}") + "]}"
	case "AuthorizationPolicy":
		group, spec = "security", "{action: "+pick("action", "DENY", "ALLOW")+", rules: [{to: [{operation: {paths: [\"/admin\"]}}]}]}"
	}
	c.text = fmt.Sprintf("apiVersion: %s.istio.io/v1\nkind: %s\nmetadata: {name: %s, namespace: %s}\nspec: %s\n",
		group, c.key.Kind, c.key.Name, c.key.Namespace, spec)
	return c
}

// document is the file's content.
func (c change) document() config.Document {
	return config.Document{File: c.file(), Line: 1, Text: []byte(c.text)}
}

// update is what the source hands in: the shard of the file if its document is valid, and its problems.
func (c change) update(decoder *config.Decoder) source.Update {
	u := source.Update{Synced: true, Problems: map[string][]mesh.Problem{c.file(): nil}}
	shard := source.Shard{Key: source.ShardKey{Kind: "file", Part: c.file()}, Whole: true}
	if c.text != "" {
		var o *config.Object
		o, u.Problems[c.file()] = c.decode(decoder)
		if o == nil {
			return u // the last good version stays
		}
		shard.Rows.Objects = append(shard.Rows.Objects, o)
	}
	u.Shards = append(u.Shards, shard)
	return u
}

func (c change) decode(decoder *config.Decoder) (*config.Object, []mesh.Problem) {
	if c.key.Kind == config.MeshConfig {
		return decoder.DecodeMeshConfig(c.document())
	}
	return decoder.Decode(c.document())
}

// tried is the trial of changes of one source.
func tried(decoder *config.Decoder, changes ...change) trial.Changes {
	out := trial.Changes{Source: changes[0].source}
	for _, c := range changes {
		switch {
		case c.text == "":
			out.Gone = append(out.Gone, c.key)
		case c.key.Kind == config.MeshConfig:
			o, _ := c.decode(decoder)
			out.Objects = append(out.Objects, o)
		default:
			out.Documents = append(out.Documents, c.document())
		}
	}
	return out
}

func newDecoder(t testing.TB) *config.Decoder {
	t.Helper()
	decoder, err := config.NewDecoder(config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return decoder
}

// drawTrial draws changes of one source to different objects.
func drawTrial(t *rapid.T) []change {
	all := rapid.SliceOfNDistinct(rapid.Custom(drawChange), 1, 4, func(c change) config.Key { return c.key }).Draw(t, "trial")
	for i := range all {
		all[i].source = all[0].source
	}
	// The mesh configuration comes first: whether an object is over its budget depends on what came before it.
	slices.SortStableFunc(all, func(a, b change) int {
		return cmp.Compare(len(a.key.Namespace), len(b.key.Namespace))
	})
	return all
}

// proxies are connected to each plane.
func proxies() []mesh.Proxy {
	gateway := compiletest.Sidecar("gw", "shop", "10.9.0.9")
	gateway.ID, gateway.Type, gateway.Labels = "router"+gateway.ID, mesh.Router, "app=gw"
	return []mesh.Proxy{compiletest.Sidecar("p", "shop", "10.9.0.1"), compiletest.Sidecar("q", "bank", "10.9.0.2"), gateway}
}

// TestTrialsLeaveNoTrace: after any history with trials between turns, the tables and the bookkeeping of all stations are those of a twin
// without trials.
func TestTrialsLeaveNoTrace(t *testing.T) {
	decoder := newDecoder(t)
	rapid.Check(t, func(rt *rapid.T) {
		one, twin := newPlane(t, decoder, time.Hour), newPlane(t, decoder, time.Hour)
		for _, p := range []*plane{one, twin} {
			for _, proxy := range proxies() {
				p.graph.In.Proxies.Set(proxy.ID, proxy)
			}
			for _, sink := range p.sinks {
				sink.Apply(source.Update{Synced: true})
			}
			p.settle()
		}
		for range rapid.IntRange(1, 12).Draw(rt, "steps") {
			c := drawChange(rt)
			u := c.update(decoder)
			for _, p := range []*plane{one, twin} {
				p.sinks[c.source].Apply(u)
				p.settle()
			}
			for range rapid.IntRange(0, 2).Draw(rt, "trials") {
				d, err := one.trials.Decode(t.Context(), tried(decoder, drawTrial(rt)...))
				if err != nil {
					rt.Fatal(err)
				}
				if rapid.Bool().Draw(rt, "an issuer answers") {
					d.Answer(jwks.Source{URI: "http://a.example/keys"}, jwks.Answer{Failing: "no"})
				}
				if err := one.trials.Try(d, func(table.Turn, *table.Tx) {}); err != nil {
					rt.Fatal(err)
				}
			}
		}
		if diff := gocmp.Diff(strings.Split(twin.kept(), "\n"), strings.Split(one.kept(), "\n")); diff != "" {
			rt.Fatalf("-without +with trials:\n%s", diff)
		}
	})
}

// TestTrialsShowWhatApplyingShows: the tables that a trial shows are those after the same changes have been applied, and the problems that
// it adds and removes are the difference of the problems.
func TestTrialsShowWhatApplyingShows(t *testing.T) {
	decoder := newDecoder(t)
	rapid.Check(t, func(rt *rapid.T) {
		p := newPlane(t, decoder, 0) // what waits at the door has a test there
		for _, proxy := range proxies() {
			p.graph.In.Proxies.Set(proxy.ID, proxy)
		}
		p.settle()
		for range rapid.IntRange(1, 6).Draw(rt, "steps") {
			changes := drawTrial(rt)
			d, err := p.trials.Decode(t.Context(), tried(decoder, changes...))
			if err != nil {
				rt.Fatal(err)
			}
			var shown string
			problems := countOf(p.graph.Problems())
			if err := p.trials.Try(d, func(_ table.Turn, tx *table.Tx) {
				shown = p.tables(tx)
				added, removed := p.graph.ProblemChanges(tx)
				for _, one := range added {
					problems[unplaced(one)]++
				}
				for _, one := range removed {
					problems[unplaced(one)]--
				}
			}); err != nil {
				rt.Fatal(err)
			}
			u := source.Update{Problems: map[string][]mesh.Problem{}}
			for _, c := range changes {
				one := c.update(decoder)
				u.Shards, u.Synced = append(u.Shards, one.Shards...), true
				maps.Copy(u.Problems, one.Problems)
			}
			p.sinks[changes[0].source].Apply(u)
			p.settle()
			var made string
			p.graph.Store.Read(func(tx *table.Tx) { made = p.tables(tx) })
			if diff := gocmp.Diff(strings.Split(made, "\n"), strings.Split(shown, "\n")); diff != "" {
				rt.Fatalf("-made +tried:\n%s", diff)
			}
			maps.DeleteFunc(problems, func(_ string, n int) bool { return n == 0 })
			if diff := gocmp.Diff(countOf(p.graph.Problems()), problems); diff != "" {
				rt.Fatalf("problems, -made +tried:\n%s", diff)
			}
		}
	})
}

// countOf counts problems.
func countOf(problems []mesh.Problem) map[string]int {
	out := map[string]int{}
	for _, p := range problems {
		out[unplaced(p)]++
	}
	return out
}

// unplaced prints a problem without places: it stays the same if its object is written elsewhere.
func unplaced(p mesh.Problem) string {
	p.Object.File, p.Object.Line, p.Line = "", 0, 0
	return place.ReplaceAllString(p.String(), "")
}

// place is the place where an object is written.
var place = regexp.MustCompile(` \([^()]*:\d+\)`)

// TestTrialsAreBounded: a trial that is too large, or that names an object twice or an unknown source, is refused.
func TestTrialsAreBounded(t *testing.T) {
	decoder := newDecoder(t)
	p := newPlane(t, decoder, 0)
	doc := change{source: "a", key: config.Key{Kind: "DestinationRule", Namespace: "shop", Name: "one"}, text: "apiVersion: " +
		"networking.istio.io/v1\nkind: DestinationRule\nmetadata: {name: one, namespace: shop}\nspec: {host: a.example}\n"}.document()
	large := doc
	large.Text = slices.Concat(doc.Text, []byte("# "+strings.Repeat("x", trial.MostBytes)))
	heavy := strings.Builder{}
	for i := range 6000 {
		fmt.Fprintf(&heavy, "h%d.example, ", i)
	}
	ports := doc
	ports.Text = []byte("apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: one, namespace: shop}\nspec: {hosts: [" +
		heavy.String() + "], resolution: STATIC, ports: [{number: 80, name: p, protocol: HTTP}], endpoints: [{address: 10.0.0.1}]}\n")
	for _, c := range []struct {
		name, want string
		changes    trial.Changes
	}{
		{"keys", "may change 1000 objects, and not 1001", trial.Changes{Gone: make([]config.Key, trial.MostObjects+1)}},
		{"bytes", "may change 8 MiB of objects", trial.Changes{Documents: []config.Document{large}}},
		{"twice", "DestinationRule shop/one is in the trial twice: at a/DestinationRule shop/one:1 and at", trial.Changes{
			Documents: []config.Document{doc, doc},
		}},
		{"source", `no source is called "c"; the sources are ["a" "b"]`, trial.Changes{Source: "c", Documents: []config.Document{doc}}},
		{"fits", "", trial.Changes{Documents: []config.Document{doc}}},
	} {
		d, err := p.trials.Decode(t.Context(), c.changes)
		shown := false
		if err == nil {
			err = p.trials.Try(d, func(table.Turn, *table.Tx) { shown = true })
		}
		if got := fmt.Sprint(err); c.want == "" && err != nil || !strings.Contains(got, c.want) || shown != (c.want == "") {
			t.Errorf("%s: shown %t, %v; want %s", c.name, shown, err, c.want)
		}
	}
}
