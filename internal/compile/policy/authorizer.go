package policy

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	securityv1beta1 "istio.io/api/security/v1beta1"

	"fairway/internal/config"
	"fairway/internal/envoy/authorization"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
)

// authorizer finds the service that authorizes what a set's policies of action CUSTOM match, and the cluster that leads to it. All of that
// is denied if the policies name several providers ("currently at most 1 extension provider is allowed per workload"), or one that does not
// exist.
func (t *Tables) authorizer(r *table.Reader, s Set) (out authorization.Authorizer, cluster mesh.ClusterKey) {
	var names []string
	var asking []config.Key
	for _, k := range s.Of(config.AuthorizationPolicy) {
		if c, ok := table.Get(r, t.authorizations, k); ok && c.Action == securityv1beta1.AuthorizationPolicy_CUSTOM {
			names, asking = append(names, c.Provider), append(asking, k)
		}
	}
	if len(asking) == 0 {
		return out, cluster
	}
	out, cluster, err := t.provider(r, names)
	if err == nil {
		return out, cluster
	}
	for _, k := range asking {
		if o, ok := table.Get(r, t.in.AuthorizationPolicies, k); ok {
			r.Note(o.Problem(
				"spec.provider.name", code.NoAuthorizer, mesh.Error, "there is no authorizer to ask, so requests that match the rules "+
					"are denied: "+err.Error(),
				"name one provider of MeshConfig.extensionProviders with a service that the mesh knows",
			))
		}
	}
	return authorization.Authorizer{}, mesh.ClusterKey{}
}

// provider makes the one authorizer that policies name.
func (t *Tables) provider(r *table.Reader, names []string) (none authorization.Authorizer, cluster mesh.ClusterKey, err error) {
	slices.Sort(names)
	if names = slices.Compact(names); len(names) > 1 {
		return none, cluster, fmt.Errorf("policies of one workload name several providers, %s", strings.Join(names, " and "))
	}
	p, ok := t.in.ExtensionProvider(r, names[0])
	if !ok {
		return none, cluster, fmt.Errorf("the mesh configuration has no extension provider %q", names[0])
	}
	service, port, ok := authorization.Service(p)
	if !ok {
		return none, cluster, fmt.Errorf("extension provider %q is not an authorizer", names[0])
	}
	namespace, host, ok := strings.Cut(service, "/")
	if !ok {
		namespace, host = "", service
	}
	if !t.serves(r, namespace, mesh.Host(host), port) {
		return none, cluster, fmt.Errorf("there is no service %s with port %d", service, port)
	}
	key := mesh.ClusterKey{Host: mesh.Host(host), Port: port}
	out, err := authorization.NewAuthorizer(p, key.String(), host)
	if err != nil {
		return none, cluster, errors.New("of provider " + names[0] + " " + err.Error())
	}
	return out, key, nil
}

// serves reports whether a host has a port in a declaration of a namespace, or of any if it is empty.
func (t *Tables) serves(r *table.Reader, namespace string, host mesh.Host, port uint32) bool {
	rows, _ := table.Get(r, t.reg.ServicesByHost, host)
	for k, m := range rows.All() {
		if namespace != "" && k.Namespace != namespace {
			continue
		}
		if slices.ContainsFunc(m.Service.Ports, func(p mesh.Port) bool { return p.Number == port }) {
			return true
		}
	}
	return false
}
