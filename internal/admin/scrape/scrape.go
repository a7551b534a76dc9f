// Package scrape has the metrics that are counted when Prometheus asks: state that others keep anyway, so that changes cost nothing
// for it. Each number is read from a counter or a cache; nothing here walks services, proxies or rows. It must not know pages.
// Start reading at State.
package scrape

import (
	"cmp"
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"fairway/internal/admin/bounded"
	"fairway/internal/compile"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/printable"
	"fairway/internal/source/platform"
	"fairway/internal/source/shards"
	"fairway/internal/xdstype"
)

// Gauges are the numbers of the tables.
type Gauges interface {
	Services() int
	VirtualServices() int
	Unserved() int // services that should have endpoints
	Reduced() int  // proxies with choices that do not count
}

// State holds functions that read state which is counted only at a scrape. All fields are required; any goroutine calls them.
type State struct {
	Problems func() compile.Counts
	Refusing func() map[string]int     // proxies that refuse some of their resources, by xdstype.Counted
	Versions func() map[string]int     // streams by the version of their proxies
	Sources  func() map[string]int     // sources by phase
	Stale    func() map[string]float64 // for how many seconds each source has been out of date; 0: it is up to date
	LeftOut  func() map[string]uint64  // how many things each source skips
	Clusters func() (own, others int)  // Kubernetes clusters that are read
	Phases   func() map[string]string  // of each of them, by its name: shards.Phase
	// Registries are what sources of registries count, by source; nil: there are none
	Registries func() map[string]platform.Stats
	Updates    func() map[string]uint64 // what sources handed over, by Istio's words for it: "config", "svc", "eds"
	Reduced    func() int               // proxies whose own traits do not count; the graph counts those whose choices do not
	Waiting    func() int               // objects that wait for what they refer to
	Questions  func() int               // questions that wait for others
	Graph      Gauges
}

// The metrics of registries.
const (
	registryObjects    = "fairway_registry_objects"
	registryReconnects = "fairway_registry_reconnects_total"
	registryLag        = "fairway_registry_lag_seconds"
	registryChange     = "fairway_registry_last_change_timestamp_seconds"
)

// collectRegistries counts registries; their number is bounded by the registries file.
func (c *collector) collectRegistries(ch chan<- prometheus.Metric) {
	if c.scrape.Registries == nil {
		return
	}
	for name, s := range c.scrape.Registries() {
		label, changed := printable.Text(name, printable.Long), 0.0
		if !s.LastChange.IsZero() {
			changed = float64(s.LastChange.UnixMilli()) / 1000
		}
		for _, m := range []struct {
			name  string
			kind  prometheus.ValueType
			value float64
		}{
			{registryObjects, prometheus.GaugeValue, float64(s.Objects)},
			{registryReconnects, prometheus.CounterValue, float64(s.Reconnects)},
			{registryLag, prometheus.GaugeValue, s.Lag.Seconds()},
			{registryChange, prometheus.GaugeValue, changed},
		} {
			ch <- prometheus.MustNewConstMetric(c.registries[m.name], m.kind, m.value, label)
		}
	}
}

// Proxies choose their versions: at most so many versions have a series at a time, those of most streams, each of at most so many bytes.
const (
	mostVersions = 32
	versionBytes = 64
)

// boundVersions counts all versions that are too long, not printable or too many under Other.
func boundVersions(all map[string]int) map[string]int {
	kept := make([]string, 0, len(all))
	for v := range all {
		if v != xdstype.Other && printable.Is(v, versionBytes) {
			kept = append(kept, v)
		}
	}
	slices.SortFunc(kept, func(a, b string) int { return cmp.Or(cmp.Compare(all[b], all[a]), cmp.Compare(a, b)) })
	kept = kept[:min(len(kept), mostVersions)]
	out, others := make(map[string]int, len(kept)+1), 0
	for _, n := range all {
		others += n
	}
	for _, v := range kept {
		out[v] = all[v]
		others -= all[v]
	}
	if others > 0 {
		out[xdstype.Other] = others
	}
	return out
}

