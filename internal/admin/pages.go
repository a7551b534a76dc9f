package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"net/http/pprof"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/time/rate"

	"fairway/internal/admin/change"
	"fairway/internal/admin/page"
	"fairway/internal/compile"
	"fairway/internal/config"
	"fairway/internal/levels"
	"fairway/internal/mesh"
	"fairway/internal/printable"
	"fairway/internal/questions"
	"fairway/internal/snapshot"
	"fairway/internal/source/shards"
	"fairway/internal/table"
	"fairway/internal/web"
	"fairway/internal/xds"
	"fairway/internal/xds/library"
)

// Pages serves the state of one control plane. All fields are required unless their comments say otherwise.
type Pages struct {
	Graph   *compile.Graph
	Streams *xds.Server
	// Questions answers pages that cost much, one at a time.
	Questions *questions.Queue
	Compare   func(context.Context, []uint64) // compares these streams with the tables; returns once it has, or when the context ends
	Metrics   *Metrics
	Ready     func() error // nil once proxies are served; else the missing part
	// Behind returns a line for each source that is not up to date; nil: not known.
	Behind   func() []string
	Problems func() []mesh.Problem                    // in order
	Proxy    func(library.ProxyID) (mesh.Proxy, bool) // of a connected proxy
	Shown    func() []page.ProxyCertificate           // the credentials of connected proxies, in order
	Access   Access                                   // who may see the debug pages
	Version  string                                   // of this program
	// Origin returns the source of a registry's service; false: the source is not known.
	Origin func(mesh.ServiceKey) (shards.Origin, bool)
	// Clusters returns the content of /debug/clusterz; nil: there is no such page.
	Clusters func() any
	// Applies returns the content of /debug/appliesz for objects of a kind, a namespace and a name (each may be empty: any) after the one
	// that it returned as next; nil: there is no such page. The error says what of the query is wrong.
	Applies func(ctx context.Context, kind, namespace, name, after string) (page.Reaches, error)
	// Live returns the content of /debug/livez, and History that of /debug/historyz.
	Live    func(LiveQuestion) page.Live
	History func(TurnFilter) []page.Turn
	// Snapshot returns the content of /debug/snapshotz; nil: there is no such page.
	Snapshot func() *snapshot.Snapshot
	// Plan returns the content of /debug/planz; nil: there is no such page. A *change.Error says what of the question is wrong.
	Plan func(context.Context, change.Question) (any, error)
	// Lines returns the content of /debug/logz; nil: there is no such page.
	Lines func() string
	// Levels has the content of /debug/scopez; nil: there is no such page.
	Levels *levels.Levels
	// Sources returns the content of /debug/sourcez; nil: there is no such page.
	Sources func() any
	// Writes returns the content of /debug/writez; nil: nothing is written into a cluster, and there is no such page.
	Writes func() any
	// Authority returns the content of /debug/caz; nil: there is no certificate authority, nor the page.
	Authority func() any
	// Keys returns the content of /debug/jwksz; nil: there is no such page.
	Keys func() any

	audit  *rate.Limiter // of the log of refusals
	unread atomic.Int32  // snapshots that are made, and not yet read
}

// debugPage is one page below /debug.
type debugPage struct {
	path, about string
	serve       http.HandlerFunc
	forAll      bool // shows objects without a namespace
}

