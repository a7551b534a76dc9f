package cluster

import (
	"errors"
	"fmt"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/compile/demand"
	"fairway/internal/compile/input"
	"fairway/internal/compile/network"
	"fairway/internal/compile/peer"
	"fairway/internal/compile/registry"
	"fairway/internal/compile/secret"
	"fairway/internal/envoy"
	"fairway/internal/envoy/cluster"
	"fairway/internal/envoy/endpoint"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
)

// Published is a table of resources, ready to send.
type Published = demand.Published

func resource(shelf mesh.Shelf, name string) mesh.ResourceKey {
	return mesh.ResourceKey{Shelf: shelf, Name: name}
}

// declareLoads builds the load assignments that the targets of each layer select.
func declareLoads(name string, targets *table.Table[Key, *Target], assignments *table.Table[selection, *envoy.Encoded]) *Published {
	return table.Derive(targets, name, mesh.CompareResourceKey, envoy.Same,
		func(r *table.Reader, k Key, t *Target, emit func(mesh.ResourceKey, *envoy.Encoded)) {
			if !t.ownsLoad() {
				return
			}
			if load, ok := table.Get(r, assignments, t.selection(k.Cluster)); ok {
				emit(resource(mesh.Shelf{Layer: k.Layer}, k.Cluster.String()), load)
			}
		})
}

// declareClusters builds the clusters of the targets of each layer.
func declareClusters(name string, targets *table.Table[Key, *Target], b builder) *Published {
	return table.Derive(targets, name, mesh.CompareResourceKey, envoy.Same,
		func(r *table.Reader, k Key, t *Target, emit func(mesh.ResourceKey, *envoy.Encoded)) {
			for v, d := range b.variants(r, k.Layer) {
				var members []member
				if t.Discovery.Inline() {
					members = b.inline(r, t.selection(k.Cluster))
				}
				emit(resource(v.Shelf(), k.Cluster.String()), b.encode(r, k, t, *d, members))
			}
		})
}

// encode builds the cluster of a target. members are its endpoints if the cluster contains them.
func (b builder) encode(r *table.Reader, k Key, t *Target, d cluster.Defaults, members []member) *envoy.Encoded {
	o := b.outbound(r, k, t, d, members)
	enc := encode(o.Build())
	enc.Secrets, enc.Hides = o.Secrets(), without(enc.Err)
	if t.Discovery == cluster.Delivered && enc.Err == nil {
		enc.Load = k.Cluster.String()
	}
	if enc.Err != nil && !t.known(enc.Err) {
		r.Note(t.refused(k.Cluster, enc.Err))
	}
	return enc
}

// builder has what clusters and load assignments are made from besides their targets.
type builder struct {
	in       *input.Tables
	reg      *registry.Tables
	peers    *peer.Tables
	networks *network.Tables

	secrets *secret.Tables
	direct  *table.Table[selection, cluster.Direct] // see declareDirect

	defaults *defaultsTable
}

// outbound returns a target in the form that envoy/cluster takes.
func (b builder) outbound(r *table.Reader, k Key, t *Target, d cluster.Defaults, members []member) cluster.Outbound {
	if k.Cluster.BySNI {
		t = t.asItIs()
	}
	if t.Plain {
		d = asItIs(d)
	}
	o := cluster.Outbound{
		Key: k.Cluster, Service: t.Service, Port: t.Port, Policy: t.Policy, Rule: t.Rule,
		Credentials: t.delivers(k), Gateway: k.Layer.Kind == mesh.GatewayLayer, Discovery: t.Discovery, Defaults: d,
	}
	switch settings := t.Policy.TLS; {
	case t.Backend != nil:
		o.Certificate, o.NoCredential = t.Backend.Certificate, reason(t.Backend.Lacks)
	case o.Credentials && settings.GetCredentialName() != "":
		o.NoCredential = b.missing(r, k.Layer.Namespace, settings)
	}
	if d.Mutual && !t.Service.External {
		o.Identities = b.reg.Identities(r, t.Service)
	}
	if t.direct() {
		o.Direct, _ = table.Get(r, b.direct, t.selection(k.Cluster))
	}
	if t.Discovery.Inline() {
		load := endpoint.Load{Cluster: k.Cluster.String(), Port: t.Port, Form: endpoint.Named}
		for _, m := range members {
			load.Endpoints = append(load.Endpoints, m.Endpoint)
		}
		o.Load = load.Build()
	}
	return o
}

