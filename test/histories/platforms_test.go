package histories

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	consulapi "github.com/hashicorp/consul/api"
	nomadapi "github.com/hashicorp/nomad/api"
	clientv3 "go.etcd.io/etcd/client/v3"

	"google.golang.org/protobuf/types/known/timestamppb"

	"fairway/internal/app"
	"fairway/internal/config"
	"fairway/internal/mcpwire"
	"fairway/internal/source/memory"
	"fairway/internal/store"
	"fairway/test/gate"
	"fairway/test/plane"
	"fairway/test/platform/registry/consulserver"
	"fairway/test/platform/registry/etcdserver"
	"fairway/test/platform/registry/eurekaserver"
	"fairway/test/platform/registry/nomadstandin"
	"fairway/test/platform/registry/zookeeperserver"
	"fairway/test/rig"
)

// platforms are registries that change, beside a folder.
type platforms struct {
	*folder
	t       *testing.T
	decoder *config.Decoder

	consul    *consulserver.Server
	agent     *consulapi.Client
	nomad     *nomadstandin.Server
	eureka    *eurekaserver.Server
	zookeeper *zookeeperserver.Server
	session   *zk.Conn
	etcd      *etcdserver.Server
	keys      *clientv3.Client
	layout    store.Layout
	galley    *galley
	pusher    *galley        // connects itself
	chain     *memory.Source // the rules of the other control plane
	gates     map[string]*gate.Gate
	port      uint16 // of the HTTP API

	named   []string
	serving map[string]map[string]instance // by registry, and service/id
	objects map[string]map[string]document // by store, and key
	nodes   map[string]string              // of ZooKeeper, by service/id

	todo     map[string][]func(context.Context) error // pending changes, by registry
	outage   string
	missing  string // the server that is away until the control plane runs
	snapshot bool   // the HTTP API needs a whole snapshot
	stale    bool   // the registries file is to be written
}

func newPlatforms(t *testing.T, decoder *config.Decoder) *platforms {
	w := &platforms{
		t: t, decoder: decoder, consul: consulserver.Start(t, consulserver.Options{}), nomad: nomadstandin.Start(t, nomadstandin.Options{}),
		eureka: eurekaserver.Start(t, eurekaserver.Options{}), zookeeper: zookeeperserver.Start(t),
		etcd: etcdserver.Start(t, etcdserver.Options{}), galley: newGalley(t), pusher: newGalley(t), chain: memory.New("rules"),
		port: rig.FreePort(t),
	}
	w.agent, w.session, w.keys = w.consul.Client(t), w.zookeeper.Client(t), w.etcd.Client(t)
	w.gates = map[string]*gate.Gate{
		"mcp": gate.New(t, w.galley.address), "xds": gate.New(t, plane.Start(t, plane.Options(), w.chain).Address()),
	}
	return w
}

// reset removes everything that an earlier history left, and begins another folder.
func (w *platforms) reset(t *testing.T) error {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := w.mend(ctx); err != nil { // brings the missing server back
		return err
	}
	for _, in := range slices.Sorted(maps.Keys(w.serving)) {
		for _, at := range slices.Sorted(maps.Keys(w.serving[in])) {
			i := w.serving[in][at]
			i.Gone = true
			w.do(action{Instance: &i})
		}
	}
	for _, in := range slices.Sorted(maps.Keys(w.objects)) {
		for _, key := range slices.Sorted(maps.Keys(w.objects[in])) {
			d := w.objects[in][key]
			w.do(action{Drop: &d})
		}
	}
	w.outage = ""
	var err error
	if w.folder != nil {
		err = w.write(ctx)
	}
	if err == nil {
		w.folder, err = newFolder(t.TempDir())
	}
	if err != nil {
		return err
	}
	w.named, w.stale, w.snapshot = registries, true, true
	w.serving, w.objects, w.nodes = map[string]map[string]instance{}, map[string]map[string]document{}, map[string]string{}
	w.todo = map[string][]func(context.Context) error{}
	return w.write(ctx)
}

func (w *platforms) registriesFile() string { return w.folder.registriesFile() }
func (w *platforms) stateDir() string       { return filepath.Join(w.dir, "state") }

// all has every registry of services call a service as the folder's rules do.
const all = "host: \"{name}.shop.svc.cluster.local\", namespace: shop"

