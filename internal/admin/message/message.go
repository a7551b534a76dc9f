// Package message reads resources as messages for debug pages. No message that it returns has a private key.
package message

import (
	"fmt"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoregistry"

	"fairway/internal/xdstype"
)

// Decode decodes bytes into the message of their type, and hides private keys.
func Decode(typ, name string, body []byte) (proto.Message, error) {
	kind, err := protoregistry.GlobalTypes.FindMessageByURL(typ)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	m := kind.New().Interface()
	if err := proto.Unmarshal(body, m); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if s, ok := m.(*tlsv3.Secret); ok {
		hide(s)
	}
	return m, nil
}

// hide takes the key out of a secret, as Envoy's own page does.
func hide(s *tlsv3.Secret) {
	if c := s.GetTlsCertificate(); c != nil {
		c.PrivateKey = &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: "[redacted]"}}
	}
}

// Types returns the types that the page of resources shows under a short name: route configurations come with their virtual hosts. Types
// that only agents receive have their own pages.
func Types(label string) (out []xdstype.Type) {
	for t := range xdstype.Types {
		envoys := xdstype.RankOf(t.URL()) != xdstype.OtherRank || t == xdstype.Extensions
		if envoys && (t.Label() == label || xdstype.Counted(t.URL()) == label) {
			out = append(out, t)
		}
	}
	return out
}