// delivers reports whether proxies of the target's layer are sent the Secrets that its rule names.
func (t *Target) delivers(k Key) bool { return k.Layer.Kind == mesh.GatewayLayer || t.Picks }

// asks lists the Secrets that a target's settings name.
func asks(k Key, t *Target) (out []secret.Ask) {
	if t.Backend != nil {
		return t.Backend.Asks(k.Layer)
	}
	settings := t.Policy.TLS
	if settings.GetCredentialName() == "" || !t.delivers(k) {
		return nil
	}
	certificate, authorities := secret.OfClient(settings)
	if certificate {
		out = secret.ForCertificate(k.Layer, k.Layer.Namespace, settings.GetCredentialName())
	}
	if authorities {
		out = append(out, secret.ForAuthorities(k.Layer, k.Layer.Namespace, settings.GetCredentialName())...)
	}
	return out
}

// missing returns why the credential that settings name cannot be delivered; nil: it can.
func (b builder) missing(r *table.Reader, namespace string, s *networking.ClientTLSSettings) error {
	var why secret.Missing
	certificate, authorities := secret.OfClient(s)
	if authorities {
		why = b.secrets.Authorities(r, namespace, s.GetCredentialName())
	}
	if certificate && why == (secret.Missing{}) {
		why = b.secrets.Certificate(r, namespace, s.GetCredentialName())
	}
	return reason(why)
}

// reason returns the error of a missing credential; nil: it is not missing.
func reason(why secret.Missing) error {
	if why == (secret.Missing{}) {
		return nil
	}
	return why
}

func encode(c *clusterv3.Cluster, err error) *envoy.Encoded {
	if err != nil {
		return &envoy.Encoded{Err: err}
	}
	return envoy.Encode(c)
}

// without reports whether an error leaves proxies without the cluster. Then the rule is right but needs something that is missing. Neither
// an older cluster, which may need less, nor the cluster that other proxies see takes its place. If the rule itself is wrong, the last good
// cluster stays. It also stays until a Secret that is named for the first time has been read.
func without(err error) bool {
	var why secret.Missing
	return errors.Is(err, cluster.ErrNoIdentity) || errors.As(err, &why) && !why.Unread
}

// known reports whether an error is noted elsewhere, once for all layers: by check.go, or by the room of BackendTLSPolicies.
func (t *Target) known(err error) bool {
	var why secret.Missing
	return errors.Is(err, cluster.ErrCredential) || t.Backend != nil && errors.As(err, &why)
}

// refused returns the problem of a cluster that breaks Envoy's own rules. It is a problem of the DestinationRule or the BackendTLSPolicy,
// if there is one.
func (t *Target) refused(key mesh.ClusterKey, err error) mesh.Problem {
	p := mesh.Problem{Object: t.Rule, Field: "spec.trafficPolicy", Code: code.Refused, Severity: mesh.Error,
		Message: fmt.Sprintf("proxies would refuse cluster %s, they keep what they have: %v", key, err)}
	if key.Subset != "" {
		p.Field = "spec.subsets"
	}
	var why secret.Missing
	if errors.As(err, &why) {
		p.Code, p.Fix = code.MissingSecret, why.Fix
		if key.Subset == "" {
			p.Field += ".tls.credentialName"
		}
		p.Message = fmt.Sprintf("%s: proxies get no cluster %s", why.Message, key)
	}
	if errors.Is(err, cluster.ErrNoIdentity) {
		p.Code, p.Severity = code.NoIdentity, mesh.Warning
		p.Message = fmt.Sprintf("a proxy that has no identity is connected: it gets no cluster %s, which asks for mutual TLS", key)
		p.Fix = "let its agent get certificates (pilot-agent's CA_ADDR and token)"
	}
	switch {
	case t.Backend != nil:
		p.Object, p.Field = t.Backend.Policy, "spec.validation"
	case t.Rule.Name == "":
		p.Object, p.Field = t.Service.Origin, ""
	}
	return p
}