// names is what a registries file says. port and state are of the HTTP API.
func (w *platforms) names(port uint16, state string) string {
	entries := map[string]string{
		"consul": fmt.Sprintf("consul: {urls: [%q], %s, port: 80, keepMissing: 0s}", w.consul.URL(), all),
		"nomad":  fmt.Sprintf("nomad: {urls: [%q], %s, keepMissing: 0s}", w.nomad.URL(), all),
		"eureka": fmt.Sprintf("eureka: {urls: [%q], %s, port: 80, protocol: HTTP, refresh: 100ms, keepMissing: 3s}", w.eureka.URL(), all),
		"zookeeper": fmt.Sprintf("zookeeper: {servers: [%q], %s, applicationHost: \"{name}.shop.svc.cluster.local\", labels: [version], "+
			"sessionTimeoutSeconds: 4, keepMissing: 0s}", w.zookeeper.Address(), all),
		"memory": fmt.Sprintf("memory: {address: \"127.0.0.1:%d\", stateFile: %q}", port, state),
		"etcd":   fmt.Sprintf("etcd: {urls: [%q]}", w.etcd.URL()),
		"mcp":    fmt.Sprintf("mcp: {address: %q, plaintext: true, mcp: true}", w.through("mcp")),
		"xds":    fmt.Sprintf("mcp: {address: %q, plaintext: true}", w.through("xds")),
	}
	out := "registries:\n"
	for _, name := range w.named {
		out += "- name: " + name + "\n  " + entries[name] + "\n"
	}
	return out
}

func (w *platforms) through(name string) string {
	return fmt.Sprintf("127.0.0.1:%d", w.gates[name].Port())
}

// anew starts a control plane without earlier state.
func (w *platforms) anew(ctx context.Context, p planes) (control, error) {
	port := rig.FreePort(w.t)
	path := filepath.Join(w.dir, "anew.yaml")
	if err := w.place(path, w.names(port, "")); err != nil {
		return nil, err
	}
	p.adjust = func(o *app.Options) { o.RegistriesFile = path }
	c, err := w.pushed(p).start(ctx)
	if err != nil {
		return nil, err
	}
	if slices.Contains(w.named, "memory") {
		err = w.tellAll(ctx, port)
	}
	return c, err
}

// pushed has control planes take streams where they are pushed, too, from their start on.
func (w *platforms) pushed(p planes) *planes {
	p.grpc = fmt.Sprintf("127.0.0.1:%d", rig.FreePort(w.t))
	w.pusher.push(w.t, p.grpc)
	return &p
}

func (w *platforms) do(a action) {
	switch {
	case a.Instance != nil:
		w.change(*a.Instance)
	case a.Registries != nil:
		before := w.named
		w.named, w.stale = strings.Split(*a.Registries, ","), true
		w.snapshot = w.snapshot || slices.Contains(w.named, "memory") && !slices.Contains(before, "memory")
	case a.Put != nil:
		for _, in := range stores {
			if in != a.Put.File {
				w.drop(document{File: in, Key: a.Put.Key})
			}
		}
		w.put(*a.Put, action{Put: a.Put})
	case a.Copy != nil:
		w.put(*a.Copy, action{Copy: a.Copy})
	case a.Drop != nil:
		w.drop(*a.Drop)
	case a.Mesh != nil && *a.Mesh != "":
		text := *a.Mesh + "\nconfigSources: [{address: \"xds://" + w.through("xds") + "\"}, " +
			"{address: \"mcp-sink://pushed\", tlsSettings: {mode: DISABLE}}]\n"
		w.folder.do(action{Mesh: &text})
	case a.Outage != "":
		w.outage = a.Outage
	default:
		w.folder.do(a)
	}
}

func (w *platforms) note(in string, change func(context.Context) error) {
	w.todo[in] = append(w.todo[in], change)
}

// put puts an object into a store, or into a file.
func (w *platforms) put(d document, otherwise action) {
	if !slices.Contains(stores, d.File) {
		w.folder.do(otherwise)
		return
	}
	if otherwise.Put != nil {
		for name := range w.files {
			w.folder.drop(document{File: name, Key: d.Key})
		}
	}
	if w.objects[d.File] == nil {
		w.objects[d.File] = map[string]document{}
	}
	w.objects[d.File][d.Key] = d
	w.note(d.File, func(ctx context.Context) error { return w.keep(ctx, d, true) })
}

// drop takes an object from its store, or from its file.
func (w *platforms) drop(d document) {
	if !slices.Contains(stores, d.File) {
		w.folder.drop(d)
		return
	}
	if was, has := w.objects[d.File][d.Key]; has {
		delete(w.objects[d.File], d.Key)
		w.note(d.File, func(ctx context.Context) error { return w.keep(ctx, was, false) })
	}
}