// byCode are Istio's gauges that count one kind of mistake: here these are problems of one code.
var byCode = []struct{ name, code, help string }{
	{"pilot_vservice_dup_domain", code.HostTaken, "VirtualServices with a host that an older one routes."},
	{"pilot_destrule_subsets", code.SubsetTaken, "Subsets with a name that an older DestinationRule of the host uses."},
	{"pilot_duplicate_envoy_clusters", code.SameHost, "Hosts that an older object declares too."},
	{
		"pilot_dns_cluster_without_endpoints", code.NoEndpoints,
		"Services that have no endpoints and nothing that finds any.",
	},
	{
		"pilot_conflict_inbound_listener", code.ServicesDiffer,
		"Ports of workloads for which Services say different things.",
	},
	{
		"pilot_conflict_outbound_listener_tcp_over_current_tcp",
		code.PortTaken,
		"Ports of services that clash with a port of an older service.",
	},
}

// Register has the state counted at each scrape. It is called once, before the first scrape.
func Register(r prometheus.Registerer, s State) {
	c := &collector{
		scrape:   s,
		problems: prometheus.NewDesc("fairway_problems", "Problems in force, by severity.", []string{"severity"}, nil),
		byKind: prometheus.NewDesc("fairway_problems_by_code",
			"Problems in force, by code and severity; codes without problems are left out.",
			[]string{"code", "severity"}, nil),
		states: prometheus.NewDesc("istiod_remote_cluster_sync_status",
			"How far each Kubernetes cluster is: 1 at its state, synced, syncing, timeout or closed, and 0 at the others.",
			[]string{"cluster", "status"}, nil),
		rejected: map[string]*prometheus.Desc{},
		mistakes: map[string]*prometheus.Desc{},
		versions: prometheus.NewDesc("pilot_xds",
			"Number of proxies connected to this control plane over xDS, by version; versions that are rare or odd count as other.",
			[]string{"version"}, nil),
		clusters: prometheus.NewDesc(
			"istiod_managed_clusters", "Kubernetes clusters that are read: the own one, and others.", []string{"cluster_type"}, nil,
		),
		sources: prometheus.NewDesc("fairway_sources",
			"Sources of services and rules by phase: waiting for their first sync, late with it, synced, stale, gone.",
			[]string{"phase"}, nil),
	}
	c.stale = prometheus.NewDesc(
		"fairway_source_stale_seconds", "For how long a source has not been kept up to date; 0: it is.", []string{"source"}, nil,
	)
	c.leftOut = prometheus.NewDesc(
		"fairway_source_left_out", "Things of a source that are left out, because they are too many or too large.", []string{"source"}, nil,
	)
	c.registries = map[string]*prometheus.Desc{}
	for _, d := range []struct{ name, help string }{
		{registryObjects, "Services, or objects, that a registry has."},
		{registryReconnects, "How often a registry could be read again after it could not."},
		{registryLag, "Time from the registry's answer with the last change until the change was passed on."},
		{registryChange, "When a registry's last change was handed over, in seconds of Unix time; 0: never."},
	} {
		c.registries[d.name] = prometheus.NewDesc(d.name, d.help, []string{"source"}, nil)
	}
	for _, g := range []struct {
		name, help string
		read       func() int
	}{
		{"pilot_services", "Services known to this control plane.", s.Graph.Services},
		{"pilot_virt_services", "VirtualServices known to this control plane.", s.Graph.VirtualServices},
		{"pilot_eds_no_instances", "Services that should have endpoints from this control plane and have none.", s.Graph.Unserved},
		{
			"fairway_reduced_proxies",
			"Connected proxies that get the mesh's defaults, because those of their service account or address have too many variants.",
			func() int { return s.Reduced() + s.Graph.Reduced() },
		},
		{"fairway_waiting_objects", "Objects that wait for what they refer to.", s.Waiting},
		{"fairway_waiting_questions", "Questions that wait for others.", s.Questions},
	} {
		c.plain = append(c.plain, plain{prometheus.NewDesc(g.name, g.help, nil, nil), g.read})
	}
	c.updates = prometheus.NewDesc("pilot_inbound_updates", "Changes that sources handed over, by kind.", []string{"type"}, nil)
	for _, t := range []string{"cds", "eds", "lds", "rds"} {
		c.rejected[t] = prometheus.NewDesc("pilot_xds_"+t+"_reject", "Proxies that refuse some of the "+t+" they were sent.", nil, nil)
	}
	for _, k := range byCode {
		c.mistakes[k.code] = prometheus.NewDesc(k.name, k.help, nil, nil)
	}
	r.MustRegister(c)
}

