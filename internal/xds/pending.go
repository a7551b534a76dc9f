package xds

import (
	"net"
	"net/netip"
	"slices"
	"sync"

	"fairway/internal/limit"
)

// pending counts the streams that have not sent their first request yet, in all and by address. Only a limited number of streams of
// one address is read from at once; the others wait. If there are too many in all, the oldest stream of the address with the most
// is ended: a client that opens many silent streams ends its own. It is safe for concurrent use.
type pending struct {
	most  int // in all
	share int // read from at once, of one address

	mu    sync.Mutex
	total int
	by    map[netip.Prefix]*addressStreams
}

// addressStreams is the pending streams of one address, oldest first.
type addressStreams struct {
	reading []*pendingStream
	waiting []*pendingStream
}

// pendingStream is one pending stream.
type pendingStream struct {
	from    netip.Prefix
	mayRead chan struct{} // closed once its first request may be read
	evicted chan error    // gets the status when it is ended for another
}

func newPending(most, share int) *pending {
	return &pending{most: most, share: share, by: map[netip.Prefix]*addressStreams{}}
}

// enter takes a stream in, or refuses it.
func (p *pending) enter(from netip.Prefix) (*pendingStream, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	own := p.by[from]
	if own == nil {
		own = &addressStreams{}
	}
	if p.total >= p.most && !p.evictOldest(own.len()) {
		return nil, refuse(ReasonPending, errTooManyPending(p.most))
	}
	p.by[from] = own // which may have been emptied, and so forgotten
	p.total++
	a := &pendingStream{from: from, mayRead: make(chan struct{}), evicted: make(chan error, 1)}
	own.waiting = append(own.waiting, a)
	own.admit(p.share)
	return a, nil
}

// leave removes a stream, whether it is read from or waits; it may be gone already.
func (p *pending) leave(a *pendingStream) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.by[a.from]
	if c != nil && c.remove(a) {
		p.left(a.from, c)
	}
}

func (p *pending) left(from netip.Prefix, c *addressStreams) {
	p.total--
	c.admit(p.share)
	if c.len() == 0 {
		delete(p.by, from)
	}
}

// evictOldest ends the oldest stream of the address with most, if it has more than so many.
func (p *pending) evictOldest(than int) bool {
	var from netip.Prefix
	var largest *addressStreams
	for at, c := range p.by {
		if c.len() > than {
			from, largest, than = at, c, c.len()
		}
	}
	if largest == nil {
		return false
	}
	oldest := largest.reading[0]
	oldest.evicted <- refuse(ReasonPending, errTooManyPending(p.most))
	largest.remove(oldest)
	p.left(from, largest)
	return true
}

// len returns how many are pending now.
func (p *pending) len() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.total
}

func (c *addressStreams) len() int { return len(c.reading) + len(c.waiting) }

// admit lets waiting streams be read from, up to their share.
func (c *addressStreams) admit(share int) {
	for len(c.waiting) > 0 && len(c.reading) < share {
		close(c.waiting[0].mayRead)
		c.reading = append(c.reading, c.waiting[0])
		c.waiting = slices.Delete(c.waiting, 0, 1)
	}
}

func (c *addressStreams) remove(a *pendingStream) bool {
	for _, list := range []*[]*pendingStream{&c.reading, &c.waiting} {
		if at := slices.Index(*list, a); at >= 0 {
			*list = slices.Delete(*list, at, at+1)
			return true
		}
	}
	return false
}

// networkOf returns the network that a stream's address counts for; the zero Prefix is for addresses without one, as on a local
// socket.
func networkOf(peer net.Addr) netip.Prefix {
	at, err := netip.ParseAddrPort(peer.String())
	if err != nil {
		return netip.Prefix{}
	}
	return limit.Network(at.Addr())
}
