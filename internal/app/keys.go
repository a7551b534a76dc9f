package app

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"fairway/internal/app/environment"
	"fairway/internal/compile/input"
	"fairway/internal/jwks"
	"fairway/internal/jwks/fetch"
	"fairway/internal/table"
)

// readKeys reads how keys of issuers of requests' tokens are come by, from Istio's variables.
func readKeys(e *environment.Reader, opts *Options) {
	if by := e.Get("PILOT_JWT_ENABLE_REMOTE_JWKS"); by != "" {
		var err error
		opts.KeysBy, err = input.ParseKeysBy(by)
		e.Wrong("PILOT_JWT_ENABLE_REMOTE_JWKS", err)
	}
	e.Duration("PILOT_JWT_PUB_KEY_REFRESH_INTERVAL", &opts.KeysRefresh)
	if opts.KeysRefresh <= 0 {
		e.Wrong("PILOT_JWT_PUB_KEY_REFRESH_INTERVAL", errors.New("want a positive duration as 20m"))
	}
	e.Bool("JWKS_RESOLVER_INSECURE_SKIP_VERIFY", &opts.KeysInsecure)
	if list := e.Get("BLOCKED_CIDRS_IN_JWKS_URIS"); list != "" {
		opts.KeysBarred = nil
		for word := range strings.SplitSeq(list, ",") {
			p, err := netip.ParsePrefix(strings.TrimSpace(word))
			if err != nil {
				e.Wrong("BLOCKED_CIDRS_IN_JWKS_URIS", fmt.Errorf("%q is no network; want 10.0.0.0/8,fd00::/8", word))
				continue
			}
			opts.KeysBarred = append(opts.KeysBarred, p.Masked())
		}
	}
}

// newKeys makes who asks issuers for the keys that RequestAuthentications need.
func newKeys(d *Discovery) *fetch.Resolver {
	return fetch.New(fetch.Options{
		Client:  fetch.NewClient(fetch.ClientOptions{Barred: d.opts.KeysBarred, Insecure: d.opts.KeysInsecure}),
		Refresh: d.opts.KeysRefresh,
		Log:     d.log,
		Fetched: d.metrics.KeysFetched,
		Told: func(from jwks.Source, is jwks.Answer, has bool) {
			if has {
				d.graph.In.KeySets.Set(from, is)
			} else {
				d.graph.In.KeySets.Delete(from)
			}
		},
	})
}

// askForKeys passes on what a turn changed in whose keys are wanted. The loop calls it.
func (d *Discovery) askForKeys() {
	var more []fetch.Wanted
	var less []jwks.Source
	for c := range table.Changes(d.graph.Asked) {
		if c.Has {
			more = append(more, fetch.Wanted{From: c.Key, Share: c.New})
		} else {
			less = append(less, c.Key)
		}
	}
	if len(more)+len(less) > 0 {
		d.keys.Want(more, less)
	}
}
