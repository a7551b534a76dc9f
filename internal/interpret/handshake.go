package interpret

import (
	"cmp"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"

	"fairway/internal/interpret/way"
)

// handshake says whether the chain and the client agree about TLS.
func (w *walk) handshake(chain *listenerv3.FilterChain, part string) {
	socket := chain.GetTransportSocket()
	t := w.asked.TLS
	config := socket.GetTypedConfig()
	context := &tlsv3.DownstreamTlsContext{}
	switch {
	case socket == nil || way.TypeName(config) == "envoy.extensions.transport_sockets.raw_buffer.v3.RawBuffer":
		return
	case !way.Unpack(w.Resource, config, context):
		w.CannotSay("transport socket %s is not interpreted", way.Quote(cmp.Or(way.TypeName(config), socket.GetName())))
	case t == nil:
		w.Step("TLS", w.Resource, part, "the chain expects TLS and the client speaks plaintext")
		w.Closed("the client does not speak TLS, which the filter chain expects")
	case context.GetRequireClientCertificate().GetValue() && !t.Certificate:
		w.Closed("the client shows no certificate, which the filter chain requires")
	}
	common := context.GetCommonTlsContext()
	validation := common.GetValidationContext()
	if c := common.GetCombinedValidationContext(); c != nil {
		validation = c.GetDefaultValidationContext()
		w.doubtTrust(t)
	} else if common.GetValidationContextSdsSecretConfig() != nil {
		w.doubtTrust(t)
	}
	if t.Certificate && !w.accepted(validation, t) {
		w.Closed("the client's certificate has none of the names that the filter chain accepts")
	}
	w.terminated = true
	w.Step("TLS", w.Resource, part, "the chain ends TLS; client certificate: %t", t.Certificate)
}

func (w *walk) doubtTrust(t *TLS) {
	if t.Certificate {
		w.Step("TLS", w.Resource, "", "the accepted authority is a secret; the client's certificate is assumed to have it")
	}
}

// accepted reports whether the client's certificate has an accepted name.
func (w *walk) accepted(v *tlsv3.CertificateValidationContext, t *TLS) bool {
	names := v.GetMatchTypedSubjectAltNames()
	if len(names) == 0 {
		return true
	}
	got := way.Any(len(names), func(i int) way.Tri {
		list := t.URIs
		switch names[i].GetSanType() {
		case tlsv3.SubjectAltNameMatcher_URI:
		case tlsv3.SubjectAltNameMatcher_DNS:
			list = t.DNSNames
		default:
			return way.Unsure
		}
		return way.Any(len(list), func(k int) way.Tri { return w.Text(names[i].GetMatcher(), list[k]) })
	})
	return w.Decide(got, "the client's certificate has a name that the filter chain accepts")
}
