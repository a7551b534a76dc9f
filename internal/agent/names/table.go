package names

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"sync"

	nametable "fairway/internal/envoy/names"
)

// Table holds the names of the mesh. It may be used by any number of goroutines.
type Table struct {
	suffixes []string // of the workload's own domain, the longest first: shop.svc.cluster.local, svc.cluster.local, cluster.local

	mu     sync.RWMutex
	hosts  map[string][]record // by name, without a dot at the end, in lower case; by resource
	of     map[string][]string // resource → its names
	first  chan struct{}       // closed once anything was applied
	filled bool
}

// record holds the addresses that one resource gives a name.
type record struct {
	resource string
	v4, v6   []netip.Addr
}

// Resource is a name table of the control plane's (package envoy/names), encoded.
type Resource struct {
	Name string
	Body []byte
}

// NewTable returns an empty table for a workload of a DNS domain: shop.svc.cluster.local.
func NewTable(domain string) *Table {
	t := &Table{hosts: map[string][]record{}, of: map[string][]string{}, first: make(chan struct{})}
	for d := canonical(domain); d != ""; _, d, _ = strings.Cut(d, ".") {
		if strings.Contains(d, ".") { // no search list has a top-level domain alone
			t.suffixes = append(t.suffixes, d)
		}
	}
	return t
}

func canonical(name string) string { return strings.ToLower(strings.TrimSuffix(name, ".")) }

// Apply applies all changes, or none if one cannot be read.
func (t *Table) Apply(changed []Resource, removed []string) error {
	all := make([][]nametable.Entry, len(changed))
	for i, r := range changed {
		entries, err := nametable.Decode(r.Body)
		if err != nil {
			return fmt.Errorf("%q: %w", r.Name, err)
		}
		all[i] = entries
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, name := range removed {
		t.drop(name)
	}
	for i, r := range changed {
		t.drop(r.Name)
		for _, e := range all[i] {
			t.add(r.Name, e)
		}
	}
	if !t.filled {
		t.filled = true
		close(t.first)
	}
	return nil
}

func (t *Table) drop(resource string) {
	for _, host := range t.of[resource] {
		left := slices.DeleteFunc(t.hosts[host], func(r record) bool { return r.resource == resource })
		if len(left) == 0 {
			delete(t.hosts, host)
			continue
		}
		t.hosts[host] = left
	}
	delete(t.of, resource)
}

// add adds a name. Invalid addresses are skipped: the others still serve.
func (t *Table) add(resource string, e nametable.Entry) {
	host := canonical(e.Host)
	if host == "" {
		host = canonical(resource)
	}
	r := record{resource: resource}
	for _, text := range e.IPs {
		switch ip, err := netip.ParseAddr(text); {
		case err != nil:
		case ip.Unmap().Is4():
			r.v4 = append(r.v4, ip.Unmap())
		default:
			r.v6 = append(r.v6, ip)
		}
	}
	if len(r.v4)+len(r.v6) == 0 {
		return
	}
	all := append(t.hosts[host], r)
	slices.SortStableFunc(all, func(a, b record) int { return strings.Compare(a.resource, b.resource) })
	t.hosts[host] = all
	t.of[resource] = append(t.of[resource], host)
}

// found is a name of the mesh.
type found struct {
	alias  string // the full name of the name that was asked for; empty: it is full
	v4, v6 []netip.Addr
}

// lookup finds a name, which is canonical. search is the resolver's search list.
func (t *Table) lookup(name string, search []string) (found, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if r, ok := t.exact(name); ok {
		return r.found(""), true
	}
	if r, _, ok := t.short(name); ok {
		return r.found(""), true
	}
	bare := t.unexpanded(name, search)
	for _, b := range bare {
		if r, ok := t.exact(b); ok {
			return r.found(b), true
		}
		if r, full, ok := t.short(b); ok {
			return r.found(full), true
		}
	}
	if r, ok := t.wildcard(name); ok {
		return r.found(""), true
	}
	for _, b := range bare {
		if r, ok := t.wildcard(b); ok && strings.Contains(b, ".") {
			return r.found(b), true
		}
	}
	return found{}, false
}

func (t *Table) exact(name string) (record, bool) {
	if all := t.hosts[name]; len(all) > 0 {
		return all[0], true
	}
	return record{}, false
}

// short finds a service by the beginning of its name, and returns its full name.
func (t *Table) short(name string) (r record, full string, ok bool) {
	for _, suffix := range t.suffixes {
		full = name + "." + suffix
		if r, ok = t.exact(full); ok {
			return r, full, true
		}
	}
	return record{}, "", false
}

// unexpanded returns the names from before a search list was applied.
func (t *Table) unexpanded(name string, search []string) (out []string) {
	for _, list := range [][]string{search, t.suffixes} {
		for _, suffix := range list {
			if b, ok := strings.CutSuffix(name, "."+suffix); ok && b != "" && !slices.Contains(out, b) {
				out = append(out, b)
			}
		}
	}
	return out
}

// wildcard finds the most specific wildcard that covers a name.
func (t *Table) wildcard(name string) (record, bool) {
	for rest := name; rest != ""; {
		_, rest, _ = strings.Cut(rest, ".")
		pattern := "*." + rest
		if rest == "" {
			pattern = "*"
		}
		if r, ok := t.exact(pattern); ok {
			return r, true
		}
	}
	return record{}, false
}

func (r record) found(alias string) found {
	return found{alias: alias, v4: shuffled(r.v4), v6: shuffled(r.v6)}
}

// shuffled spreads clients that take the first address over all addresses.
func shuffled(list []netip.Addr) []netip.Addr {
	out := slices.Clone(list)
	rand.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

// Name is a name with its addresses, as Names lists them.
type Name struct {
	Host      string       `json:"host"`
	Addresses []netip.Addr `json:"addresses"`
}

// Names lists the names of the table, by host.
func (t *Table) Names() []Name {
	t.mu.RLock()
	defer t.mu.RUnlock()
	out := make([]Name, 0, len(t.hosts))
	for host, all := range t.hosts {
		out = append(out, Name{host, slices.Concat(all[0].v4, all[0].v6)})
	}
	slices.SortFunc(out, func(a, b Name) int { return strings.Compare(a.Host, b.Host) })
	return out
}
