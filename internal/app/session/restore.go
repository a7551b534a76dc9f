package session

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"fairway/internal/compile/input"
	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/printable"
)

// machine is a registered machine as it is kept between two starts.
type machine struct {
	Proxy     mesh.ProxyID `json:"proxy"`
	Namespace string       `json:"namespace"`
	Group     string       `json:"group"`
	Account   string       `json:"serviceAccount"`
	Address   string       `json:"address"`
	Network   string       `json:"network,omitempty"`
	Here      bool         `json:"here,omitempty"`
}

// format is the version of the text; another one is not read.
const format = 1

// kept is the content of the file.
type kept struct {
	Format   int       `json:"format"`
	Machines []machine `json:"machines"`
}

// Machines returns the registered machines as Restore reads them, and which version of them that is: it changes as they do.
func (p *Register) Machines() (text []byte, version uint64) {
	out := kept{Format: format, Machines: []machine{}}
	p.mu.Lock()
	for id, c := range p.all {
		if m := c.machine.Member; m.Standing == mesh.Proven {
			out.Machines = append(out.Machines, machine{id, m.Namespace, m.Group, m.Account, m.Address, m.Network, m.Here})
		}
	}
	version = p.registered
	p.mu.Unlock()
	slices.SortFunc(out.Machines, func(a, b machine) int { return cmp.Compare(a.Proxy, b.Proxy) })
	text, err := json.Marshal(out)
	if err != nil {
		panic(err) // strings always fit
	}
	return text, version
}

// Registered returns the version of the registered machines.
func (p *Register) Registered() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.registered
}

// Restore registers the machines of a text of Machines, until their proxies come back or Expire is called. It is called before any proxy
// connects. A text that is damaged is not read at all.
func (p *Register) Restore(text []byte) error {
	var read kept
	if err := json.Unmarshal(text, &read); err != nil {
		return err
	}
	if read.Format != format {
		return fmt.Errorf("format %d; want %d", read.Format, format)
	}
	for i, m := range read.Machines {
		if err := m.check(); err != nil {
			return fmt.Errorf("machines[%d]: %w", i, err)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range read.Machines {
		c := &connected{counted: owner{identity: m.Proxy.Identity()}, proxy: mesh.Proxy{ID: m.Proxy}}
		if p.all[m.Proxy] != nil || p.count(c.counted) != nil {
			continue
		}
		p.connectedCount++
		c.since = p.connectedCount
		p.all[m.Proxy] = c
		p.register(c, input.Member{
			Member:   config.Member{Namespace: m.Namespace, Group: m.Group, Account: m.Account, Address: m.Address, Network: m.Network},
			Standing: mesh.Proven,
			Here:     m.Here,
		})
		p.restored = append(p.restored, m.Proxy)
	}
	return nil
}

// check returns an error for a machine that no proxy can have registered.
func (m machine) check() error {
	if m.Proxy.Identity() != m.Namespace+"/"+m.Account {
		return fmt.Errorf("proxy %q is not of service account %s/%s", m.Proxy, m.Namespace, m.Account)
	}
	if _, err := netip.ParseAddr(m.Address); err != nil {
		return err
	}
	for _, s := range [...]string{m.Namespace, m.Group, m.Account, m.Network} {
		if s != "" && !printable.Is(s, longestName) {
			return fmt.Errorf("%q is not a name", s)
		}
	}
	return nil
}

// Expire starts the grace period of restored machines with a proxy that has not reconnected.
func (p *Register) Expire() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, id := range p.restored {
		if c := p.all[id]; c != nil && c.streams == 0 && c.leaves.IsZero() {
			p.leave(c)
			c.leaves = time.Now().Add(p.linger(c))
			p.schedule(c)
		}
	}
	p.restored = nil
}
