package analyze

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
	typev1beta1 "istio.io/api/type/v1beta1"

	"fairway/internal/compile"
	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// mostProxies is how many proxies are worked out at most.
const mostProxies = 20_000

// perPod are labels that differ between pods of one set. Proxies that differ in nothing else are one.
func perPod() []string {
	return []string{
		"statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index", "batch.kubernetes.io/job-completion-index",
		"controller-uid", "batch.kubernetes.io/controller-uid", "job-name", "batch.kubernetes.io/job-name",
	}
}

// proxyKey is one proxy that would be connected: of workloads that differ in nothing else the first one's.
type proxyKey struct {
	router    bool
	namespace string
	labels    mesh.Labels
}

// fleet is the proxies that would be connected.
type fleet struct {
	root    string
	cluster string
	named   []proxyKey // in the order of discovery
	// namespaces are all namespaces that have an object.
	namespaces []string
	proxies    map[proxyKey]mesh.Proxy // by the properties that distinguish them
}

func (c *fleet) add(w proxyKey, name, addresses string) {
	if _, has := c.proxies[w]; has || len(c.proxies) >= mostProxies {
		return
	}
	ip, _, _ := strings.Cut(addresses, ",")
	if ip == "" {
		ip = nth(mostAddresses - 1 - len(c.proxies))
	}
	p := mesh.Proxy{
		Name: name, Namespace: w.namespace, IP: ip, IPs: cmp.Or(addresses, ip), Labels: w.labels, Cluster: c.cluster,
		DNSDomain: w.namespace + ".svc." + domain, Standing: mesh.Here, Mutual: true,
	}
	if w.router {
		p.Type = mesh.Router
	}
	p.ID = mesh.ProxyID(fmt.Sprintf("%s~%s~%s.%s~%s", p.Type, ip, name, w.namespace, p.DNSDomain))
	c.proxies[w] = p
	c.named = append(c.named, w)
}

// selector is an object's selection of proxies.
type selector struct {
	namespace string // where they are; empty: anywhere
	labels    mesh.Labels
	router    bool // they are gateways' proxies
	object    *config.Object
}

// known returns the proxies that would be connected: one beside each known workload.
func known(g *compile.Graph, root, cluster string) (*fleet, []selector) {
	c := &fleet{root: root, cluster: cluster, proxies: map[proxyKey]mesh.Proxy{}}
	var selectors []selector
	namespaces := map[string]bool{root: true}
	g.Store.Read(func(tx *table.Tx) {
		for k := range table.All(tx, g.In.Written.Table) {
			if k.Namespace != "" {
				namespaces[k.Namespace] = true
			}
		}
		for k := range table.All(tx, g.Registry.Services) {
			namespaces[k.Namespace] = true
		}
		for _, in := range []*table.Table[config.Key, *config.Object]{
			g.In.Gateways, g.In.Sidecars, g.In.DestinationRules, g.In.EnvoyFilters, g.In.AuthorizationPolicies,
			g.In.RequestAuthentications, g.In.PeerAuthentications, g.In.Telemetries, g.In.WasmPlugins,
			g.In.TrafficExtensions,
		} {
			for _, o := range table.All(tx, in) {
				if s, ok := c.selectorOf(o); ok {
					selectors = append(selectors, s)
				}
			}
		}
		for k, w := range table.All(tx, g.In.Workloads) {
			namespaces[k.Namespace] = true
			c.addWorkload(k.Name, k.Namespace, w.Labels.Map(), w.Addresses, selectors)
		}
		for k, o := range table.All(tx, g.In.WorkloadEntries) {
			spec := config.Spec[*networking.WorkloadEntry](o)
			c.addWorkload(k.Name, k.Namespace, spec.GetLabels(), spec.GetAddress(), selectors)
		}
		for k, o := range table.All(tx, g.In.WorkloadGroups) {
			c.addWorkload(k.Name, k.Namespace, config.Membership(o).GetLabels(), "", selectors)
		}
	})
	c.namespaces = slices.Sorted(maps.Keys(namespaces))
	return c, selectors
}