// keep changes what a store holds of an object.
func (w *platforms) keep(ctx context.Context, d document, there bool) error {
	o, problems := w.decoder.Decode(config.Document{File: d.File, Line: 1, Text: []byte(d.Text)})
	if o == nil {
		return fmt.Errorf("%s: %v", d.Key, problems)
	}
	switch {
	case d.File == "etcd" && there:
		return again(ctx, func() error { _, err := w.keys.Put(ctx, w.layout.Key(o.Key), d.Text); return err })
	case d.File == "etcd":
		return again(ctx, func() error { _, err := w.keys.Delete(ctx, w.layout.Key(o.Key)); return err })
	case d.File == "xds" && there:
		w.chain.Set(o)
	case d.File == "xds":
		w.chain.Delete(o.Key)
	}
	if !there {
		o = &config.Object{Key: o.Key}
	}
	switch d.File {
	case "mcp":
		return w.galley.set(o.Key, o, there)
	case "pushed":
		return w.pusher.set(o.Key, o, there)
	}
	return nil
}

func created(o *config.Object) *timestamppb.Timestamp {
	if o.Created == 0 {
		return nil
	}
	return &timestamppb.Timestamp{Seconds: o.Created}
}

func collectionOf(api config.API) string {
	return mcpwire.Collection(api.Group, api.Versions[len(api.Versions)-1], string(api.Kind))
}

// again tries until it succeeds: a server that was just started may take a while.
func again(ctx context.Context, do func() error) error {
	for {
		err := do()
		if err == nil {
			return nil
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return err
		}
	}
}

// change notes what becomes of an instance.
func (w *platforms) change(i instance) {
	at := i.Service + "/" + i.ID
	was, has := w.serving[i.In][at]
	switch {
	case i.Gone && !has:
		return
	case i.Gone:
		delete(w.serving[i.In], at)
		w.note(i.In, func(ctx context.Context) error { return w.leave(ctx, was) })
		return
	}
	if w.serving[i.In] == nil {
		w.serving[i.In] = map[string]instance{}
	}
	w.serving[i.In][at] = i
	w.note(i.In, func(ctx context.Context) error { return w.register(ctx, i) })
}

// tags are an instance's as "key=value".
func (i instance) tags() (out []string) {
	said := i.words()
	for _, k := range slices.Sorted(maps.Keys(said)) {
		out = append(out, k+"="+said[k])
	}
	return out
}

// words are what an instance says of itself in metadata.
func (i instance) words() map[string]string {
	out := map[string]string{}
	for k, v := range map[string]string{"version": i.Version, "zone": i.Zone, "protocol": i.Word} {
		if v != "" {
			out[k] = v
		}
	}
	if i.Weight > 0 {
		out["weight"] = fmt.Sprint(i.Weight)
	}
	return out
}

// register registers an instance, in place of its earlier version.
func (w *platforms) register(ctx context.Context, i instance) error {
	id := i.Service + "-" + i.ID
	switch i.In {
	case "consul":
		service := &consulapi.AgentService{
			ID: id, Service: i.Service, Address: i.Address, Port: i.Port, Meta: i.words(),
			Weights: consulapi.AgentWeights{Passing: max(i.Weight, 1), Warning: 1},
		}
		status := map[string]string{"": "passing", "draining": "warning", "unhealthy": "critical"}[i.Health]
		node := "node-" + i.ID
		return again(ctx, func() error {
			_, err := w.agent.Catalog().Register(&consulapi.CatalogRegistration{
				Node: node, Address: "10.9.9.9", Service: service,
				Check: &consulapi.AgentCheck{Node: node, CheckID: id, Name: id, Status: status, ServiceID: id, ServiceName: i.Service},
			}, nil)
			return err
		})
	case "nomad":
		w.nomad.Register(&nomadapi.ServiceRegistration{
			ID: id, ServiceName: i.Service, Namespace: "default", Datacenter: "dc1", NodeID: "node", JobID: "job", AllocID: i.ID,
			Address: i.Address, Port: i.Port, Tags: i.tags(),
		})
	case "eureka":
		w.eureka.Register(w.t, eurekaserver.Instance{
			App: i.Service, ID: id, Address: i.Address, Port: i.Port, Metadata: i.words(), Lease: 3600,
			Status: map[string]string{"": "UP", "draining": "OUT_OF_SERVICE", "unhealthy": "DOWN"}[i.Health],
		})
	case "zookeeper":
		return w.node(ctx, i)
	case "memory":
		return w.ask(ctx, w.port, http.MethodPut, "/v1/services/shop/"+i.Service+"/instances/"+i.ID, i.json())
	}
	return nil
}