func (p *Pages) debug() []debugPage {
	all := []debugPage{
		{
			"syncz", "the responses sent to and acknowledged by each proxy, by type: ?namespace=; ?brief=true, without comparing",
			p.question("sync", p.syncz), false,
		},
		{"config_dump", "the resources sent to a proxy, in the form of Envoy's admin page: ?proxyID=", p.configDump, false},
		{
			"resourcez", "the same, one type by name: ?proxyID=&type=cds|ecds|eds|lds|rds|vhds|sds; " +
				"with the objects that each was made from: &made=true", p.resourcez, false,
		},
		{"ndsz", "the names that a proxy's agent resolves: ?proxyID=", p.ndsz, false},
		{"registryz", "services, and which registry's won", p.registryz, false},
		{"endpointz", "endpoints by service", p.endpointz, false},
		{"servicez", "hosts, with the data of each registry: ?host=", p.servicez, false},
		{"workloadz", "what agents say of the applications beside them, and the WorkloadEntries that it counts for", p.workloadz, false},
		{"certz", "what each connected proxy proved itself with, and until when that is valid", p.certz, false},
		{"configz", "objects in force: ?kind=&namespace=&name=, with the lines of fields: &field=", p.configz, false},
		{
			"tablez", "the control plane's tables; the rows of one: ?table=&filter=&format=text|json; " +
				"what a row was made from, and what from it: ?table=&key=", p.tablez, true,
		},
		{
			"livez", "whether an object's version, or a turn, is in force on all proxies, and on which it is not: " +
				"?kind=&namespace=&name=&generation= or ?turn=, and &proxyID=", p.question("live", p.livez), false,
		},
		{
			"explainz", "what a proxy does with a request, and why: ?proxyID=&method=&host=&port=&path=&header=NAME:VALUE&direction=",
			p.question("explain", p.explainz), false,
		},
		{
			"historyz", "the last turns: cause, work, proxies, refusals: ?turn=&kind=&namespace=&name=&proxyID=&after=&most=",
			p.historyz, false,
		},
		{"problems", "errors in users' objects: ?severity=info|warning|error, and worse", p.problems, false},
		{"connections", "the same as syncz", p.question("sync", p.syncz), false},
	}
	all = append(all, p.istios()...)
	for _, part := range []struct {
		path, about string
		shows       func() any
	}{
		{"sourcez", "where rows come from, in order of precedence: how far each source is, and what it holds", p.Sources},
		{"writez", "writes into the cluster: the leader, pending writes, failures", p.Writes},
		{"clusterz", "the Kubernetes clusters that are read, and how far each is", p.Clusters},
		{"caz", "the certificate authority: its roots, what signs, its CRLs", p.Authority},
		{"jwksz", "issuers of requests' tokens: when each gave its keys last, and why not since", p.Keys},
	} {
		if part.shows != nil {
			show := func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, part.shows()) }
			all = append(all, debugPage{part.path, part.about, show, true})
		}
	}
	if p.Applies != nil {
		all = append(all, debugPage{
			"appliesz", "for how many connected proxies objects make a difference, and why for none: ?kind=&namespace=&name=&after=",
			p.question("applies", p.appliesz), true,
		})
	}
	if p.Plan != nil {
		all = append(all, debugPage{"planz", "what a change of a few objects would do: POST it, as pilotctl plan does", p.planz, false})
	}
	if p.Lines != nil {
		show := func(w http.ResponseWriter, _ *http.Request) { writeText(w, p.Lines()) }
		all = append(all, debugPage{"logz", "the last lines of the log", show, true})
	}
	if p.Levels != nil {
		all = append(all, debugPage{"scopez", levelsAbout, p.Levels.Page(p.Access.Log, callerOf), true})
	}
	if p.Snapshot != nil {
		all = append(all, debugPage{
			"snapshotz", "the control plane's input, without secrets, for pilotctl plan and pilot-discovery replay", p.snapshotz, true,
		})
	}
	if p.Access.Profiles {
		all = append(all, debugPage{"pprof/", "profiles", pprof.Index, true})
	}
	return all
}

// Entry describes a debug page.
type Entry struct {
	Path, About string
	System      bool // callers of other namespaces may not read it
}

// Index lists the debug pages.
func (p *Pages) Index() (out []Entry) {
	for _, d := range p.debug() {
		out = append(out, Entry{d.path, d.about, d.forAll})
	}
	return out
}

// Open returns the paths that answer whether the control plane is ready. They never wait for other requests (web.Options): a replica
// that does not answer them gets no traffic any more.
func Open() []string { return []string{"/ready", "/healthz/ready"} }

// Handler returns all pages. "/debug" lists them. Each answers GET and HEAD, planz POST, and
// scopez all of them. All callers may read readiness and metrics;
// guard checks each request for another page.
func (p *Pages) Handler() http.Handler {
	p.audit = rate.NewLimiter(auditRate, auditBurst)
	debug := http.NewServeMux()
	for _, d := range p.debug() {
		serve := d.serve
		if d.forAll {
			serve = p.forAll(serve)
		}
		debug.HandleFunc("/debug/"+d.path, serve)
	}
	if p.Access.Profiles {
		debug.HandleFunc("/debug/pprof/profile", p.forAll(lasting(pprof.Profile)))
		debug.HandleFunc("/debug/pprof/trace", p.forAll(lasting(pprof.Trace)))
		debug.HandleFunc("/debug/pprof/cmdline", p.forAll(pprof.Cmdline))
		debug.HandleFunc("/debug/pprof/symbol", p.forAll(pprof.Symbol))
	}
	for path, instead := range absent {
		debug.HandleFunc("/debug/"+path, func(w http.ResponseWriter, _ *http.Request) {
			writeError(w, "there is no page "+path+" here: "+instead, http.StatusNotFound)
		})
	}
	debug.HandleFunc("/debug", p.list)
	debug.HandleFunc("/debug/list", p.list)
	debug.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		writeError(w, fmt.Sprintf("there is no page %s; /debug lists them", r.URL.Path), http.StatusNotFound)
	})
	mux := http.NewServeMux()
	for _, path := range Open() {
		mux.HandleFunc("GET "+path, p.ready)
	}
	mux.HandleFunc("GET /version", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, page.Version{Version: p.Version}) })
	mux.Handle("GET /metrics", promhttp.HandlerFor(p.Metrics.Registry, promhttp.HandlerOpts{}))
	mux.Handle("/sd", p.guard(http.HandlerFunc(p.sd)))
	mux.Handle("/debug", p.guard(debug))
	mux.Handle("/debug/", p.guard(debug))
	return mux
}

