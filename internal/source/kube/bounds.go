package kube

import (
	"hash/maphash"
	"log/slog"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fairway/internal/mesh"
	"fairway/internal/source/budget"
	"fairway/internal/source/kube/rows"
)

// maxRemoteObjects is how many objects of one kind of another cluster are read.
const maxRemoteObjects = 200_000

// RemoteMiB is how many MiB of memory the state of another cluster may take unless options say otherwise.
const RemoteMiB = 128

// RemoteBounds returns the bounds of another cluster for so many MiB of memory: the number of things, endpoints and ports grows with it.
func RemoteBounds(mib int) budget.Bounds {
	b, n := budget.Default(), int64(max(1, mib))
	share := func(of int) int { return int(max(1, int64(of)*n/RemoteMiB)) }
	return budget.Bounds{Bytes: n << 20, Things: share(b.Things), Endpoints: share(b.Endpoints), Ports: share(b.Ports)}
}

// ownBounds returns the bounds of the cluster that the control plane is for. Its API server has bounds of its own.
func ownBounds() budget.Bounds {
	return budget.Bounds{Bytes: 4 << 30, Things: 3_000_000, Endpoints: 2_000_000, Ports: 2_000_000}
}

// Refusals that are remembered of one kind.
const (
	remoteRefusals = 1000
	ownRefusals    = 20_000
)

func newRefusals(k kind, o Options) *budget.Refusals {
	most := ownRefusals
	if o.Remote {
		most = remoteRefusals
	}
	return budget.NewRefusals(k.name+" of cluster "+o.Cluster, most)
}

// key returns an object's key in the ledger of its part.
func (f *feed) key(o metav1.Object) uint64 {
	return maphash.Comparable(f.o.seed, rows.ID{Namespace: o.GetNamespace(), Name: o.GetName()})
}

// left returns how many objects were left out, because there was no room for them.
func (f *feed) left() (n int) {
	for _, p := range f.parts {
		n += p.costs.Left()
	}
	return n
}

// report reports things of the cluster that are left out, and the kind's problems, if they changed.
func (f *feed) report() {
	f.out.report(f.o.account, f.log)
	if list, changed := f.refused.Problem(); changed {
		f.out.put(nil, map[string][]mesh.Problem{f.title() + " refusals": list})
	}
}

// report reports things that an account leaves out, if they changed.
func (b *outbox) report(account *budget.Account, log *slog.Logger) {
	b.change(func() {
		list, changed := account.Problem()
		if !changed {
			return
		}
		if b.next.Problems == nil {
			b.next.Problems = map[string][]mesh.Problem{}
		}
		b.next.Problems[placeBudget] = list
		left := account.Left()
		b.next.LeftOut = &left
		for _, p := range list {
			log.Warn(p.Message)
		}
	})
}

// placeBudget is the place of the problem that a part of the cluster is left out.
const placeBudget = " budget"