// leave takes an instance back.
func (w *platforms) leave(ctx context.Context, i instance) error {
	id := i.Service + "-" + i.ID
	switch i.In {
	case "consul":
		return again(ctx, func() error {
			_, err := w.agent.Catalog().Deregister(&consulapi.CatalogDeregistration{Node: "node-" + i.ID, ServiceID: id}, nil)
			return err
		})
	case "nomad":
		w.nomad.Deregister("default", i.Service, id)
	case "eureka":
		w.eureka.Cancel(w.t, i.Service, id)
	case "zookeeper":
		return w.unnode(ctx, i)
	case "memory":
		return w.ask(ctx, w.port, http.MethodDelete, "/v1/services/shop/"+i.Service+"/instances/"+i.ID, nil)
	}
	return nil
}

// node registers in ZooKeeper: some instances as providers of Dubbo, others as applications' instances.
func (w *platforms) node(ctx context.Context, i instance) error {
	if err := w.unnode(ctx, i); err != nil {
		return err
	}
	parameters := url.Values{"application": {i.Service}}
	for k, v := range i.words() {
		parameters.Set(k, v)
	}
	if i.Health != "" {
		parameters.Set("disabled", "true")
	}
	scheme := "dubbo"
	if i.Word == "grpc" {
		scheme = "tri"
	}
	text := fmt.Sprintf("%s://%s:%d/%s?%s", scheme, i.Address, i.Port, i.Service, parameters.Encode())
	at, content := "/dubbo/"+i.Service+"/providers/"+url.QueryEscape(text), ""
	if i.ID == "i3" {
		body, err := json.Marshal(map[string]any{
			"name": i.Service, "id": i.ID, "address": i.Address, "port": i.Port, "payload": map[string]any{"metadata": i.words()},
		})
		if err != nil {
			return err
		}
		at, content = "/services/"+i.Service+"/"+i.ID, string(body)
	}
	w.nodes[i.Service+"/"+i.ID] = at
	return again(ctx, func() error {
		for end := 1; end < len(at); end++ {
			if at[end] != '/' {
				continue
			}
			if _, err := w.session.Create(at[:end], nil, 0, zk.WorldACL(zk.PermAll)); err != nil && !errors.Is(err, zk.ErrNodeExists) {
				return err
			}
		}
		_, err := w.session.Create(at, []byte(content), 0, zk.WorldACL(zk.PermAll))
		if errors.Is(err, zk.ErrNodeExists) {
			return nil
		}
		return err
	})
}

func (w *platforms) unnode(ctx context.Context, i instance) error {
	at, has := w.nodes[i.Service+"/"+i.ID]
	if !has {
		return nil
	}
	delete(w.nodes, i.Service+"/"+i.ID)
	return again(ctx, func() error {
		err := w.session.Delete(at, -1)
		if errors.Is(err, zk.ErrNoNode) {
			return nil
		}
		return err
	})
}

// json is an instance as the HTTP API takes it.
func (i instance) json() map[string]any {
	out := map[string]any{
		"id": i.ID, "addresses": []string{i.Address}, "labels": map[string]string{},
		"ports": []map[string]any{{"name": fmt.Sprintf("p%d", i.Port), "number": i.Port, "protocol": i.Word}},
	}
	if i.Version != "" {
		out["labels"] = map[string]string{"version": i.Version}
	}
	if i.Weight > 0 {
		out["weight"] = i.Weight
	}
	if i.Zone != "" {
		out["locality"] = "r1/" + i.Zone
	}
	if i.Health != "" {
		out["health"] = i.Health
	}
	return out
}

// tellAll puts all that the HTTP API is to hold, at once.
func (w *platforms) tellAll(ctx context.Context, port uint16) error {
	services := map[string][]map[string]any{"a": {}, "b": {}, "c": {}} // one that had instances stays without them
	for _, at := range slices.Sorted(maps.Keys(w.serving["memory"])) {
		i := w.serving["memory"][at]
		services[i.Service] = append(services[i.Service], i.json())
	}
	var list []map[string]any
	for _, name := range slices.Sorted(maps.Keys(services)) {
		list = append(list, map[string]any{"namespace": "shop", "name": name, "instances": services[name]})
	}
	return w.ask(ctx, port, http.MethodPut, "/v1/snapshot", map[string]any{"services": list})
}

