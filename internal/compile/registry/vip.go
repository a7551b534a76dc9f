package registry

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"

	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
)

// Addresses are given out of 240.240.0.0/16, a class E range that no network routes, in rounds. In each round, every service without an
// address falls into a slot of the round's own share of the range, by a hash of its name. If several share a slot, the oldest gets it and
// the others go to the next round. So an address depends only on the set of services, never on the order of their arrival, and a new
// service affects only services that share its slot.
const (
	firstShare = 1 << 15 // slots of the first round; each round has half of the one before
	rounds     = 7       // together exactly the 256 × 254 usable addresses
	perBlock   = 254     // usable addresses of a /24: neither .0 nor .255
)

// This compiles only if all rounds together have every usable address once.
var _ = [1]struct{}{}[2*firstShare-firstShare>>(rounds-1)-256*perBlock]

// claim is what decides which service gets a slot.
type claim struct {
	created int64
	object  string
	address string // once won
}

func (c claim) before(k HostKey, d claim, l HostKey) bool {
	return cmp.Or(cmp.Compare(c.created, d.created), cmp.Compare(k.Namespace, l.Namespace), cmp.Compare(c.object, d.object),
		cmp.Compare(k.Host, l.Host)) < 0
}

// wantsVIP reports whether a service needs an address, so that clients can tell it apart on a port that is not HTTP. A service with its own
// address does not need one, nor does a pool, which no sidecar sees. A service that is not resolved, or has a wildcard as its name, cannot
// have one. A cluster's service without an address has none on purpose.
func wantsVIP(s *mesh.Service) bool {
	return len(s.Addresses) == 0 && !s.Pool && s.Resolution != mesh.Passthrough && !s.Key.Host.IsWildcard() &&
		!strings.HasPrefix(s.Key.Registry, "Kubernetes")
}

func (t *Tables) declareVIPs() {
	same := table.Same[claim]
	wants := func(_ HostKey, m *Merged) bool { return wantsVIP(m.Service) }
	open := table.DeriveWhere(t.Merged, wants, "vip/wanted", CompareHostKey, same,
		func(_ *table.Reader, k HostKey, m *Merged, emit func(HostKey, claim)) {
			emit(k, claim{created: m.Service.Created, object: m.Service.Key.Object})
		})
	wanted := open
	var settled []*table.Table[HostKey, claim]
	offset, share := 0, firstShare
	for i := range rounds {
		name := "vip/round " + strconv.Itoa(i+1)
		open = round(open, name, offset, share)
		settled = append(settled, open)
		offset, share = offset+share, share/2
	}
	t.VIPs = table.Derive(wanted, "vips", CompareHostKey, table.Same[string],
		func(r *table.Reader, k HostKey, _ claim, emit func(HostKey, string)) {
			for _, s := range settled {
				if c, _ := table.Get(r, s, k); c.address != "" {
					emit(k, c.address)
					return
				}
			}
			m, _ := table.Get(r, t.Merged, k)
			r.Note(mesh.Problem{Object: originOf(m.Service), Field: "spec.addresses", Code: code.NoAddressLeft, Severity: mesh.Warning,
				Message: "the range for automatic addresses is full", Fix: "give the service an address"})
		})
}

// round gives each slot to the oldest service that falls into it; the others come out without an address.
func round(open *table.Table[HostKey, claim], name string, offset, share int) *table.Table[HostKey, claim] {
	slots := table.Group(open, name+" slots", cmp.Compare[int], func(k HostKey, c claim) []int {
		if c.address != "" {
			return nil
		}
		return []int{offset + slot(k, offset, share)}
	})
	return table.Derive(slots, name, CompareHostKey, table.Same[claim],
		func(_ *table.Reader, at int, rows table.Rows[HostKey, claim], emit func(HostKey, claim)) {
			winner, best, _ := rows.First()
			for k, c := range rows.All() {
				if c.before(k, best, winner) {
					winner, best = k, c
				}
			}
			for k, c := range rows.All() {
				if k == winner {
					c.address = address(at)
				}
				emit(k, c)
			}
		})
}

// slot returns a service's slot in a round. The offset is different in each round, so that each round has its own hash.
func slot(k HostKey, offset, share int) int {
	return int(xxhash.Sum64String(strconv.Itoa(offset)+"\x00"+string(k.Host)+"\x00"+k.Namespace) % uint64(share))
}

// address is the n-th usable address of the range.
func address(n int) string {
	return "240.240." + strconv.Itoa(n/perBlock) + "." + strconv.Itoa(n%perBlock+1)
}
