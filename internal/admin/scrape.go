package admin

import (
	"cmp"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"fairway/internal/compile"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/printable"
	"fairway/internal/xds"
	"fairway/internal/xds/library"
	"fairway/internal/xdstype"
)

// Scrape says where state is read that is counted only when somebody scrapes, so that keeping count costs a change
// nothing. All fields are needed; any goroutine calls them.
type Scrape struct {
	Problems func() compile.Counts
	Streams  func() []xds.ProxyStatus
	Versions func() map[string]int // streams by what their proxies say that their version is
	Sources  func() map[string]int // sources by phase
	Graph    *compile.Graph
}

// Versions of proxies are theirs to choose: so many have a series at a time, those of most streams, each for as long as
// it has one, and no longer than that in bytes.
const (
	mostVersions = 32
	versionBytes = 64
)

// Other stands for all values of a label that strangers may choose and that are none of those that are known.
const Other = xdstype.Other

// boundVersions puts all versions that are too long, not printable or too many under Other.
func boundVersions(all map[string]int) map[string]int {
	kept := make([]string, 0, len(all))
	for v := range all {
		if v != Other && printable.Is(v, versionBytes) {
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
		out[Other] = others
	}
	return out
}

// byCode are Istio's gauges that count one kind of mistake: those that here are problems of one code.
var byCode = []struct{ name, code, help string }{
	{"pilot_vservice_dup_domain", code.HostTaken, "VirtualServices with a host that an older one routes."},
	{"pilot_destrule_subsets", code.SubsetTaken, "Subsets whose name an older DestinationRule of the host has."},
	{
		"pilot_conflict_outbound_listener_tcp_over_current_tcp",
		code.PortTaken,
		"Ports of services that cannot be told from those of an older service.",
	},
}

// Watch has the state counted at each scrape. It is called once, before anybody scrapes.
func (m *Metrics) Watch(s Scrape) {
	c := &collector{
		scrape:   s,
		problems: prometheus.NewDesc("fairway_problems", "Problems in force, by severity.", []string{"severity"}, nil),
		rejected: map[string]*prometheus.Desc{},
		mistakes: map[string]*prometheus.Desc{},
		versions: prometheus.NewDesc(
			"pilot_xds",
			"Number of proxies connected to this control plane over xDS, by version; versions that are rare or odd count as other.",
			[]string{"version"},
			nil,
		),
		sources: prometheus.NewDesc(
			"fairway_sources",
			"Sources of services and rules by phase: waiting for their first sync, late with it, synced, stale, gone.",
			[]string{"phase"},
			nil,
		),
		empty: prometheus.NewDesc(
			"pilot_eds_no_instances",
			"Services whose endpoints this control plane names, and that have none.",
			nil,
			nil,
		),
	}
	for _, t := range []string{"cds", "eds", "lds", "rds"} {
		c.rejected[t] = prometheus.NewDesc("pilot_xds_"+t+"_reject", "Proxies that refuse some of the "+t+" they were sent.", nil, nil)
	}
	for _, k := range byCode {
		c.mistakes[k.code] = prometheus.NewDesc(k.name, k.help, nil, nil)
	}
	m.Registry.MustRegister(c)
}

type collector struct {
	scrape   Scrape
	problems *prometheus.Desc
	versions *prometheus.Desc
	rejected map[string]*prometheus.Desc // by type's short name
	mistakes map[string]*prometheus.Desc // by problem's code
	empty    *prometheus.Desc
	sources  *prometheus.Desc
}

func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.problems
	ch <- c.versions
	ch <- c.empty
	ch <- c.sources
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
		gauge(d, problems.Codes[code])
	}
	for v, n := range boundVersions(c.scrape.Versions()) {
		gauge(c.versions, n, v)
	}
	rejects := countRejects(c.scrape.Streams())
	for t, d := range c.rejected {
		gauge(d, rejects[t])
	}
	gauge(c.empty, c.scrape.Graph.Unserved())
	for phase, n := range c.scrape.Sources() {
		gauge(c.sources, n, phase)
	}
}

// countRejects counts proxies by type of what they refuse. A type that is delivered in parts counts as the whole.
func countRejects(streams []xds.ProxyStatus) map[string]int {
	refusing := map[string]map[library.ProxyID]bool{}
	for _, s := range streams {
		for typ, t := range s.Types {
			if t.Rejected == "" {
				continue
			}
			label := xdstype.Counted(typ)
			if refusing[label] == nil {
				refusing[label] = map[library.ProxyID]bool{}
			}
			refusing[label][s.Proxy] = true
		}
	}
	counts := map[string]int{}
	for label, proxies := range refusing {
		counts[label] = len(proxies)
	}
	return counts
}