// longestProfile is the longest time that a profile may take.
const longestProfile = 5 * time.Minute

// lasting gives a profile the time that the request asks for.
func lasting(page http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		seconds, _ := strconv.ParseFloat(r.URL.Query().Get("seconds"), 64) // none: the page's own, which is less than a minute
		if seconds > longestProfile.Seconds() {
			writeError(w, fmt.Sprintf("seconds=%s: a profile is at most %s", r.URL.Query().Get("seconds"), longestProfile),
				http.StatusBadRequest)
			return
		}
		web.Extend(w, longestProfile)
		page(w, r)
	}
}

// list names the pages that the viewer may see.
func (p *Pages) list(w http.ResponseWriter, r *http.Request) {
	var b strings.Builder
	for _, d := range p.debug() {
		if !d.forAll || viewerOf(r).all {
			fmt.Fprintf(&b, "/debug/%-12s %s\n", d.path, d.about)
		}
	}
	writeText(w, b.String())
}

func (p *Pages) ready(w http.ResponseWriter, _ *http.Request) {
	if err := p.Ready(); err != nil {
		http.Error(w, "not ready: "+err.Error(), http.StatusServiceUnavailable)
		return
	}
	text := "ready\n"
	if p.Behind != nil {
		for _, line := range p.Behind() {
			text += line + "\n" // proxies are served by what was read last: no reason to send them elsewhere
		}
	}
	writeText(w, text)
}

// write sends a page. An error is ignored: it means that the client has left.
func write(w http.ResponseWriter, contentType string, body []byte) {
	w.Header().Set("Content-Type", contentType)
	_, _ = w.Write(body)
}

func writeText(w http.ResponseWriter, text string) {
	write(w, "text/plain; charset=utf-8", []byte(text))
}

func writeJSON(w http.ResponseWriter, v any) {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		fail(w, err)
		return
	}
	write(w, "application/json", append(printable.JSON(text), '\n'))
}

// writeError answers with a text.
func writeError(w http.ResponseWriter, text string, code int) {
	http.Error(w, printable.Text(text, printable.Long), code)
}

// fail answers with an internal error.
func fail(w http.ResponseWriter, err error) {
	writeError(w, err.Error(), http.StatusInternalServerError)
}

// pieceRows is how many rows are described before turns go on.
const pieceRows = 500

func (p *Pages) registryz(w http.ResponseWriter, r *http.Request) {
	host := r.URL.Query().Get("host")
	var all iter.Seq2[mesh.ServiceKey, *mesh.Service]
	p.Graph.Store.Read(func(tx *table.Tx) {
		all = table.Snapshot(tx, p.Graph.Registry.Services, func(_ mesh.ServiceKey, s *mesh.Service) bool {
			return viewerOf(r).sees(s.Key.Namespace) && (host == "" || host == string(s.Key.Host))
		})
	})
	var services []*mesh.Service
	for _, s := range all {
		services = append(services, s)
	}
	shown := make([]page.ServiceInfo, 0, len(services))
	for piece := range slices.Chunk(services, pieceRows) {
		p.Graph.Store.Read(func(tx *table.Tx) {
			for _, s := range piece {
				info := serviceInfo(s, p.Graph.HasPrecedence(tx, s.Key), p.Graph.AutoVIP(tx, s))
				info.Object = p.Graph.WithPlace(tx, s.Origin)
				shown = append(shown, info)
			}
		})
	}
	writeJSON(w, shown)
}

