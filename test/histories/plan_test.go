package histories

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/plan"
	"fairway/internal/snapshot"
	"fairway/internal/source"
	"fairway/internal/source/memory"
	"fairway/internal/table"
	"fairway/internal/trial"
	"fairway/internal/xdstype"
	"fairway/test/ads"
)

// TestPlanThenApply: once a random edit is made, every proxy gets exactly the resources that a plan on a snapshot promised. The
// objects come from two sources. The control plane that the snapshot is taken from is as it was before.
func TestPlanThenApply(t *testing.T) {
	shared := newPlanes(t)
	planned := 0
	hunt(t, hunting{usual: 300, fit: plannable}, func(t *testing.T, seed uint64) (*player, error) {
		folder, err := newFolder(t.TempDir())
		if err != nil {
			return nil, err
		}
		p := *shared
		p.folder, p.linger, p.grace = folder, time.Hour, 0
		p.beside = beside(p.decoder)
		return &player{
			world: folder, clients: map[string]*client{}, said: map[string]saying{},
			start:   func(ctx context.Context) (control, error) { return p.start(ctx) },
			planner: &planning{decoder: p.decoder, done: &planned},
		}, nil
	})
	t.Logf("%d edits were planned", planned)
	if planned < 50 && *scriptFile == "" {
		t.Errorf("only %d edits were planned", planned)
	}
}

// plannable keeps what a plan is about. Proxies speak the incremental protocol: its resources are those of the tables.
func plannable(s script) script {
	for _, st := range s {
		for i := range st {
			if c := st[i].Connect; c != nil {
				c.SotW = false
			}
		}
	}
	return s
}

// beside is a second source, with some of the objects that the folder has too.
func beside(d *config.Decoder) func() source.Source {
	return func() source.Source {
		const text = `{apiVersion: networking.istio.io/v1, kind: %s, metadata: {name: a, namespace: default}, spec: %s}`
		out := memory.New("beside")
		for _, doc := range []string{
			fmt.Sprintf(text, "ServiceEntry", `{hosts: [a.example], ports: [{number: 80, name: http, protocol: HTTP}], `+
				`resolution: STATIC, endpoints: [{address: 10.9.9.9}]}`),
			fmt.Sprintf(text, "VirtualService", `{hosts: [a.example], http: [{timeout: 9s, route: [{destination: {host: a.example}}]}]}`),
		} {
			o, problems := d.Decode(config.Document{File: "beside", Line: 1, Text: []byte(doc)})
			if o == nil {
				panic(fmt.Sprint(problems))
			}
			out.Set(o)
		}
		return out
	}
}

// planning plans the steps that only change objects.
type planning struct {
	decoder *config.Decoder
	done    *int
	before  map[string]map[string]map[string][]byte // what each proxy had, by its name, type and name
	says    map[mesh.ProxyID]map[string][]byte      // what each would have of what differs, by type and name; nil: nothing
}

// changes returns the changes of a step; false: the step has other actions too, or what it does to a folder is another thing.
func (p *planning) changes(st step, f *folder) (out trial.Changes, ok bool) {
	out.Source = "rules"
	seen := map[string]bool{}
	for _, a := range st {
		switch {
		case a.Put != nil && !seen[a.Put.Key]:
			seen[a.Put.Key] = true
			out.Documents = append(out.Documents, config.Document{File: f.path(a.Put.File), Line: 1, Text: []byte(a.Put.Text)})
		case a.Drop != nil && !seen[a.Drop.Key]:
			seen[a.Drop.Key] = true
			if index(f.files[a.Drop.File], a.Drop.Key) < 0 {
				continue // there is no such object
			}
			k, ok := p.keyOf(f, a.Drop.File, a.Drop.Key)
			if !ok {
				return out, false
			}
			out.Gone = append(out.Gone, k)
		default:
			return out, false
		}
	}
	return out, len(st) > 0
}

