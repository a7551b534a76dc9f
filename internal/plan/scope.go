package plan

import (
	"context"
	"errors"
	"fmt"
	"slices"

	securityv1beta1 "istio.io/api/security/v1beta1"

	"fairway/internal/compile"
	"fairway/internal/config"
	"fairway/internal/jwks"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
	"fairway/internal/trial"
)

// ErrForeign reports that a caller of one namespace tries an object of another one.
var ErrForeign = errors.New("an object of another namespace")

// scope is what a plan may be about: everything, or what callers of one namespace may see. Such a caller may try any object of its
// namespace, so a plan must tell it no more than what proxies of the namespace are sent and would be sent, and what its own documents say.
// In particular, nothing of the answer may depend on objects and proxies that these proxies do not see.
type scope struct{ namespace string }

// everything is the scope of callers that may see all.
var everything = scope{}

func (s scope) all() bool { return s == everything }

func (s scope) sees(namespace string) bool { return s.all() || namespace == s.namespace }

// proxies returns a function that selects the proxies in the scope; nil: all.
func (s scope) proxies(tx *table.Tx, g *compile.Graph) func(mesh.ProxyID) bool {
	if s.all() {
		return nil
	}
	return func(id mesh.ProxyID) bool {
		p, _ := table.Lookup(tx, g.In.Proxies.Table, id)
		return p.Namespace == s.namespace
	}
}

// aboutOwn are the codes of problems that depend only on the object itself and on what its namespace sees, for kinds of objects; an empty
// list means all kinds. Problems with other codes may depend on anything in the mesh, and their texts may name it.
var aboutOwn = map[string][]config.Kind{
	code.UnknownHost:   {config.VirtualService, config.Sidecar},
	code.UnknownPort:   {config.VirtualService, config.Sidecar},
	code.UnknownSubset: {config.VirtualService, config.Sidecar},
	code.NoPort:        {config.VirtualService},
	code.ManyRoutes:    {config.VirtualService},
	code.NotYet:        nil,
	code.BadProtocol:   nil,
	code.BadPort:       nil,
	code.NoCertificate: nil,
	code.Uncompiled:    nil,
	code.NotSupported:  nil,
}

// problems leaves out problems that are not in the scope.
func (s scope) problems(list []mesh.Problem, d *trial.Decoded) (out []mesh.Problem) {
	if s.all() {
		return list
	}
	type saying struct{ kind, namespace, name, field, code, message string }
	of := func(p mesh.Problem) saying {
		return saying{p.Object.Kind, p.Object.Namespace, p.Object.Name, p.Field, p.Code, p.Message}
	}
	written := map[saying]bool{} // problems of the documents alone
	for _, p := range d.Problems() {
		written[of(p)] = true
	}
	for _, p := range list {
		kinds, own := aboutOwn[p.Code]
		own = own && (kinds == nil || slices.Contains(kinds, config.Kind(p.Object.Kind))) && p.Other == (mesh.ObjectRef{})
		if p.Object.Namespace == s.namespace && p.Object.Kind != "table" && (own || written[of(p)]) {
			out = append(out, p)
		}
	}
	return out
}

// unknown returns a function that reports whether the keys of an issuer count as unknown, although the control plane may know them: the
// change names the issuer, and no policy of the namespace does. So callers cannot find out for which issuers others have policies.
func (s scope) unknown(tx *table.Tx, g *compile.Graph, d *trial.Decoded) func(jwks.Source) bool {
	if s.all() {
		return func(jwks.Source) bool { return false }
	}
	var own []*config.Object
	for k, o := range table.Each(tx, g.In.Enforced.Table) {
		if k.Namespace == s.namespace {
			own = append(own, o)
		}
	}
	return func(from jwks.Source) bool { return names(d.Objects(), from) && !names(own, from) }
}

// names reports whether a RequestAuthentication among objects has a rule for an issuer.
func names(objects []*config.Object, from jwks.Source) bool {
	for _, o := range objects {
		spec, is := o.Spec.(*securityv1beta1.RequestAuthentication)
		if is && slices.ContainsFunc(spec.GetJwtRules(), func(r *securityv1beta1.JWTRule) bool {
			return r.GetJwksUri() == from.URI && (from.URI != "" || r.GetIssuer() == from.Issuer)
		}) {
			return true
		}
	}
	return false
}

// PlanFor returns what a change of objects of one namespace would do for proxies of this namespace. It fails as Plan does, and with
// ErrForeign if an object is in another namespace.
func (p *Planner) PlanFor(ctx context.Context, namespace string, c trial.Changes) (*Plan, error) {
	d, err := p.trials.Decode(ctx, c)
	if err != nil {
		return nil, err
	}
	for _, p := range d.Problems() {
		if p.Object.Kind == "file" || p.Object.Name == "" {
			return nil, fmt.Errorf("a document does not say which object it is: %s", p)
		}
	}
	for _, k := range d.Keys() {
		if k.Namespace != namespace {
			return nil, fmt.Errorf("%w: %s; callers of namespace %s may plan objects of this namespace", ErrForeign, k, namespace)
		}
	}
	out, err := p.describe(ctx, d, scope{namespace})
	if errors.Is(err, trial.ErrTooLarge) { // how much it would make depends on others
		return nil, fmt.Errorf("%w: these objects would make too much", trial.ErrTooLarge)
	}
	return out, err
}