// addWorkload adds the proxy beside a workload: a gateway's proxy if a Gateway selects it.
func (c *fleet) addWorkload(name, namespace string, labels map[string]string, addresses string, selectors []selector) {
	labels = maps.Clone(labels)
	for _, one := range perPod() {
		delete(labels, one)
	}
	w := proxyKey{namespace: namespace, labels: mesh.MakeLabels(labels)}
	w.router = slices.ContainsFunc(selectors, func(s selector) bool {
		return s.router && s.labels != "" && w.labels.SelectedBy(s.labels)
	})
	c.add(w, name, addresses)
}

// selectorOf returns the labels by which an object selects proxies; false if it has no selector.
func (c *fleet) selectorOf(o *config.Object) (selector, bool) {
	s := selector{namespace: o.Namespace, object: o}
	if o.Namespace == c.root && o.Kind != config.Sidecar && o.Kind != config.DestinationRule {
		s.namespace = ""
	}
	labels := map[string]string{}
	switch spec := o.Spec.(type) {
	case *networking.Gateway:
		s.namespace, s.router, labels = "", true, spec.GetSelector()
		s.labels = mesh.MakeLabels(labels)
		return s, true
	case *networking.Sidecar:
		labels = spec.GetWorkloadSelector().GetLabels()
	case *networking.EnvoyFilter:
		labels = spec.GetWorkloadSelector().GetLabels()
	case *networking.DestinationRule:
		labels = spec.GetWorkloadSelector().GetMatchLabels()
	case interface {
		GetSelector() *typev1beta1.WorkloadSelector
	}:
		labels = spec.GetSelector().GetMatchLabels()
	}
	s.labels = mesh.MakeLabels(labels)
	return s, s.labels != ""
}

// addAssumed adds a sidecar in each namespace, and a proxy for each selector that matches no known one, so that the object is checked all
// the same. A gateway's proxy is put into the namespace that has most of the Secrets that its Gateways name.
func (c *fleet) addAssumed(selectors []selector, secrets func(namespace, name string) bool) {
	for _, n := range c.namespaces {
		c.add(proxyKey{namespace: n}, "any", "")
	}
	for i, s := range selectors {
		found := slices.ContainsFunc(c.named, func(w proxyKey) bool {
			return (s.namespace == "" || s.namespace == w.namespace) && (w.router || !s.router) && w.labels.SelectedBy(s.labels)
		})
		if found {
			continue
		}
		w := proxyKey{namespace: cmp.Or(s.namespace, c.root), labels: s.labels, router: s.router}
		if s.router {
			w.namespace = c.gatewayNamespace(s.labels, selectors[i:], secrets)
		}
		c.add(w, fmt.Sprintf("supposed-%d", i), "")
	}
}

// gatewayNamespace returns the namespace that has most of the Secrets that these Gateways name; if two have as many, the root namespace is
// preferred.
func (c *fleet) gatewayNamespace(labels mesh.Labels, selectors []selector, secrets func(namespace, name string) bool) string {
	best, most := c.root, 0
	count := func(namespace string) (n int) {
		for _, s := range selectors {
			spec, ok := s.object.Spec.(*networking.Gateway)
			if !ok || !labels.SelectedBy(s.labels) {
				continue
			}
			for _, server := range spec.GetServers() {
				for _, name := range append([]string{server.GetTls().GetCredentialName()}, server.GetTls().GetCredentialNames()...) {
					if name != "" && secrets(namespace, name) {
						n++
					}
				}
			}
		}
		return n
	}
	tried := map[string]bool{}
	for _, namespace := range append([]string{c.root}, namespacesOf(selectors)...) {
		if tried[namespace] {
			continue
		}
		tried[namespace] = true
		if n := count(namespace); n > most {
			best, most = namespace, n
		}
	}
	return best
}

func namespacesOf(selectors []selector) (out []string) {
	for _, s := range selectors {
		if s.router {
			out = append(out, s.object.Namespace)
		}
	}
	return out
}
