package mesh

// Picker is a service that chooses the endpoint of each request to a pool (the inference extension's Endpoint Picker Protocol). It is
// comparable; the zero Picker is none.
type Picker struct {
	Host Host
	Port uint32
	// Open says that any endpoint may serve a request while the picker fails.
	Open bool
}

// Cluster is the cluster of the picker.
func (p Picker) Cluster() ClusterKey { return ClusterKey{Host: p.Host, Port: p.Port} }
