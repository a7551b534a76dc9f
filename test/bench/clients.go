package main

import (
	"fmt"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/structpb"
)

// node describes client i as istio-proxy describes a sidecar.
func node(i int, namespace string) *corev3.Node {
	ip := fmt.Sprintf("10.61.%d.%d", i>>8, i&255)
	name := fmt.Sprintf("client-%d", i)
	text := structpb.NewStringValue
	return &corev3.Node{
		Id:      fmt.Sprintf("sidecar~%s~%s.%s~%s.svc.cluster.local", ip, name, namespace, namespace),
		Cluster: "client." + namespace,
		Metadata: &structpb.Struct{Fields: map[string]*structpb.Value{
			"NAME":          text(name),
			"NAMESPACE":     text(namespace),
			"ISTIO_VERSION": text("1.31.1"),
			"CLUSTER_ID":    text("Kubernetes"),
			"INSTANCE_IPS":  text(ip),
			"LABELS":        structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{"app": text("client")}}),
		}},
	}
}
