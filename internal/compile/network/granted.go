package network

import (
	"cmp"
	"fmt"

	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
)

// declareGranted finds the services that the label makes gateways of networks. All clients of the mesh send their traffic for a network to
// its gateways, so only the namespaces that input.LeadsNetworks allows may have them.
func (t *Tables) declareGranted() {
	byNetwork := func(_ mesh.ServiceKey, s *mesh.Service) []string {
		if s.Network == "" {
			return nil
		}
		return []string{s.Network}
	}
	labelled := table.Group(t.reg.Services, "services/led networks", cmp.Compare[string], byNetwork)
	t.granted = table.Derive(labelled, "network gateways/granted", mesh.CompareServiceKey, (*mesh.Service).Equal,
		func(r *table.Reader, _ string, rows table.Rows[mesh.ServiceKey, *mesh.Service], emit func(mesh.ServiceKey, *mesh.Service)) {
			for k, s := range rows.All() {
				if t.in.LeadsNetworks(r, k.Namespace) {
					emit(k, s)
					continue
				}
				r.Note(mesh.Problem{
					Object: s.Origin, Field: "metadata.labels[" + Label + "]", Code: code.NotGranted, Severity: mesh.Error,
					Message: fmt.Sprintf("Services of namespace %s may not be gateways of a network: clients cannot enter network %s here",
						k.Namespace, s.Network),
					Fix: fmt.Sprintf("move the Service to namespace %s; or name it in MeshNetworks (registryServiceName), or add %s to "+
						"defaultConfig.proxyMetadata.%s", t.in.RootNamespace(r), k.Namespace, config.NetworkGatewayNamespacesKey),
				})
			}
		})
}