// keyOf returns the key of an object that is in one file alone.
func (p *planning) keyOf(f *folder, file, key string) (config.Key, bool) {
	for name, docs := range f.files {
		if name != file && index(docs, key) >= 0 {
			return config.Key{}, false // another version takes its place
		}
	}
	docs := f.files[file]
	o, _ := p.decoder.Decode(config.Document{File: file, Line: 1, Text: []byte(docs[index(docs, key)].Text)})
	if o == nil {
		return config.Key{}, false // it is not in force
	}
	return o.Key, true
}

// plan plans a step, before it is made.
func (p *planning) plan(ctx context.Context, st step, pl *player) error {
	p.says = nil
	changes, ok := p.changes(st, pl.world.(*folder))
	if !ok {
		return nil
	}
	c := pl.control.(*inProcess)
	p.before = holdings(pl.clients)
	var file bytes.Buffer
	if err := snapshot.Encode(&file, c.discovery.Snapshot()); err != nil {
		return err
	}
	s, err := snapshot.Decode(&file, p.decoder)
	if err != nil {
		return err
	}
	planner, err := plan.New(s, p.decoder)
	if err != nil {
		return err
	}
	p.says = map[mesh.ProxyID]map[string][]byte{}
	g := planner.World().Graph
	err = planner.Look(ctx, changes, func(_ table.Turn, tx *table.Tx) {
		for id, differences := range trial.Differences(g, tx) {
			p.says[id] = map[string][]byte{}
			for d := range differences {
				var body []byte
				if d.New != nil {
					body = bytes.Clone(d.New.Body)
				}
				p.says[id][d.Type.URL()+" "+d.Name] = body
			}
		}
	})
	if err != nil {
		return err
	}
	if _, err := planner.Plan(ctx, changes); err != nil { // words must not fail either
		return err
	}
	*p.done++
	return nil
}

// check compares what each proxy has now with what it had, and what the plan said.
func (p *planning) check(clients map[string]*client) error {
	if p.says == nil {
		return nil
	}
	var b strings.Builder
	after := holdings(clients)
	for _, name := range slices.Sorted(maps.Keys(clients)) {
		c := clients[name]
		said := p.says[mesh.MakeProxyID(c.proxy.Namespace, c.proxy.Account, c.Node.Id)]
		for typ, now := range after[name] {
			names := maps.Clone(now)
			maps.Copy(names, p.before[name][typ])
			for _, resource := range slices.Sorted(maps.Keys(names)) {
				was, is := p.before[name][typ][resource], now[resource]
				want, differs := said[typ+" "+resource]
				if !whole(typ) && (is == nil || was == nil && !differs) {
					continue // nothing names it any more, or something names it for the first time
				}
				switch {
				case !differs && !bytes.Equal(was, is):
					fmt.Fprintf(&b, "%s: %s %s changes, and the plan does not say so: %d and %d bytes\n%s\n%s\n",
						name, ads.Short(typ), resource, len(was), len(is), show(typ, was), show(typ, is))
				case differs && !bytes.Equal(want, is):
					fmt.Fprintf(&b, "%s: %s %s is\n%s\nthe plan says\n%s\n", name, ads.Short(typ), resource, show(typ, is), show(typ, want))
				}
			}
		}
		for key, want := range said {
			typ, resource, _ := strings.Cut(key, " ")
			if _, has := after[name][typ][resource]; want != nil && whole(typ) && !has {
				fmt.Fprintf(&b, "%s: it does not get %s %s\n", name, ads.Short(typ), resource)
			}
		}
	}
	if b.Len() > 0 {
		return fmt.Errorf("the plan was not what happened:\n%s", b.String())
	}
	return nil
}

// holdings are the resources of all clients.
func holdings(clients map[string]*client) map[string]map[string]map[string][]byte {
	out := map[string]map[string]map[string][]byte{}
	for name, c := range clients {
		out[name] = map[string]map[string][]byte{}
		for typ, resources := range c.InUse() {
			out[name][typ] = map[string][]byte{}
			for resource, body := range resources {
				out[name][typ][resource] = body
			}
		}
	}
	return out
}

// whole reports whether a proxy asks for all resources of a type, not only for those that others name.
func whole(typ string) bool { return typ == xdstype.Clusters.URL() || typ == xdstype.Listeners.URL() }
