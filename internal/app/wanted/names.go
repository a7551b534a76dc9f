package wanted

import (
	"log/slog"

	"fairway/internal/app/lookup"
	"fairway/internal/compile/input"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// NewNames returns the resolver of the names of east-west gateways, which stages their addresses on in. servers are the name servers, nil:
// those of this machine.
func NewNames(
	in *table.Input[mesh.Host, input.Resolved], servers func() ([]string, error), log *slog.Logger,
) *lookup.Resolver {
	return lookup.New(lookup.Options{
		Servers: servers,
		Log:     log,
		OnAnswer: func(host string, is lookup.Answer, has bool) {
			if has {
				in.Set(mesh.Host(host), input.Resolved(is))
			} else {
				in.Delete(mesh.Host(host))
			}
		},
	})
}

// Names passes on the turn's changes of wanted gateways' names. A nil resolver resolves none.
func Names(of *table.Table[mesh.Host, struct{}], r *lookup.Resolver) {
	if r == nil {
		return
	}
	var more []lookup.Wanted
	var less []string
	for c := range table.Changes(of) {
		if c.Has {
			more = append(more, lookup.Wanted{Key: string(c.Key)})
		} else {
			less = append(less, string(c.Key))
		}
	}
	r.Want(more, less)
}

// NamesAnswered reports whether every wanted name has an answer, even if the answer is that it has no address: then unanswered is empty. A
// control plane that has just started sends proxies nothing before, because they would bypass the gateways.
func NamesAnswered(s *table.Store, unanswered *table.Table[mesh.Host, struct{}]) (all bool) {
	s.Read(func(tx *table.Tx) { all = table.Len(tx, unanswered) == 0 })
	return all
}
