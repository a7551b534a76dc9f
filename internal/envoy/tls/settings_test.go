package tls_test

import (
	"slices"
	"testing"

	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/testing/protocmp"
	networking "istio.io/api/networking/v1alpha3"
	"sigs.k8s.io/yaml"

	"fairway/internal/envoy/tls"
)

func settings(t *testing.T, text string) *networking.ServerTLSSettings {
	t.Helper()
	body, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	out := &networking.ServerTLSSettings{}
	if err := protojson.Unmarshal(body, out); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestSettings: which credentials and files a server of a Gateway needs, and how Envoy terminates its TLS.
func TestSettings(t *testing.T) {
	for text, c := range map[string]struct {
		credentials, files []string
		authority          string
		server             tls.Server
	}{
		`{mode: SIMPLE, serverCertificate: /c, privateKey: /k, caCertificates: /ca}`: {
			files: []string{"/c", "/ca", "/k"}, server: tls.Server{Pairs: []tls.Pair{{Certificate: "/c", Key: "/k"}}},
		},
		`{mode: MUTUAL, serverCertificate: /c, privateKey: /k, caCertificates: /ca, caCrl: /crl, subjectAltNames: [a],
		verifyCertificateSpki: [s],
		  verifyCertificateHash: [h]}`: {
			files: []string{"/c", "/ca", "/crl", "/k"},
			server: tls.Server{
				Require: true, Pairs: []tls.Pair{{Certificate: "/c", Key: "/k"}},
				Trust: tls.Trust{CA: "/ca", CRL: "/crl", Names: []string{"a"}, SPKI: []string{"s"}, Hashes: []string{"h"}},
			},
		},
		`{mode: OPTIONAL_MUTUAL, tlsCertificates: [{serverCertificate: /c1, privateKey: /k}, {serverCertificate: /c2,
		privateKey: /k, caCertificates: /ca2}],
		  caCertificates: /ca}`: {
			files: []string{"/c1", "/c2", "/ca2", "/k"},
			server: tls.Server{
				Pairs: []tls.Pair{{Certificate: "/c1", Key: "/k"}, {Certificate: "/c2", Key: "/k"}}, Trust: tls.Trust{CA: "/ca2"},
			},
		},
		`{mode: SIMPLE, credentialName: one, credentialNames: [two], minProtocolVersion: TLSV1_2, maxProtocolVersion: TLSV1_3,
		cipherSuites: [x]}`: {
			credentials: []string{"one"},
			server: tls.Server{
				Secrets: []string{"kubernetes://one"}, Ciphers: []string{"x"},
				Min: tlsv3.TlsParameters_TLSv1_2, Max: tlsv3.TlsParameters_TLSv1_3,
			},
		},
		`{mode: MUTUAL, credentialNames: [one, two], serverCertificate: /c}`: {
			credentials: []string{"one", "two"}, authority: "one",
			server: tls.Server{
				Require: true, Secrets: []string{"kubernetes://one", "kubernetes://two"},
				Trust: tls.Trust{Secret: "kubernetes://one-cacert"},
			},
		},
		`{mode: OPTIONAL_MUTUAL, credentialName: one, caCertCredentialName: roots, caCertificates: /ca, insecureSkipVerify: true}`: {
			credentials: []string{"one"}, authority: "roots",
			server: tls.Server{Secrets: []string{"kubernetes://one"},
				Trust: tls.Trust{Secret: "kubernetes://roots-cacert", Unverified: true}},
		},
		`{mode: SIMPLE, credentialName: one, caCertCredentialName: roots}`: {
			credentials: []string{"one"}, server: tls.Server{Secrets: []string{"kubernetes://one"}},
		},
		`{mode: MUTUAL, serverCertificate: /c, privateKey: /k, caCertCredentialName: roots, caCertificates: /ca, caCrl: /crl}`: {
			authority: "roots", files: []string{"/c", "/k"},
			server: tls.Server{
				Require: true, Pairs: []tls.Pair{{Certificate: "/c", Key: "/k"}}, Trust: tls.Trust{Secret: "kubernetes://roots-cacert"},
			},
		},
	} {
		s := settings(t, text)
		if got := tls.Credentials(s); !slices.Equal(got, c.credentials) {
			t.Errorf("%s: credentials %q", text, got)
		}
		if got := tls.Files(s); !slices.Equal(got, c.files) {
			t.Errorf("%s: files %q, want %q", text, got, c.files)
		}
		if got := tls.Authority(s); got != c.authority {
			t.Errorf("%s: authorities of %q, want %q", text, got, c.authority)
		}
		c.server.ALPN, c.server.Defaults = []string{"h2"}, tls.Defaults{From13: true}
		if diff := cmp.Diff(c.server, tls.Terminating(s, tls.Authority(s), []string{"h2"}, c.server.Defaults)); diff != "" {
			t.Errorf("%s: -want +got:\n%s", text, diff)
		}
	}
}

// TestSecretNames: how users write the names of Secrets and ConfigMaps, and what their resources are called.
func TestSecretNames(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{tls.CertificateSecret("a"), "kubernetes://a"},
		{tls.CertificateSecret("kubernetes://a"), "kubernetes://a"},
		{tls.AuthoritySecret("a"), "kubernetes://a-cacert"},
		{tls.AuthoritySecret("a-cacert"), "kubernetes://a-cacert"},
		{tls.AuthoritySecret("configmap://a"), "configmap://a-cacert"},
		{tls.InConfigMap("ns", "a"), "configmap://ns/a"},
	} {
		if c.got != c.want {
			t.Errorf("%s, want %s", c.got, c.want)
		}
	}
	for written, want := range map[string][2]string{ // a Secret, a ConfigMap; empty: none
		"a": {"a", ""}, "kubernetes://a": {"a", ""}, "kubernetes://": {"", ""}, "file://a": {"", ""},
		"kubernetes://file://a": {"", ""}, "": {"", ""},
		"configmap://a": {"", "a"}, "configmap://ns/a": {"", "ns/a"}, "configmap://": {"", ""}, "configmap://x://a": {"", ""},
	} {
		for i, parse := range []func(string) (string, bool){tls.Credential, tls.ConfigMap} {
			got, ok := parse(written)
			if ok != (want[i] != "") || ok && got != want[i] {
				t.Errorf("%q: %q, %v, want %q", written, got, ok, want[i])
			}
		}
	}
	for resource, want := range map[string]struct {
		name      string
		authority bool
	}{
		"kubernetes://a": {"a", false}, "kubernetes://a-cacert": {"a", true}, "configmap://a-cacert": {"configmap://a", true},
	} {
		if name, authority := tls.CredentialOf(resource); name != want.name || authority != want.authority {
			t.Errorf("%s: %s, %v", resource, name, authority)
		}
	}
}

