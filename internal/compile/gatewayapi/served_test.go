package gatewayapi_test

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"fairway/internal/compile/compiletest"
	"fairway/internal/compile/secret"
	"fairway/internal/config"
	"fairway/internal/source"
	"fairway/internal/table"
)

// TestServedElsewhere: Secrets of a Gateway whose proxies are connected to another control plane are wanted, and its status says whether
// they exist. Until they have been looked for, it raises no alarm.
func TestServedElsewhere(t *testing.T) {
	w := compiletest.New(t)
	w.Secrets.OnDemand.Set(struct{}{}, struct{}{})
	w.Apply(`apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: shop, namespace: edge}
spec:
  gatewayClassName: fairway
  listeners:
  - {name: http, port: 80, protocol: HTTP}
  - {name: https, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: web}, {name: granted, namespace: certs}]}}
`)
	shop := config.Key{Kind: config.KubernetesGateway, Namespace: "edge", Name: "shop"}
	web := secret.Key{Namespace: "edge", Name: "web"}
	is := func(when string, resolved gatewayv1.ListenerConditionReason, wanted ...secret.Key) {
		t.Helper()
		w.Settle()
		w.Store.Read(func(tx *table.Tx) {
			var got []secret.Key
			for k := range table.All(tx, w.WantedSecrets) {
				got = append(got, k)
			}
			s, _ := table.Lookup(tx, w.GatewayAPI.Statuses, shop)
			c := meta.FindStatusCondition(s.Listeners[1].Conditions, string(gatewayv1.ListenerConditionResolvedRefs))
			if c.Reason != string(resolved) || !slices.Equal(got, wanted) {
				t.Errorf("%s: %s, wanted %v; want %s, %v", when, c.Reason, got, resolved, wanted)
			}
		})
	}
	is("no proxy serves it", gatewayv1.ListenerReasonRefNotPermitted)
	w.GatewayAPI.Elsewhere.Set("other", []config.Key{shop})
	is("another control plane has its proxies", gatewayv1.ListenerReasonRefNotPermitted, web)
	grant := `apiVersion: gateway.networking.k8s.io/v1
kind: ReferenceGrant
metadata: {name: edge, namespace: certs}
spec: {from: [{group: gateway.networking.k8s.io, kind: Gateway, namespace: edge}], to: [{group: "", kind: Secret}]}
`
	w.Apply(grant)
	granted := secret.Key{Namespace: "certs", Name: "granted"}
	is("both may be named", gatewayv1.ListenerReasonResolvedRefs, granted, web)
	put := func(k secret.Key) {
		w.In.Apply(source.Batch{Set: source.Rows{Objects: []*config.Object{{
			Key: k.Object(), Hash: 1, Credential: &config.Credential{Chain: []byte("chain")}, Stored: config.Stored{UID: "1"},
		}}}})
		w.Secrets.Read.Set(k, struct{}{})
	}
	put(web)
	w.Secrets.Read.Set(granted, struct{}{})
	is("one has been looked for in vain", gatewayv1.ListenerReasonInvalidCertificateRef, granted, web)
	put(granted)
	is("both exist", gatewayv1.ListenerReasonResolvedRefs, granted, web)
	w.GatewayAPI.Elsewhere.Delete("other")
	is("the other control plane is gone", gatewayv1.ListenerReasonResolvedRefs)
}

// TestAuthoritiesServedElsewhere: so it is with the ConfigMaps that clients are verified by.
func TestAuthoritiesServedElsewhere(t *testing.T) {
	w := compiletest.New(t)
	w.Secrets.OnDemand.Set(struct{}{}, struct{}{})
	w.Apply(`apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: shop, namespace: edge}
spec:
  gatewayClassName: fairway
  listeners: [{name: https, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: web}]}}]
  tls:
    frontend:
      default: {validation: {caCertificateRefs: [{group: "", kind: ConfigMap, name: a}, {group: "", kind: ConfigMap, name: b}]}}
`)
	shop := config.Key{Kind: config.KubernetesGateway, Namespace: "edge", Name: "shop"}
	a, b, web := secret.Key{Namespace: "edge", Name: "a", ConfigMap: true}, secret.Key{Namespace: "edge", Name: "b", ConfigMap: true},
		secret.Key{Namespace: "edge", Name: "web"}
	is := func(when string, accepted, resolved gatewayv1.ListenerConditionReason, wanted ...secret.Key) {
		t.Helper()
		w.Settle()
		w.Store.Read(func(tx *table.Tx) {
			var got []secret.Key
			for k := range table.All(tx, w.WantedSecrets) {
				got = append(got, k)
			}
			s, _ := table.Lookup(tx, w.GatewayAPI.Statuses, shop)
			all := s.Listeners[0].Conditions
			c := meta.FindStatusCondition(all, string(gatewayv1.ListenerConditionResolvedRefs))
			d := meta.FindStatusCondition(all, string(gatewayv1.ListenerConditionAccepted))
			if c.Reason != string(resolved) || d.Reason != string(accepted) || !slices.Equal(got, wanted) {
				t.Errorf("%s: %s, %s, wanted %v; want %s, %s, %v", when, d.Reason, c.Reason, got, accepted, resolved, wanted)
			}
		})
	}
	yes, ok := gatewayv1.ListenerReasonAccepted, gatewayv1.ListenerReasonResolvedRefs
	w.GatewayAPI.Elsewhere.Set("other", []config.Key{shop})
	is("nothing has been looked for", yes, ok, a, b, web)
	w.Secrets.Read.Set(a, struct{}{})
	is("one has been looked for in vain", yes, gatewayv1.ListenerReasonInvalidCACertificateRef, a, b, web)
	w.Secrets.Read.Set(b, struct{}{})
	is("both have been", gatewayv1.ListenerReasonNoValidCACertificate, gatewayv1.ListenerReasonInvalidCACertificateRef, a, b, web)
}
