package app

// versions counts streams by what their proxies say that their version is. It walks all proxies: for a scrape.
func (p *proxies) versions() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := map[string]int{}
	for _, c := range p.all {
		if c.streams > 0 {
			out[c.proxy.Version] += c.streams
		}
	}
	return out
}