// Words of Istio's for how far a cluster is.
const (
	stateSynced  = "synced"
	stateSyncing = "syncing"
	stateTimeout = "timeout"
	stateClosed  = "closed"
)

// stateOf returns Istio's word for a phase. A cluster that is not kept up to date counts as one that takes too long.
var stateOf = map[string]string{
	shards.Synced.String(): stateSynced, shards.Waiting.String(): stateSyncing, shards.Late.String(): stateTimeout,
	shards.Stale.String(): stateTimeout, shards.Gone.String(): stateClosed,
}

// collectClusters tells how far each cluster is.
func (c *collector) collectClusters(ch chan<- prometheus.Metric) {
	phases := c.scrape.Phases()
	for _, name := range bounded.First(slices.Collect(maps.Keys(phases))) {
		for _, state := range []string{stateSynced, stateSyncing, stateTimeout, stateClosed} {
			value := 0.0
			if stateOf[phases[name]] == state {
				value = 1
			}
			ch <- prometheus.MustNewConstMetric(c.states, prometheus.GaugeValue, value, name, state)
		}
	}
}

// plain is a gauge without labels.
type plain struct {
	desc *prometheus.Desc
	read func() int
}

type collector struct {
	scrape   State
	problems *prometheus.Desc
	byKind   *prometheus.Desc
	states   *prometheus.Desc // of clusters
	versions *prometheus.Desc
	rejected map[string]*prometheus.Desc // by type's short name
	mistakes map[string]*prometheus.Desc // by problem's code
	plain    []plain
	sources  *prometheus.Desc
	stale    *prometheus.Desc
	leftOut  *prometheus.Desc
	clusters *prometheus.Desc
	updates  *prometheus.Desc
	// registries are the metrics of each registry, by name.
	registries map[string]*prometheus.Desc
}

func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.problems
	ch <- c.byKind
	ch <- c.states
	ch <- c.versions
	for _, g := range c.plain {
		ch <- g.desc
	}
	ch <- c.sources
	ch <- c.stale
	ch <- c.leftOut
	ch <- c.clusters
	ch <- c.updates
	for _, d := range c.registries {
		ch <- d
	}
	for _, d := range c.rejected {
		ch <- d
	}
	for _, d := range c.mistakes {
		ch <- d
	}
}

func (c *collector) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, n int, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n), labels...)
	}
	problems := c.scrape.Problems()
	for _, s := range []mesh.Severity{mesh.Info, mesh.Warning, mesh.Error} {
		gauge(c.problems, problems.Severities[s], s.String())
	}
	for code, d := range c.mistakes {
		gauge(d, problems.Of(code))
	}
	for kind, n := range problems.Kinds {
		gauge(c.byKind, n, kind.Code, kind.Severity.String())
	}
	c.collectClusters(ch)
	for v, n := range boundVersions(c.scrape.Versions()) {
		gauge(c.versions, n, v)
	}
	rejects := c.scrape.Refusing()
	for t, d := range c.rejected {
		gauge(d, rejects[t])
	}
	for _, g := range c.plain {
		gauge(g.desc, g.read())
	}
	for phase, n := range c.scrape.Sources() {
		gauge(c.sources, n, phase)
	}
	for name, seconds := range c.scrape.Stale() {
		ch <- prometheus.MustNewConstMetric(c.stale, prometheus.GaugeValue, seconds, printable.Text(name, printable.Long))
	}
	for name, n := range c.scrape.LeftOut() {
		ch <- prometheus.MustNewConstMetric(c.leftOut, prometheus.GaugeValue, float64(n), printable.Text(name, printable.Long))
	}
	c.collectRegistries(ch)
	own, others := c.scrape.Clusters()
	gauge(c.clusters, own, "local")
	gauge(c.clusters, others, "remote")
	for kind, n := range c.scrape.Updates() {
		if n > 0 {
			ch <- prometheus.MustNewConstMetric(c.updates, prometheus.CounterValue, float64(n), kind)
		}
	}
}
