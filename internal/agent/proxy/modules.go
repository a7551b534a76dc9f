package proxy

import (
	"fairway/internal/agent/extensions"
	"fairway/internal/agent/settings"
	"fairway/internal/agent/token"
)

// newModules makes the part that fetches Wasm modules; nil if it is not configured.
func newModules(o settings.Options) *extensions.Set {
	if o.Extensions == nil {
		return nil
	}
	with := *o.Extensions
	with.Log, with.Token = o.Log, token.Token(o.Bootstrap.Token)
	return extensions.New(with)
}