// TestSecretResources: parts that are not there are left out.
func TestSecretResources(t *testing.T) {
	for want, got := range map[string]*tlsv3.Secret{
		`{name: a, tlsCertificate: {certificateChain: {inlineBytes: Yw==}, privateKey: {inlineBytes: aw==}}}`: tls.Certificate("a",
			[]byte("c"), []byte("k"), nil),
		`{name: a, tlsCertificate: {certificateChain: {inlineBytes: Yw==}, privateKey: {inlineBytes: aw==},
		ocspStaple: {inlineBytes: cw==}}}`: tls.Certificate("a", []byte("c"), []byte("k"), []byte("s")),
		`{name: a, validationContext: {trustedCa: {inlineBytes: Yw==}}}`: tls.Authorities("a", []byte("c"), nil),
		`{name: a, validationContext: {trustedCa: {inlineBytes: Yw==}, crl: {inlineBytes: aw==}}}`: tls.Authorities("a",
			[]byte("c"), []byte("k")),
	} {
		body, err := yaml.YAMLToJSON([]byte(want))
		if err != nil {
			t.Fatal(err)
		}
		m := &tlsv3.Secret{}
		if err := protojson.Unmarshal(body, m); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(m, got, protocmp.Transform()); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
}

// TestProtocolNames: Istio's own proxies look for these names in ALPN.
func TestProtocolNames(t *testing.T) {
	for _, c := range []struct{ got, want []string }{
		{tls.OffersHTTP(true), []string{"istio-h2", "istio"}},
		{tls.OffersHTTP(false), []string{"istio-http/1.1", "istio"}},
		{tls.OffersConnections(), []string{"istio-peer-exchange", "istio"}},
		{tls.MeshHTTP(), []string{"istio-http/1.0", "istio-http/1.1", "istio-h2"}},
		{tls.MeshClients(), []string{"istio-peer-exchange", "istio", "istio-http/1.0", "istio-http/1.1", "istio-h2"}},
	} {
		if !slices.Equal(c.got, c.want) {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}