func serviceInfo(s *mesh.Service, won bool, vip string) page.ServiceInfo {
	info := page.ServiceInfo{
		Hostname: s.Key.Host, Namespace: s.Key.Namespace, Registry: s.Key.Registry, Addresses: s.Addresses, AutoVIP: vip,
		Resolution: s.Resolution.String(), External: s.External, ExportTo: s.ExportTo, Won: won,
	}
	info.Ports = portInfos(s)
	info.Attributes = page.Attributes{
		ServiceRegistry: registryOf(s.Key.Registry), Name: s.Origin.Name, Namespace: s.Key.Namespace,
		ExportTo: map[string]struct{}{}, LabelSelectors: s.Selects.Map(),
	}
	for _, to := range s.ExportTo {
		info.Attributes.ExportTo[to] = struct{}{}
	}
	if len(s.Clusters) > 0 {
		info.VIPs.Addresses = map[string][]string{}
	}
	for _, c := range s.Clusters {
		info.VIPs.Addresses[c.Cluster] = c.Addresses
	}
	if len(s.Addresses) > 0 {
		info.DefaultAddress = s.Addresses[0]
	}
	if s.Created > 0 {
		info.CreationTime = instant(time.Unix(s.Created, 0))
	}
	return info
}

// registryOf returns Istio's word for a registry that Istio has too.
func registryOf(registry string) string {
	kind, _, _ := strings.Cut(registry, "/")
	switch kind {
	case "Kubernetes":
		return kind
	case string(config.ServiceEntry):
		return "External"
	}
	return registry
}

func portInfos(s *mesh.Service) (out []page.PortInfo) {
	for _, port := range s.Ports {
		out = append(out, page.PortInfo{Name: port.Name, Port: port.Number, Protocol: port.Protocol.String(), Target: port.Target})
	}
	return out
}

func endpointInfo(id string, e mesh.Endpoint) page.EndpointInfo {
	return page.EndpointInfo{
		ID:       id,
		Address:  e.Address,
		Ports:    string(e.Ports),
		Labels:   string(e.Labels),
		Locality: e.Locality.String(),
		Network:  e.Network,
		Weight:   e.Weight,
		Health:   e.Health.String(),
		Identity: e.Identity,
	}
}

func (p *Pages) endpointz(w http.ResponseWriter, r *http.Request) {
	var all iter.Seq2[mesh.EndpointKey, mesh.Endpoint]
	host := r.URL.Query().Get("host")
	p.Graph.Store.Read(func(tx *table.Tx) {
		all = table.Snapshot(tx, p.Graph.Registry.Endpoints, func(k mesh.EndpointKey, _ mesh.Endpoint) bool {
			return viewerOf(r).sees(k.Service.Namespace) && (host == "" || host == string(k.Service.Host))
		})
	})
	out := []page.ServiceEndpoints{}
	for k, e := range all {
		name := fmt.Sprintf("%s (%s/%s)", k.Service.Host, k.Service.Registry, k.Service.Namespace)
		if len(out) == 0 || out[len(out)-1].Service != name {
			out = append(out, page.ServiceEndpoints{Service: name})
		}
		last := &out[len(out)-1]
		last.Endpoints = append(last.Endpoints, endpointInfo(k.ID, e))
	}
	writeJSON(w, out)
}

// mostFields bounds how many fields one request of configz may name.
const mostFields = 100

// configz shows the objects in force, or some of them. If the request names fields, it shows the lines of these in the object's file.
func (p *Pages) configz(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	kind, namespace, name, fields := query.Get("kind"), query.Get("namespace"), query.Get("name"), query["field"]
	if len(fields) > mostFields {
		writeError(w, fmt.Sprintf("at most %d fields may be named", mostFields), http.StatusBadRequest)
		return
	}
	out := []page.ObjectInfo{}
	for _, o := range p.objects(query) {
		if kind != "" && !strings.EqualFold(kind, string(o.Kind)) || !viewerOf(r).sees(o.Namespace) ||
			name != "" && name != o.Name || namespace != "" && namespace != o.Namespace {
			continue
		}
		spec, err := o.SpecJSON()
		if err != nil {
			fail(w, fmt.Errorf("%s: %w", o.Key, err))
			return
		}
		info := page.ObjectInfo{
			Kind: string(o.Kind), Namespace: o.Namespace, Name: o.Name, File: o.Ref.File, Line: o.Ref.Line, Spec: json.RawMessage(spec),
		}
		if len(fields) > 0 && (name != "" || o.Kind == config.MeshConfig) {
			info.Lines = linesOf(o, fields)
		}
		out = append(out, info)
	}
	writeJSON(w, out)
}

// objects returns the objects in force that a query may mean: the one that it names, or all.
func (p *Pages) objects(query url.Values) []*config.Object {
	if query.Get("namespace") != "" && query.Get("name") != "" {
		if k, err := objectKey(query); err == nil && k.Name != "" {
			if o, ok := p.Graph.Find(k); ok {
				return []*config.Object{o}
			}
			return nil
		}
	}
	return p.Graph.Objects()
}

