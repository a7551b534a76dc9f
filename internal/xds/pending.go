package xds

import (
	"net"
	"net/netip"
	"slices"
	"sync"

	"fairway/internal/limit"
)

// pending keeps account of the streams that have not said who they are: their number, and their share by address. Of
// one address only so many are listened to at once; the others wait for their turn. Where there are too many in all,
// the oldest of the address with most of them makes room: who opens many streams and says nothing keeps out nobody but
// himself. It is safe for concurrent use.
type pending struct {
	most  int // in all
	share int // listened to, of one address

	mu    sync.Mutex
	total int
	by    map[netip.Prefix]*crowd
}

// crowd is the pending streams of one address, oldest first.
type crowd struct {
	heard   []*arrival
	waiting []*arrival
}

// arrival is one pending stream.
type arrival struct {
	from netip.Prefix
	turn chan struct{} // closed once its first request may be read
	out  chan error    // gets the status when it has to make room
}

func newPending(most, share int) *pending {
	return &pending{most: most, share: share, by: map[netip.Prefix]*crowd{}}
}

// enter takes a stream in, or refuses it.
func (p *pending) enter(from netip.Prefix) (*arrival, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	own := p.by[from]
	if own == nil {
		own = &crowd{}
	}
	if p.total >= p.most && !p.makeRoom(own.len()) {
		return nil, refuse(ReasonPending, errTooManyPending(p.most))
	}
	p.by[from] = own // which may have been emptied, and so forgotten
	p.total++
	a := &arrival{from: from, turn: make(chan struct{}), out: make(chan error, 1)}
	own.waiting = append(own.waiting, a)
	own.admit(p.share)
	return a, nil
}

// leave takes a stream out, wherever it stands; it may be out already.
func (p *pending) leave(a *arrival) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.by[a.from]
	if c != nil && c.remove(a) {
		p.left(a.from, c)
	}
}

func (p *pending) left(from netip.Prefix, c *crowd) {
	p.total--
	c.admit(p.share)
	if c.len() == 0 {
		delete(p.by, from)
	}
}

// makeRoom ends the oldest stream of the address with most, if it has more than so many.
func (p *pending) makeRoom(than int) bool {
	var from netip.Prefix
	var largest *crowd
	for at, c := range p.by {
		if c.len() > than {
			from, largest, than = at, c, c.len()
		}
	}
	if largest == nil {
		return false
	}
	oldest := largest.heard[0]
	oldest.out <- refuse(ReasonPending, errTooManyPending(p.most))
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

func (c *crowd) len() int { return len(c.heard) + len(c.waiting) }

// admit has those who wait be heard, as far as their share goes.
func (c *crowd) admit(share int) {
	for len(c.waiting) > 0 && len(c.heard) < share {
		close(c.waiting[0].turn)
		c.heard = append(c.heard, c.waiting[0])
		c.waiting = slices.Delete(c.waiting, 0, 1)
	}
}

func (c *crowd) remove(a *arrival) bool {
	for _, list := range []*[]*arrival{&c.heard, &c.waiting} {
		if at := slices.Index(*list, a); at >= 0 {
			*list = slices.Delete(*list, at, at+1)
			return true
		}
	}
	return false
}

// networkOf is what a stream's address counts as; the zero Prefix is all that have none, as on a socket of this machine.
func networkOf(peer net.Addr) netip.Prefix {
	at, err := netip.ParseAddrPort(peer.String())
	if err != nil {
		return netip.Prefix{}
	}
	return limit.Network(at.Addr())
}
