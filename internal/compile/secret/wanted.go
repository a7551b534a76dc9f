package secret

import (
	"cmp"

	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/compile/demand"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// Ask says that the resources of a layer need a Secret or a ConfigMap.
type Ask struct {
	Layer  mesh.Layer
	Secret Key
	// Fallback says that a ConfigMap counts only if no Secret of its name holds authorities. Until that is known, it is not looked for.
	Fallback bool
}

func compareAsk(a, b Ask) int {
	if c := cmp.Or(mesh.CompareLayer(a.Layer, b.Layer), CompareKey(a.Secret, b.Secret)); c != 0 || a.Fallback == b.Fallback {
		return c
	}
	if b.Fallback {
		return -1
	}
	return 1
}

// ForCertificate lists the Secrets that may hold the certificate of a credential. namespace is the one whose Secrets may be named.
func ForCertificate(l mesh.Layer, namespace, credential string) []Ask {
	k, bad := locate(namespace, credential)
	if bad != (Missing{}) {
		return nil
	}
	if k.ConfigMap {
		return nil
	}
	return []Ask{{Layer: l, Secret: k}}
}

// ForAuthorities lists the objects that may hold a credential's authorities.
func ForAuthorities(l mesh.Layer, namespace, credential string) []Ask {
	k, bad := locate(namespace, credential)
	if bad != (Missing{}) {
		return nil
	}
	own, extra := places(k)
	if own == extra {
		return []Ask{{Layer: l, Secret: own}}
	}
	return []Ask{{Layer: l, Secret: own}, {Layer: l, Secret: extra}}
}

// ForTrusted are the objects that Trusted looks for.
func ForTrusted(l mesh.Layer, namespace, credential string) (out []Ask) {
	if all := apart(credential); all != nil {
		for _, name := range all {
			out = append(out, ForAuthorities(l, home(namespace, name), name)...)
		}
		return out
	}
	out = ForAuthorities(l, namespace, credential)
	if k, bad := locate(namespace, credential); bad == (Missing{}) && !k.ConfigMap {
		k.ConfigMap = true
		out = append(out, Ask{Layer: l, Secret: k, Fallback: true})
	}
	return out
}

// OfClient returns the parts of the credential that a client's settings need.
func OfClient(s *networking.ClientTLSSettings) (certificate, authorities bool) {
	named := s.GetCredentialName() != ""
	return named && s.GetMode() == networking.ClientTLSSettings_MUTUAL, named && !s.GetInsecureSkipVerify().GetValue()
}

// Requested indexes what rows of a table ask for.
func Requested[K comparable, V any](from *table.Table[K, V], name string, asks func(K, V) []Ask) *table.Table[Ask, struct{}] {
	return table.Keys(from, name+"/asked", compareAsk, asks)
}

// Wants are the Secrets and ConfigMaps that have to be read, from sources that read none without a request.
type Wants struct {
	// Wanted are the objects that are named by extensions, or by resources of layers with proxies that may have Secrets.
	Wanted *table.Table[Key, struct{}]
	// Waiting are the proxies with a layer that wants an object which has not been looked for yet. They are not sent anything, because it
	// would lack that object.
	Waiting *table.Table[mesh.ProxyID, struct{}]
}

// DeclareWants declares the wanted objects, from the requests of all features; also are Secrets that no proxy waits for.
func (t *Tables) DeclareWants(proxies *demand.Tables, also *table.Table[Key, struct{}], asked ...*table.Table[Ask, struct{}]) Wants {
	var parts []table.Part[Ask, struct{}]
	for _, a := range asked {
		parts = append(parts, table.Whole(a))
	}
	all := table.Derive(table.Union("secret/asked by all", compareAsk, table.Same[struct{}], nil, parts...), "secret/asked",
		compareAsk, table.Same[struct{}],
		func(r *table.Reader, a Ask, _ struct{}, emit func(Ask, struct{})) {
			if a.Fallback {
				secrets := a.Secret
				secrets.ConfigMap = false
				if why := t.believes(r, secrets); why == (Missing{}) || why.Unread {
					return
				}
			}
			for range t.views.In(r, a.Layer) { // some proxy may have Secrets
				emit(a, struct{}{})
				return
			}
		})
	var w Wants
	named := table.Keys(all, "secret/wanted by layers", CompareKey, func(a Ask, _ struct{}) []Key { return []Key{a.Secret} })
	w.Wanted = table.Union("secret/wanted", CompareKey, table.Same[struct{}], nil, table.Whole(named), table.Whole(also))
	open := table.Derive(all, "secret/not looked for", compareAsk, table.Same[struct{}],
		func(r *table.Reader, a Ask, _ struct{}, emit func(Ask, struct{})) {
			if !table.Has(r, t.Shapes, a.Secret) && t.unread(r, a.Secret) {
				emit(a, struct{}{})
			}
		})
	layers := table.Keys(open, "secret/layers not looked for", mesh.CompareLayer, func(a Ask, _ struct{}) []mesh.Layer {
		return []mesh.Layer{a.Layer}
	}).SkipInOrigins()
	w.Waiting = table.Derive(proxies.Placements, "secret/waiting", cmp.Compare[mesh.ProxyID], table.Same[struct{}],
		func(r *table.Reader, id mesh.ProxyID, p demand.Placement, emit func(mesh.ProxyID, struct{})) {
			for _, v := range byHolder.Of(p) {
				if table.Has(r, layers, v.Layer) {
					emit(id, struct{}{})
					return
				}
			}
		})
	return w
}

// unread reports whether objects are read on demand and this one has not been read yet.
func (t *Tables) unread(r *table.Reader, k Key) bool {
	return table.Has(r, t.OnDemand.Table, struct{}{}) && !table.Has(r, t.Read.Table, k)
}