// linesOf returns the lines of an object's fields, as far as they are known.
func linesOf(o *config.Object, fields []string) map[string]int {
	lines, out := o.Written(), map[string]int{}
	for _, f := range fields {
		if n := lines.Line(f); n > 0 {
			out[f] = n
		}
	}
	return out
}

func (p *Pages) appliesz(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	out, err := p.Applies(r.Context(), query.Get("kind"), query.Get("namespace"), query.Get("name"), query.Get("after"))
	switch {
	case r.Context().Err() != nil:
		return
	case err != nil:
		writeError(w, err.Error(), http.StatusBadRequest)
		return
	}
	writeJSON(w, out)
}

// explained bounds how many reads and readers of a row are shown.
const explained = 1000

// tablez lists the tables, or the rows of one, or the inputs of one row and the rows that depend on it.
func (p *Pages) tablez(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	name := query.Get("table")
	if name == "" {
		out := []page.TableInfo{}
		for _, t := range p.Graph.Store.Tables() {
			out = append(out, page.TableInfo{Name: t.Name, Kind: string(t.Kind), Rows: t.Rows, Edges: t.Edges, Recomputed: t.Recomputed})
		}
		writeJSON(w, out)
		return
	}
	var render func(filter string) table.Listing
	var err error
	if key := query.Get("key"); key != "" {
		p.explain(w, name, key)
		return
	}
	p.Graph.Store.Read(func(tx *table.Tx) { render, err = p.Graph.Store.Copy(tx, name) })
	if err != nil {
		writeError(w, fmt.Sprintf("there is no table %q; /debug/tablez lists them", name), http.StatusNotFound)
		return
	}
	p.writeListing(w, render(query.Get("filter")), query.Get("format"))
}

// explain shows the inputs of the row with a printed key, and the rows that depend on it.
func (p *Pages) explain(w http.ResponseWriter, name, key string) {
	var out table.Explanation
	var known bool
	var err error
	p.Graph.Store.Read(func(tx *table.Tx) { out, known, err = p.Graph.Store.Explain(tx, name, key, explained) })
	switch {
	case err != nil:
		writeError(w, fmt.Sprintf("there is no table %q; /debug/tablez lists them", name), http.StatusNotFound)
	case !known:
		rows := "/debug/tablez?table=" + url.QueryEscape(name)
		writeError(w, fmt.Sprintf("table %q has no row %q; %s lists its rows", name, key, rows), http.StatusNotFound)
	default:
		writeJSON(w, out)
	}
}

func (p *Pages) writeListing(w http.ResponseWriter, listing table.Listing, format string) {
	switch format {
	case "json":
		writeJSON(w, page.Table{Name: listing.Table, Header: listing.Header, Rows: append([][]string{}, listing.Rows...)})
	case "", "text":
		for _, row := range listing.Rows {
			for i, cell := range row {
				row[i] = printable.Text(cell, printable.Long)
			}
		}
		var b strings.Builder
		if err := listing.Write(&b); err != nil {
			fail(w, err)
			return
		}
		writeText(w, b.String())
	default:
		writeError(w, fmt.Sprintf("format %q: want text or json", format), http.StatusBadRequest)
	}
}

func (p *Pages) problems(w http.ResponseWriter, r *http.Request) {
	least := r.URL.Query().Get("severity")
	order := []string{mesh.Info.String(), mesh.Warning.String(), mesh.Error.String()}
	if least != "" && !slices.Contains(order, least) {
		writeError(w, fmt.Sprintf("severity %q: want %s", least, strings.Join(order, ", ")), http.StatusBadRequest)
		return
	}
	out := []page.ProblemInfo{}
	is := func(name, value string) bool { want := r.URL.Query().Get(name); return want == "" || want == value }
	for _, problem := range p.Problems() {
		if o := problem.Object; !is("kind", o.Kind) || !is("namespace", o.Namespace) || !is("name", o.Name) {
			continue
		}
		if least != "" && slices.Index(order, problem.Severity.String()) < slices.Index(order, least) || !viewerOf(r).sees(owner(problem)) {
			continue
		}
		out = append(out, page.ProblemOf(problem))
	}
	writeJSON(w, out)
}

// owner returns the namespace of a problem's object; none for a table, whose Namespace field has another meaning.
func owner(problem mesh.Problem) string {
	if problem.Object.Kind == "table" {
		return ""
	}
	return problem.Object.Namespace
}
