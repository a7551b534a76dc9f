package wanted

import (
	"fairway/internal/jwks"
	"fairway/internal/jwks/fetch"
	"fairway/internal/table"
)

// NewKeys returns the resolver that asks issuers for the keys that RequestAuthentications need, and stages them on in.
func NewKeys(in *table.Input[jwks.Source, jwks.Answer], o fetch.Options) *fetch.Resolver {
	o.OnAnswer = func(from jwks.Source, is jwks.Answer, has bool) {
		if has {
			in.Set(from, is)
		} else {
			in.Delete(from)
		}
	}
	return fetch.New(o)
}

// Keys passes on the turn's changes of wanted issuers' keys.
func Keys(of *table.Table[jwks.Source, string], r *fetch.Resolver) {
	var more []fetch.Wanted
	var less []jwks.Source
	for c := range table.Changes(of) {
		if c.Has {
			more = append(more, fetch.Wanted{Key: c.Key, Share: c.New})
		} else {
			less = append(less, c.Key)
		}
	}
	r.Want(more, less)
}