// ask makes a request of the HTTP API, as soon as that is served. If the path is missing, that is not an error.
func (w *platforms) ask(ctx context.Context, port uint16, method, path string, body any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	return again(ctx, func() error {
		q, err := http.NewRequestWithContext(ctx, method, fmt.Sprintf("http://127.0.0.1:%d%s", port, path), bytes.NewReader(text))
		if err != nil {
			return err
		}
		if method == http.MethodPut {
			q.Header.Set("Content-Type", "application/json")
		}
		answer, err := http.DefaultClient.Do(q)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		said, err := io.ReadAll(answer.Body)
		if err == nil && answer.StatusCode >= 300 && answer.StatusCode != http.StatusNotFound {
			err = fmt.Errorf("%s %s: %s: %s", method, path, answer.Status, said)
		}
		return err
	})
}

// write makes the changes, during an outage if there is to be one. mend makes the changes of the HTTP API, and of a server that is away.
func (w *platforms) write(ctx context.Context) error {
	who, how, _ := strings.Cut(w.outage, " ")
	w.outage = ""
	w.kill(who)
	if w.stale {
		w.stale = false
		if err := w.place(w.registriesFile(), w.names(w.port, filepath.Join(w.dir, "memory.state"))); err != nil {
			return err
		}
	}
	for _, in := range append(slices.Clone(registries), "pushed") {
		if in == who || in == "memory" {
			continue
		}
		if err := w.make(ctx, in); err != nil {
			return err
		}
	}
	if err := w.folder.write(ctx); err != nil {
		return err
	}
	if how == away {
		w.missing = who
		return nil
	}
	if err := w.back(ctx, who, how == emptied || who == "eureka"); err != nil {
		return err
	}
	return w.make(ctx, who)
}

// make makes the changes that are noted of a registry.
func (w *platforms) make(ctx context.Context, in string) error {
	all := w.todo[in]
	delete(w.todo, in)
	for _, change := range all {
		if err := change(ctx); err != nil {
			return fmt.Errorf("%s: %w", in, err)
		}
	}
	return nil
}

// mend makes the remaining changes, once the control plane runs.
func (w *platforms) mend(ctx context.Context) error {
	who := w.missing
	w.missing = ""
	if err := w.back(ctx, who, false); err != nil {
		return err
	}
	if err := w.make(ctx, who); err != nil || w.folder == nil {
		return err
	}
	if !slices.Contains(w.named, "memory") {
		delete(w.todo, "memory")
		return nil
	}
	if w.snapshot {
		w.snapshot = false
		delete(w.todo, "memory")
		return w.tellAll(ctx, w.port)
	}
	return w.make(ctx, "memory")
}

// kill ends a server; empty: none.
func (w *platforms) kill(who string) {
	switch who {
	case "consul":
		w.consul.Kill()
	case "nomad":
		w.nomad.Kill()
	case "eureka":
		w.eureka.Kill()
	case "zookeeper":
		w.zookeeper.Kill()
	case "etcd":
		w.etcd.Kill()
	case "mcp", "xds":
		w.gates[who].Close()
	case "pushed":
		w.pusher.leave(true)
	}
}

// back starts a server again. If a server comes back empty, the instances register again. etcd is never
// filled again: its lost objects stay in force.
func (w *platforms) back(ctx context.Context, who string, empty bool) error {
	switch who {
	case "consul":
		w.consul.Restart(w.t, empty)
	case "nomad":
		w.nomad.Run(w.t, empty)
	case "eureka":
		w.eureka.Run(w.t)
	case "zookeeper":
		if empty {
			w.zookeeper.Empty(w.t)
			w.session.Close() // it has seen more than the server knows, which refuses it for ever
			w.session = w.zookeeper.Client(w.t)
		} else {
			w.zookeeper.Again(w.t)
		}
	case "etcd":
		w.etcd.Restart(w.t, false)
		return nil
	case "mcp", "xds":
		w.gates[who].Open(w.t)
		return nil
	case "pushed":
		w.pusher.leave(false)
		return nil
	}
	if !empty {
		return nil
	}
	for _, at := range slices.Sorted(maps.Keys(w.serving[who])) {
		if err := w.register(ctx, w.serving[who][at]); err != nil {
			return err
		}
	}
	return nil
}
