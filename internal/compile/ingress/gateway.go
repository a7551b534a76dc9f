package ingress

import (
	"strconv"

	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
)

// nameOf returns the name of the objects that are made from an Ingress. Users cannot write a name with such a character.
func nameOf(o *config.Object) string { return o.Name + "~ingress" }

// gateway makes the Gateway of an Ingress. Only rules of its namespace may claim its hosts.
func (m maker) gateway(r *table.Reader, o *config.Object) []*config.Object {
	spec := specOf(o)
	_, _, selector := m.in.Ingress(r)
	// Any host: a rule for any would claim each that is named here, beside those for that host.
	plain := &networking.Server{Port: &networking.Port{Number: 80, Protocol: "HTTP", Name: "http"}, Hosts: []string{"./*"}}
	made := &config.Made{Fields: []config.MadeOf{
		{Field: "spec", Of: "spec"}, {Field: "spec.selector", Of: "spec.ingressClassName"}, {Field: "spec.servers[0]", Of: "spec.rules"},
	}}
	out := &networking.Gateway{Selector: map[string]string{"istio": selector}, Servers: []*networking.Server{plain}}
	for i, t := range spec.TLS {
		field := index("spec.tls", i)
		if t.SecretName == "" {
			r.Note(o.Problem(field, code.NotSupported, mesh.Warning,
				"no Secret is named: gateways take these hosts in the clear alone", "set secretName"))
			continue
		}
		server := &networking.Server{
			Port: &networking.Port{Number: 443, Protocol: "HTTPS", Name: "https-" + strconv.Itoa(i)},
			Tls:  &networking.ServerTLSSettings{Mode: networking.ServerTLSSettings_SIMPLE, CredentialName: t.SecretName},
		}
		at := index("spec.servers", len(out.Servers))
		made.Fields = append(made.Fields,
			config.MadeOf{Field: at, Of: field},
			config.MadeOf{Field: at + ".tls", Of: field + ".secretName"},
			config.MadeOf{Field: at + ".hosts", Of: field + ".hosts"})
		for _, host := range t.Hosts {
			server.Hosts = append(server.Hosts, "./"+host)
		}
		if len(server.Hosts) == 0 {
			server.Hosts = []string{"./*"}
		}
		out.Servers = append(out.Servers, server)
	}
	key := config.Key{Kind: config.Gateway, Namespace: o.Namespace, Name: nameOf(o)}
	return []*config.Object{config.NewMade(key, o, out, made)}
}
