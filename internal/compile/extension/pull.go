package extension

import (
	"fmt"

	extensions "istio.io/api/extensions/v1alpha1"

	"fairway/internal/compile/demand"
	"fairway/internal/compile/secret"
	"fairway/internal/config"
	"fairway/internal/envoy"
	"fairway/internal/envoy/extension"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
)

// This file gives agents the credentials that registries ask for (imagePullSecret). For proxies that may have the Secret, an order with it
// is on a shelf of its own above the order without. The agents of other proxies use the credentials of their machine.

// pulls are the tables of pull secrets.
type pulls struct {
	// named is the Secret of each extension that names one, of the extension's own namespace.
	named   *table.Table[config.Key, secret.Key]
	secrets *secret.Tables
	orders  *demand.Published
}

// pullSecret returns the Secret that an object names, and the field with the name; empty: it names none.
func pullSecret(o *config.Object) (name, field string) {
	if o.Kind == config.WasmPlugin {
		return config.Spec[*extensions.WasmPlugin](o).GetImagePullSecret(), "spec.imagePullSecret"
	}
	return config.Spec[*extensions.TrafficExtension](o).GetWasm().GetImagePullSecret(), "spec.wasm.imagePullSecret"
}

func (t *Tables) declareNamed() {
	t.pulls.named = table.Derive(t.objects, "extensions/pull secrets", config.CompareKey, table.Same[secret.Key],
		func(r *table.Reader, k config.Key, o *config.Object, emit func(config.Key, secret.Key)) {
			name, field := pullSecret(o)
			if name == "" {
				return
			}
			if e, ok := table.Get(r, t.read, k); !ok || e.Module == nil {
				return
			} else if e.Module.Registry() == "" {
				r.Note(o.Problem(field, code.Unused, mesh.Warning,
					"the Secret is for registries, and the module comes from none", "leave it out, or name an image by oci://"))
				return
			}
			emit(k, secret.Key{Namespace: o.Namespace, Name: name})
		})
}

// DeclarePulls declares the pull secrets that agents are sent, and returns the wanted Secrets. An extension's Secret is wanted if the
// extension holds for some proxy that may have Secrets and has an agent that fetches modules. It must be called before Lay.
func (t *Tables) DeclarePulls(proxies *demand.Tables, secrets *secret.Tables) *table.Table[secret.Key, struct{}] {
	t.pulls.secrets = secrets
	pulling := table.Keys(proxies.Placements, "extensions/pulling", config.CompareKey,
		func(_ mesh.ProxyID, p demand.Placement) []config.Key {
			modules, keys := keysOf(Holding.At(p))
			if !modules || demand.Identity.At(p) == (demand.Holder{}) {
				return nil
			}
			return keys
		}).SkipInOrigins()
	pulled := table.Derive(t.pulls.named, "extensions/pull secrets of some proxy", config.CompareKey, table.Same[secret.Key],
		func(r *table.Reader, k config.Key, s secret.Key, emit func(config.Key, secret.Key)) {
			if table.Has(r, pulling, k) {
				emit(k, s)
			}
		})
	wanted := table.Keys(pulled, "extensions/wanted secrets", secret.CompareKey,
		func(_ config.Key, s secret.Key) []secret.Key { return []secret.Key{s} })
	t.pulls.orders = table.Derive(t.pulls.named, "extension orders with secrets", mesh.CompareResourceKey, envoy.Same,
		func(r *table.Reader, k config.Key, s secret.Key, emit func(mesh.ResourceKey, *envoy.Encoded)) {
			e, ok := table.Get(r, t.read, k)
			if !ok || e.Module == nil {
				return
			}
			shown, why := t.shown(r, s, e.Module.Registry())
			if why == (secret.Missing{}) {
				emit(mesh.ResourceKey{Shelf: pullShelf(k), Name: e.Name}, e.Order(shown))
			} else if o, ok := table.Get(r, t.objects, k); ok && !why.Unread {
				_, field := pullSecret(o)
				r.Note(o.Problem(field, code.MissingSecret, mesh.Error,
					why.Message+": agents ask the registry with what their machine has", why.Fix))
			}
		})
	return wanted
}

// shown returns the part of a Secret that a registry is shown.
func (t *Tables) shown(r *table.Reader, s secret.Key, registry string) (string, secret.Missing) {
	config, why := t.pulls.secrets.Registries(r, s)
	if why != (secret.Missing{}) {
		return "", why
	}
	shown := extension.Shown(config, registry)
	if shown == "" {
		return "", secret.Missing{
			Message: fmt.Sprintf("Secret %s holds nothing for registry %s", s, registry), Fix: "add the registry to its auths",
		}
	}
	return shown, secret.Missing{}
}

func pullShelf(k config.Key) mesh.Shelf {
	s := shelf(k)
	s.Part += " with its secret"
	return s
}

// mayPull reports whether a proxy's agent is sent the pull secret of an extension.
func (t *Tables) mayPull(r *table.Reader, k config.Key, p demand.Placement) bool {
	s, named := table.Get(r, t.pulls.named, k)
	return named && t.pulls.secrets.MayHave(r, s, p.Layer.Namespace, demand.Identity.At(p))
}
