package tls_test

import (
	"slices"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"fairway/internal/envoy"
	"fairway/internal/envoy/tls"
)

func expect(t *testing.T, socket *corev3.TransportSocket, want envoy.Message, text string) {
	t.Helper()
	if err := socket.ValidateAll(); err != nil {
		t.Error(err)
	}
	if err := protojson.Unmarshal([]byte(text), want); err != nil {
		t.Fatal(err)
	}
	got := proto.Clone(want).(envoy.Message)
	if err := socket.GetTypedConfig().UnmarshalTo(got); err != nil {
		t.Fatal(err)
	}
	if err := got.ValidateAll(); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestClient(t *testing.T) {
	expect(t, tls.Client{}.Socket(), &tlsv3.UpstreamTlsContext{}, `{"common_tls_context":{}}`)
	expect(t, tls.Client{
		Pair: tls.Pair{Certificate: "/c", Key: "/k"}, SNI: "db", ALPN: []string{"h2"},
		Trust: tls.Trust{CA: "/ca", CRL: "/crl", Names: []string{"spiffe://td/ns/a/sa/b", "*.example.com", "::1", "a@b.c"}},
	}.Socket(), &tlsv3.UpstreamTlsContext{}, `{"sni":"db","common_tls_context":{"alpn_protocols":["h2"],
		"tls_certificates":[{"certificate_chain":{"filename":"/c"},"private_key":{"filename":"/k"}}],
		"validation_context":{"trusted_ca":{"filename":"/ca"},"crl":{"filename":"/crl"},"match_typed_subject_alt_names":[
			{"san_type":"URI","matcher":{"exact":"spiffe://td/ns/a/sa/b"}},{"san_type":"DNS","matcher":{"exact":"*.example.com"}},
			{"san_type":"IP_ADDRESS","matcher":{"exact":"::1"}},{"san_type":"EMAIL","matcher":{"exact":"a@b.c"}}]}}}`)
}

// TestSystem: the agent supplies the authorities that the machine trusts, and a cluster does not wait forever for an agent that has none.
func TestSystem(t *testing.T) {
	expect(
		t,
		tls.Client{Trust: tls.Trust{System: true, CRL: "/crl", Names: []string{"a.test"}}}.Socket(),
		&tlsv3.UpstreamTlsContext{},
		`{"common_tls_context":{"combined_validation_context":{
		"default_validation_context":{"crl":{"filename":"/crl"},"match_typed_subject_alt_names":[{"san_type":"DNS","matcher":{"exact":"a.test"}}]},
		"validation_context_sds_secret_config":{"name":"file-root:system","sds_config":{"resource_api_version":"V3","api_config_source":{"api_type":"GRPC","transport_api_version":"V3",
			"set_node_on_first_message_only":true,"grpc_services":[{"envoy_grpc":{"cluster_name":"sds-grpc"}}]}}}}}}`,
	)
}

// TestMeshServer: servers use the mesh's settings for its own mutual TLS.
func TestMeshServer(t *testing.T) {
	parameters := func(m tls.Mesh) *tlsv3.TlsParameters {
		var out tlsv3.DownstreamTlsContext
		if err := tls.MeshServer([]string{"td"}, nil, m).GetTypedConfig().UnmarshalTo(&out); err != nil {
			t.Fatal(err)
		}
		return out.GetCommonTlsContext().GetTlsParams()
	}
	usual := parameters(tls.Mesh{})
	if usual.GetTlsMinimumProtocolVersion() != tlsv3.TlsParameters_TLSv1_2 || len(usual.GetCipherSuites()) > 0 {
		t.Errorf("by default %v", usual)
	}
	narrow := parameters(tls.Mesh{From13: true, Ciphers: []string{"AES128-SHA"}})
	if narrow.GetTlsMinimumProtocolVersion() != tlsv3.TlsParameters_TLSv1_3 ||
		!slices.Equal(narrow.GetCipherSuites(), []string{"AES128-SHA"}) {
		t.Errorf("narrowed %v", narrow)
	}
	if tls.KnownCipher("NULL-SHA") || !tls.KnownCipher("ECDHE-RSA-AES128-GCM-SHA256") {
		t.Error("which cipher suites are known")
	}
}

// TestServerDefaults: the mesh's settings apply where a server has none, each setting by itself.
func TestServerDefaults(t *testing.T) {
	const v12, v13 = tlsv3.TlsParameters_TLSv1_2, tlsv3.TlsParameters_TLSv1_3
	for _, c := range []struct {
		server tls.Server
		want   string
	}{
		{tls.Server{}, `{}`},
		{tls.Server{Defaults: tls.Defaults{From13: true}}, `{"tls_params":{"tls_minimum_protocol_version":"TLSv1_3"}}`},
		{tls.Server{Min: v12, Defaults: tls.Defaults{From13: true}}, `{"tls_params":{"tls_minimum_protocol_version":"TLSv1_2"}}`},
		{tls.Server{Max: v12, Defaults: tls.Defaults{From13: true}}, `{"tls_params":{"tls_maximum_protocol_version":"TLSv1_2"}}`},
		{
			tls.Server{Max: v13, Defaults: tls.Defaults{From13: true}},
			`{"tls_params":{"tls_minimum_protocol_version":"TLSv1_3","tls_maximum_protocol_version":"TLSv1_3"}}`,
		},
		{
			tls.Server{Ciphers: []string{"own"}, Defaults: tls.Defaults{Ciphers: []string{"mesh"}, Curves: []string{"P-384"}}},
			`{"tls_params":{"cipher_suites":["own"],"ecdh_curves":["P-384"]}}`,
		},
	} {
		want := `{"require_client_certificate":false,"common_tls_context":` + c.want + `}`
		expect(t, c.server.Socket(), &tlsv3.DownstreamTlsContext{}, want)
	}
}

func TestServer(t *testing.T) {
	expect(
		t,
		tls.Server{Pairs: []tls.Pair{{Certificate: "/c", Key: "/k"}}}.Socket(),
		&tlsv3.DownstreamTlsContext{},
		`{"require_client_certificate":false,"common_tls_context":{"tls_certificates":[{"certificate_chain":{"filename":"/c"},"private_key":{"filename":"/k"}}]}}`,
	)
	expect(t, tls.Server{
		Pairs:   []tls.Pair{{Certificate: "/c", Key: "/k"}},
		Require: true,
		ALPN:    []string{"h2", "http/1.1"},
		Min:     tlsv3.TlsParameters_TLSv1_2,
		Max:     tlsv3.TlsParameters_TLSv1_3,
		Ciphers: []string{"ECDHE-RSA-AES128-GCM-SHA256"},
		Trust: tls.Trust{
			CA:     "/ca",
			SPKI:   []string{"NvqYIYSbgK2vCJpQhObf77vv+bQWtc5ek5RIOwPiC9A="},
			Hashes: []string{"df6ff72fe9116521268f6f2dd4966f51df479883fe7037b39f75916ac3049d1a"},
		},
	}.Socket(), &tlsv3.DownstreamTlsContext{}, `{"require_client_certificate":true,"common_tls_context":{"alpn_protocols":["h2","http/1.1"],
		"tls_params":{"tls_minimum_protocol_version":"TLSv1_2","tls_maximum_protocol_version":"TLSv1_3","cipher_suites":["ECDHE-RSA-AES128-GCM-SHA256"]},
		"tls_certificates":[{"certificate_chain":{"filename":"/c"},"private_key":{"filename":"/k"}}],
		"validation_context":{"trusted_ca":{"filename":"/ca"},"verify_certificate_spki":["NvqYIYSbgK2vCJpQhObf77vv+bQWtc5ek5RIOwPiC9A="],
			"verify_certificate_hash":["df6ff72fe9116521268f6f2dd4966f51df479883fe7037b39f75916ac3049d1a"]}}}`)
}
