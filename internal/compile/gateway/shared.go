package gateway

import (
	"cmp"
	"fmt"
	"slices"

	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/config"
	"fairway/internal/envoy/tls"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
)

// shownBy is a certificate, by the name of its Secret or by its file, and who is selected to show it.
type shownBy struct {
	selector    mesh.Labels
	certificate string
}

func compareShownBy(a, b shownBy) int {
	return cmp.Or(cmp.Compare(a.selector, b.selector), cmp.Compare(a.certificate, b.certificate))
}

// certificatesOf lists the certificates that the servers of a Gateway show, each with the first server that shows it.
func certificatesOf(spec *networking.Gateway) map[string]int {
	out := map[string]int{}
	add := func(name string, i int) {
		if _, has := out[name]; !has && name != "" {
			out[name] = i
		}
	}
	for i, s := range spec.GetServers() {
		add(s.GetTls().GetCredentialName(), i)
		if len(tls.Credentials(s.GetTls())) == 0 {
			add(s.GetTls().GetServerCertificate(), i)
		}
		for _, name := range s.GetTls().GetCredentialNames() {
			add(name, i)
		}
	}
	return out
}

// declareShared notes Gateways with the same proxies and the same certificate as an older Gateway. HTTP/2 clients reuse a connection for
// every host of its certificate, and Envoy knows only the routes of one Gateway on it.
func (t *Tables) declareShared(gateways *table.Table[config.Key, *config.Object]) {
	by := table.Group(gateways, "gateway/by certificate", compareShownBy, func(_ config.Key, o *config.Object) (out []shownBy) {
		spec := config.Spec[*networking.Gateway](o)
		for name := range certificatesOf(spec) {
			out = append(out, shownBy{mesh.MakeLabels(spec.GetSelector()), name})
		}
		slices.SortFunc(out, compareShownBy)
		return out
	})
	table.Derive(by, "gateway/shared certificates", compareShownBy, table.Same[struct{}],
		func(r *table.Reader, k shownBy, rows table.Rows[config.Key, *config.Object], _ func(shownBy, struct{})) {
			if rows.Len() < 2 {
				return
			}
			var all []*config.Object
			for _, o := range rows.All() {
				all = append(all, o)
			}
			slices.SortFunc(all, config.Older)
			for _, o := range all[1:] {
				i := certificatesOf(config.Spec[*networking.Gateway](o))[k.certificate]
				r.Note(o.Problem(field(i)+".tls", code.SharedCertificate, mesh.Warning,
					fmt.Sprintf("the older Gateway %s/%s shows certificate %s too: a client that speaks HTTP/2 may send "+
						"requests for hosts of one over a connection to the other, which are answered 421: it then has to open another",
						all[0].Namespace, all[0].Name, k.certificate),
					"serve the hosts by one Gateway, or with certificates of their own"))
			}
		})
}
