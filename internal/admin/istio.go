package admin

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	"fairway/internal/admin/page"
	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/xdstype"
)

// istios are pages under the names that they have with Istio, for scripts that ask for these.
func (p *Pages) istios() []debugPage {
	return []debugPage{
		{"adsz", "the connected proxies, in the form of Istio's page", p.adsz, false},
		{"edsz", "the load assignments sent to a proxy: ?proxyID=; as resourcez?type=eds", p.ofType(xdstype.Loads), false},
		{"ecdsz", "the extensions sent to a proxy: ?proxyID=", p.ofType(xdstype.Extensions), false},
		{"endpointShardz", "the same as endpointz", p.endpointz, false},
		{"authorizationz", "the AuthorizationPolicies in force, as configz has them", p.ofKind(config.AuthorizationPolicy), false},
		{"telemetryz", "the Telemetries in force, as configz has them", p.ofKind(config.Telemetry), false},
		{"resourcesz", "the kinds of objects that are read", p.resourcesz, false},
		{"mesh", "the mesh configuration in force", p.mesh, true},
	}
}

// absent are pages of Istio's that there are not, and what to ask instead.
var absent = map[string]string{
	"ambientz":         "this mesh has no ambient mode; every workload has a proxy of its own",
	"cachez":           "no cache has to be emptied; /debug/tablez shows the rows that are kept, and what each was made from",
	"force_disconnect": "a proxy reconnects by itself when its Envoy or its agent restarts; /debug/syncz shows how far it is",
	"inject":           "templates and values are in the ConfigMap istio-sidecar-injector; pilotctl kube-inject shows what a pod gets",
	"instancesz":       "/debug/servicez shows hosts with their endpoints, /debug/workloadz what agents say of their applications",
	"krtz":             "/debug/tablez shows the tables, and with ?table=&key= what a row was made from",
	"mcsz":             "services of the Multi-Cluster Services API are not read; /debug/clusterz shows the clusters",
	"networkz":         "/debug/tablez?table=network%20gateways shows the gateways of networks",
	"push_status":      "/debug/problems shows the mistakes in rules, and /debug/historyz the resources that each turn sent",
	"pushcontext":      "/debug/tablez shows the tables that resources are made from",
	"sidecarz":         "/debug/resourcez shows what a proxy is sent, and pilotctl explain which Sidecar object narrows it",
}

// Absent returns these pages with their sentences.
func Absent() map[string]string { return maps.Clone(absent) }

// ofType shows the resources of one type that a proxy was sent.
func (p *Pages) ofType(t xdstype.Type) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if proxy, ok := p.proxy(w, r, r.URL.Query().Get("proxyID")); ok {
			p.showResources(w, r, proxy, []xdstype.Type{t})
		}
	}
}

// ofKind shows the objects of one kind.
func (p *Pages) ofKind(kind config.Kind) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		query.Set("kind", string(kind))
		of := r.Clone(r.Context())
		of.URL.RawQuery = query.Encode()
		p.configz(w, of)
	}
}

// mesh shows the mesh configuration as Istio's page does: the message alone.
func (p *Pages) mesh(w http.ResponseWriter, _ *http.Request) {
	for _, o := range p.Graph.Objects() {
		if o.Kind != config.MeshConfig {
			continue
		}
		text, err := protojson.Marshal(o.Spec)
		if err != nil {
			fail(w, err)
			return
		}
		write(w, "application/json", text)
		return
	}
	writeJSON(w, struct{}{}) // the defaults
}

// resourcesz lists the kinds of objects that are read.
func (p *Pages) resourcesz(w http.ResponseWriter, _ *http.Request) {
	out := []page.Kind{}
	groups := config.Groups()
	for _, k := range config.Kinds() {
		out = append(out, page.Kind{Group: groups[k], Kind: string(k)})
	}
	writeJSON(w, out)
}

// adsz shows each stream with what its proxy says of itself.
func (p *Pages) adsz(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Get("push") != "" {
		writeError(w, "nothing has to be pushed: each proxy is sent what changed, and what it lacks; "+
			"/debug/syncz shows whether it lacks something", http.StatusBadRequest)
		return
	}
	out := page.Connected{Clients: []page.Client{}}
	for _, s := range p.visibleIn(r) {
		id := mesh.ProxyID(s.Proxy)
		one := page.Client{
			ID: id.Node(), ConnectedAt: s.ConnectedAt.Truncate(time.Millisecond), Address: s.Peer, Watches: map[string][]string{},
		}
		if proxy, ok := p.Proxy(s.Proxy); ok {
			one.Labels = proxy.Labels.Map()
			one.Locality = proxy.Locality.String()
			one.Metadata = page.ClientMetadata{
				Namespace: proxy.Namespace, Cluster: proxy.Cluster, Network: proxy.Network, Version: proxy.Version,
			}
		}
		for url := range s.Types {
			one.Watches[url] = []string{}
		}
		out.Clients = append(out.Clients, one)
	}
	slices.SortStableFunc(out.Clients, func(a, b page.Client) int { return strings.Compare(a.ID, b.ID) })
	out.Total = len(out.Clients)
	writeJSON(w, out)
}
