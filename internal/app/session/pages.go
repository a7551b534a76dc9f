package session

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"fairway/internal/admin/page"
)

// Certificates returns the credential of each connected proxy, in order of proxy.
func (p *Register) Certificates() []page.ProxyCertificate {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := []page.ProxyCertificate{}
	for id, c := range p.all {
		if c.streams > 0 {
			line := c.shown.Page(id.Node(), time.Now())
			line.Namespace = c.proxy.Namespace
			out = append(out, line)
		}
	}
	slices.SortFunc(out, func(a, b page.ProxyCertificate) int { return cmp.Compare(a.ProxyID, b.ProxyID) })
	return out
}

// Versions counts streams by the version that their proxies report.
func (p *Register) Versions() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.streamsByVersion)
}
