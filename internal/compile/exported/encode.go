package exported

import (
	"fmt"
	"strings"

	"github.com/cespare/xxhash/v2"
	mcp "istio.io/api/mcp/v1alpha1"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"fairway/internal/config"
	"fairway/internal/envoy"
)

// applied is what kubectl keeps of an object for itself: all of it once more.
const applied = "kubectl.kubernetes.io/last-applied-configuration"

// encode builds the message for an object.
func encode(o *config.Object) *envoy.Encoded {
	plain := proto.MarshalOptions{Deterministic: true}
	body, err := plain.Marshal(o.Spec)
	if err != nil {
		return envoy.Sealed(nil, err)
	}
	m := &mcp.Resource{
		Metadata: &mcp.Metadata{
			Name:        Name(o.Key),
			Labels:      o.Labels.Map(),
			Annotations: o.Annotations,
		},
		Body: &anypb.Any{TypeUrl: "type.googleapis.com/" + string(o.Spec.ProtoReflect().Descriptor().FullName()), Value: body},
	}
	if o.Created != 0 {
		m.Metadata.CreateTime = &timestamppb.Timestamp{Seconds: o.Created}
	}
	if _, has := o.Annotations[applied]; has {
		m.Metadata.Annotations = map[string]string{}
		for k, v := range o.Annotations {
			if k != applied {
				m.Metadata.Annotations[k] = v
			}
		}
	}
	return versioned(plain, m)
}

// versioned marshals a message that contains its version: the hash of the rest, as an xDS stream writes it.
func versioned(plain proto.MarshalOptions, m *mcp.Resource) *envoy.Encoded {
	body, err := plain.Marshal(m)
	if err != nil {
		return envoy.Sealed(nil, err)
	}
	version := xxhash.Sum64(body)
	m.Metadata.Version = fmt.Sprintf("%016x", version)
	e := envoy.Sealed(plain.Marshal(m))
	e.Version = version
	return e
}

// Name returns the name of an object on the wire: "namespace/name".
func Name(k config.Key) string { return k.Namespace + "/" + k.Name }

// parseName returns the key of an object of a kind from its name on the wire.
func parseName(kind config.Kind, name string) config.Key {
	namespace, base, _ := strings.Cut(name, "/")
	return config.Key{Kind: kind, Namespace: namespace, Name: base}
}
